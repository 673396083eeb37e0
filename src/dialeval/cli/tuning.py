"""`dialeval tune`: a metric's fields, chosen on what is named for tuning."""

import json as jsons
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dialeval.cli import output
from dialeval.cli.options import Cache, Columns, Confidence, Format, Json, Resamples, Seed, Threads


def tune(
    metric: Annotated[str, typer.Argument(help="A metric, as name[:field=value,…].")],
    data: Annotated[
        list[str],
        typer.Argument(help="A public set with a part for tuning, or dialogues and tables of ratings."),
    ],
    tried: Annotated[
        list[str] | None,
        typer.Option("--try", help="A field and the values to try: field=value,value; repeat for more."),
    ] = None,
    fixed: Annotated[
        list[str] | None, typer.Option("--fix", help="A field that is the same in all: field=value.")
    ] = None,
    of: Annotated[
        str | None, typer.Option(help="Which dimension of the metric; by default its first.")
    ] = None,
    level: Annotated[
        Literal["turn", "dialogue"] | None, typer.Option(help="By default where the ratings are.")
    ] = None,
    dimension: Annotated[str | None, typer.Option(help="Which ratings; by default the gold.")] = None,
    map: Annotated[
        list[str] | None,
        typer.Option("--map", help="Ratings in a foreign table: FILE:id=COLUMN,value=COLUMN[,turn=,rater=]"),
    ] = None,
    method: Annotated[
        Literal["pearson", "spearman", "kendall"],
        typer.Option("--method", "--statistic", help="Correlation that is compared."),
    ] = "spearman",
    flat: Annotated[
        float,
        typer.Option(min=0.5, max=0.999, help="Confidence of a difference that counts as more than noise."),
    ] = 0.68,
    resamples: Resamples = 10_000,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    format: Format = None,
    columns: Columns = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write the record as JSON here.")] = None,
    threads: Threads = None,
    cache: Cache = None,
    json: Json = False,
) -> None:
    """Choose a metric's fields: try combinations on rated dialogues, take the middle of what is flat.

    Example: dialeval tune floweval controllable --try w=0,0.1,0.2,0.3,0.5 --try idf=true,false
    """
    from dialeval import files
    from dialeval.errors import UsageError
    from dialeval.jobs import tuning
    from dialeval.jobs.trials import Settings

    if out and out.suffix.lower() != ".json":
        raise UsageError(f"cannot write the record to {out}: the name must end in .json")
    tries = tuning.parse_fields(tried or (), "--try")
    fixes = _single(tuning.parse_fields(fixed or (), "--fix"))
    chats, ratings, at, gold = _material(data, map or (), format, columns, level, dimension)
    settings = Settings(method, flat, resamples, confidence, seed)
    with output.progress("dialogues scored") as watch:
        found = tuning.tune(
            metric,
            chats,
            ratings,
            tries,
            fixes,
            of=of,
            level=at,
            dimension=gold,
            settings=settings,
            watch=watch,
        )
    record = found.to_dict(data=data)
    if out:
        files.write_text(out, jsons.dumps(record, ensure_ascii=False, indent=1, allow_nan=False) + "\n")
    if json:
        output.print_json(record)
    else:
        _show(found)
    if out:
        output.say(f"written: {out}")


def _single(fields: dict[str, tuple[str, ...]]) -> dict[str, str]:
    from dialeval.errors import UsageError

    for field, values in fields.items():
        if len(values) > 1:
            raise UsageError(f"--fix {field}: one value; --try takes several")
    return {field: values[0] for field, values in fields.items()}


def _material(
    data: list[str],
    maps: list[str] | tuple[()],
    format: str | None,
    columns: str | None,
    level: Any,
    dimension: str | None,
) -> tuple[Any, Any, Any, str | None]:
    """Return dialogues, ratings, and the level and name of the gold, as far as they are known."""
    from dialeval.dialogues import datasets, formats
    from dialeval.errors import UsageError
    from dialeval.jobs import runs, tuning

    chats, *tables = data
    if chats in datasets.NAMES and not Path(chats).exists():
        if tables or maps:
            raise UsageError(f"{chats} has ratings of its own: it takes no others")
        return tuning.tuning_part(chats, level, dimension)
    if not tables and not maps:
        raise UsageError(f"no ratings of {chats}: name a table of them too, or a public set instead")
    read = formats.read(chats, format, formats.TurnColumns.parse(columns) if columns else None)
    return read, runs.load_scores(tables, maps), level, dimension


def _show(found: Any) -> None:
    """Print trials, regions and choice."""
    gold, method = found.gold, found.settings["method"].capitalize()
    title = f"{found.metric} {found.dimension} against human {gold['dimension']} at {gold['level']} level"
    rows = [
        (
            ",".join(f"{field}={_text(value)}" for field, value in trial.fields.items()),
            trial.figure.n,
            trial.n_unscored,
            output.interval(_plain(trial.figure)),
            output.interval(_plain(trial.below)),
            _mark(trial, found.chosen),
        )
        for trial in found.trials
    ]
    below = f"below the best [{found.settings['flat']:.0%}]"
    output.print_table(title, ("tried", "n", "unscored", method, below, "mark"), rows)
    shown = [
        (region.field, _texts(region.tried), _texts(region.flat), _text(region.chosen), region.note)
        for region in found.regions
    ]
    output.print_table("Flat regions", ("field", "tried", "flat", "chosen", "note"), shown, further=True)
    chosen = found.chosen
    use = [(f"-m {chosen.spec}", output.interval(_plain(chosen.figure)), chosen.signature)]
    output.print_table("Use", ("use", method, "signature"), use, further=True)
    for note in found.notes:
        output.say(note)
    if found.n_dropped:
        count = output.counted(found.n_dropped, "dialogue")
        output.say(f"left out, because found in a test set: {count}")


def _mark(trial: Any, chosen: Any) -> str:
    marks = [
        *(["best"] if trial.below.value == 0 else ["flat"] if trial.flat else []),
        *(["chosen"] if trial.spec == chosen.spec else []),
    ]
    return ", ".join(marks)


def _plain(estimate: Any) -> dict[str, Any]:
    import dataclasses

    return dataclasses.asdict(estimate)


def _text(value: object) -> str:
    return "none" if value is None else "+".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _texts(values: Any) -> str:
    return ", ".join(map(_text, values))
