"""`dialeval batch`: score large logs, on one machine or many."""

import contextlib
from typing import Annotated, Any

import typer

from dialeval.cli import output, tables
from dialeval.cli.options import Columns, Format, Json, Metrics

_REASONS = 5  # why rows were not scored: so many are shown, all are in the summary
Inputs = Annotated[
    list[str],
    typer.Argument(help="Files, folders or globs of dialogues, or addresses such as s3://logs/may/."),
]


def batch(
    inputs: Inputs,
    out: Annotated[str, typer.Option("-o", "--out", help="Folder or address to write, or to resume.")],
    metric: Metrics = None,
    on: Annotated[str, typer.Option(help="Where to run: local or ray.")] = "local",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of workers; default: one per core.")
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="With --on ray: address of the cluster; default: a local one.")
    ] = None,
    turns_per_shard: Annotated[
        int, typer.Option(min=1, help="Turns per shard: the unit of work and of recovery.")
    ] = 25_000,
    plan_only: Annotated[bool, typer.Option("--plan-only", help="Plan the shards and stop.")] = False,
    shard: Annotated[
        int | None, typer.Option(min=0, help="Score only this shard of a planned batch; for job arrays.")
    ] = None,
    format: Format = None,
    columns: Columns = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print errors only.")] = False,
    json: Json = False,
) -> None:
    """Score a large log in shards.

    Repeat the command to resume after an interruption.

    Example: dialeval batch logs/ -m turn-quality -o out/ --workers 8
    """
    from dialeval.dialogues.formats import TurnColumns
    from dialeval.errors import UsageError
    from dialeval.jobs.batch import batch as job

    if on not in ("local", "ray"):
        raise UsageError(f"--on {on}: expected local or ray")
    if address is not None and on != "ray":
        raise UsageError("--address needs --on ray")
    if shard is not None:
        _show_shard(job.score_one(out, shard, metric or ()), quiet, json)
        return
    with contextlib.ExitStack() as stack:
        with output.progress("dialogues planned", quiet=quiet) as watch:
            planned = stack.enter_context(
                job.prepare(
                    inputs,
                    metric or (),
                    out,
                    turns_per_shard=turns_per_shard,
                    format=format,
                    columns=TurnColumns.parse(columns) if columns else None,
                    watch=watch,
                )
            )
        if not quiet:
            _say_plan(planned)
            for line in planned.costs() if planned.missing else ():
                output.say(line)
        if plan_only:
            _show_plan(planned, quiet, json)
            return
        outcome = _run(planned, on, workers, address, quiet)
        _show(planned, quiet, json)
        _end(planned, outcome, out, quiet)


def _run(planned: Any, on: str, workers: int | None, address: str | None, quiet: bool) -> Any:
    """Show a bar on a terminal while working; on Ctrl-C, print what is kept."""
    try:
        with output.progress("turns scored", planned.turns_left, quiet=quiet) as watch:
            return planned.run(on, workers, address, watch)
    except KeyboardInterrupt:
        output.say("stopped: finished shards are kept; repeat the command to resume")
        raise


def _say_plan(planned: Any) -> None:
    shards, done = len(planned.plan.shards), len(planned.done)
    before = f", {done} of them done before" if done else ""
    counted = output.counted(planned.plan.turns, "turn")
    output.say(f"{counted} in {output.counted(shards, 'shard')}{before}")


def _show_plan(planned: Any, quiet: bool, json: bool) -> None:
    figures = {
        "shards": len(planned.plan.shards),
        "missing": len(planned.missing),
        "inputs": len(planned.plan.inputs),
        "dialogues": sum(shard.dialogues for shard in planned.plan.shards),
        "turns": planned.plan.turns,
    }
    if json or not quiet:
        output.print_records("Plan", figures, json)


def _show_shard(done: dict[str, Any], quiet: bool, json: bool) -> None:
    figures = {key: done[key] for key in ("shard", "dialogues", "turns", "rows", "bytes", "seconds")}
    if json or not quiet:
        output.print_records("Shard", figures, json)


def _show(planned: Any, quiet: bool, json: bool) -> None:
    summary = planned.summed()
    if json:
        output.print_json(planned.summary())
        return
    if quiet:
        return
    for row in planned.summary()["unscored"][:_REASONS]:
        output.say(f"{row['source'] or 'all'}: {row['n']} not scored: {row['note']}")
    tables.show_summary(summary)
    tables.say_signatures(summary.signatures)


def _end(planned: Any, outcome: Any, out: str, quiet: bool) -> None:
    """Print what is there and what is missing; exit 1 if something is."""
    for number, why in sorted(outcome.failed.items()):
        output.say(f"shard {number} failed three times: {why}")
    if outcome.stopped:
        output.say(f"stopped: {outcome.stopped}")
    if planned.missing:
        done = f"{len(planned.done)} of {output.counted(len(planned.plan.shards), 'shard')} are done"
        output.say(f"{done}; repeat the command to resume")
        raise typer.Exit(1)
    if not quiet:
        output.say(f"written: {out}")
