"""`dialeval train`, `tune` and `blend`: models from dialogues, fields and weights from ratings."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dialeval.cli import output
from dialeval.cli.models import Storage
from dialeval.cli.options import Columns, Drawing, Format, Json, Map, Running
from dialeval.errors import UsageError


def _list(wanted: bool) -> None:
    if wanted:
        from dialeval.training.registry import describe_recipe, recipe_names

        rows = [describe_recipe(name) for name in recipe_names()]
        output.print_table("Recipes", ["name", "what"], [list(row.values()) for row in rows])
        raise typer.Exit


def train(
    running: Running,
    recipe: Annotated[
        str, typer.Argument(help="Recipe as name[:option=value,…] (see: dialeval train --list).")
    ],
    data: Annotated[
        list[str],
        typer.Argument(
            help="Dialogues: files, folders, patterns, run folders, a folder of ActDial, or NAME "
            "(the training part of a public set), NAME/dev or NAME/text; set:NAME is NAME."
        ),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder of the artefact.")],
    dev: Annotated[
        list[str] | None,
        typer.Option(
            help="Dev dialogues, to select the best weights; repeatable. Default: the dev parts of the "
            "data, else one dialogue in ten."
        ),
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Encoder: folder, name or Hub id; default: the recipe's own.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override a setting of the recipe: field=value; repeatable."),
    ] = None,
    share: Annotated[
        float,
        typer.Option(min=0.001, max=1.0, help="Train on this share of the dialogues, for a learning curve."),
    ] = 1.0,
    storage: Storage = "fp32",
    device: Annotated[str | None, typer.Option(help="Torch device; default: a GPU if there is one.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start again instead of resuming.")] = False,
    licence: Annotated[
        str | None, typer.Option(help="Licence on the card of the artefact, such as cc-by-4.0.")
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(help="Also exclude what shares text with this (same syntax as the data); repeatable."),
    ] = None,
    json: Json = False,
    _: Annotated[
        bool, typer.Option("--list", callback=_list, is_eager=True, help="List the recipes.")
    ] = False,
) -> None:
    """Train a model by a recipe.

    Repeat the command to resume. Networks need the extra [train].

    Example: dialeval train segment-act actdial/ --encoder roberta-large -o acts
    """
    from dialeval.jobs.training import train_to

    with _stages() as watch:
        record = train_to(
            recipe,
            data,
            out,
            dev=dev or (),
            encoder=encoder,
            settings=_pairs(settings or ()),
            share=share,
            storage=storage,
            device=device,
            fresh=fresh,
            licence=licence,
            without=without or (),
            watch=watch,
        )
    if json:
        output.print_json(record)
    else:
        _show_trained(record)


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for text, (key, equals, _) in zip(texts, pairs, strict=True):
        if not (key and equals):
            raise UsageError(f"--set {text}: expected field=value")
    return {key: value for key, _, value in pairs}


@contextlib.contextmanager
def _stages() -> Iterator[Callable[[str, int], None]]:
    """Show one counter after the other; none while the training loop draws its bar."""
    with contextlib.ExitStack() as stack:
        stage, count = "", None

        def watch(now: str, number: int) -> None:
            nonlocal stage, count
            if now != stage:
                stack.close()
                stage, count = now, stack.enter_context(output.progress(now)) if now else None
            if count:
                count(number)

        yield watch


def _show_trained(record: dict[str, Any]) -> None:
    if record["in_dev_too"]:
        counted = output.counted(record["in_dev_too"], "dialogue")
        output.say(f"{counted} dropped from the training set: found in the dev set")
    guarded = f"available test data ({', '.join(record['guarded']) or 'none'})"
    counted = output.counted(record["dropped"], "dialogue")
    output.say(
        f"{counted} dropped: found in {guarded}" if record["dropped"] else f"no dialogue found in {guarded}"
    )
    if record["not_here"]:
        output.say(f"test data not available, so not checked: {', '.join(record['not_here'])}")
    if record["resumed_at"] is not None:
        output.say(f"resumed after step {record['resumed_at']}")
    header = ("recipe", "examples", "dev examples", "dropped", record["figure"], "steps", "folder", "sha")
    cells = ("recipe", "examples", "dev_examples", "dropped", "dev", "steps", "folder")
    output.print_table("Trained", header, [[*(record[cell] for cell in cells), record["sha"][:12]]])
    if record["steps"]:
        output.say(f"checkpoints: {record['folder'].rstrip('/')}.training; delete them when you are done")


def tune(
    drawing: Drawing,
    _: Running,
    metric: Annotated[str, typer.Argument(help="A metric, as name[:field=value,…].")],
    data: Annotated[
        list[str], typer.Argument(help="Public set with a tuning part, or dialogues and tables of ratings.")
    ],
    tried: Annotated[
        list[str] | None,
        typer.Option("--try", help="Field and values to try: field=value,value; repeatable."),
    ] = None,
    fixed: Annotated[list[str] | None, typer.Option("--fix", help="Fixed field: field=value.")] = None,
    of: Annotated[str | None, typer.Option(help="Dimension of the metric; default: its first.")] = None,
    level: Annotated[
        Literal["turn", "dialogue"] | None, typer.Option(help="Unit; default: that of the ratings.")
    ] = None,
    dimension: Annotated[
        str | None, typer.Option(help="Dimension of the ratings; default: the gold.")
    ] = None,
    map: Map = None,
    method: Annotated[
        Literal["pearson", "spearman", "kendall"], typer.Option("--method", help="Correlation to compare.")
    ] = "spearman",
    flat: Annotated[
        float,
        typer.Option(min=0.5, max=0.999, help="Confidence at which a difference counts as more than noise."),
    ] = 0.68,
    format: Format = None,
    columns: Columns = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write the record as JSON here.")] = None,
    json: Json = False,
) -> None:
    """Tune the fields of a metric on rated dialogues.

    Selects the middle of the region that does not differ from the best by more than noise.

    Example: dialeval tune floweval controllable --try w=0,0.1,0.2,0.3,0.5
    """
    from dialeval import files
    from dialeval.training import tuning
    from dialeval.training.trials import TuningSettings

    files.check_endings([out] if out else (), [".json"], "the record")
    tries = tuning.parse_fields(tried or (), "--try")
    fixes = _single(tuning.parse_fields(fixed or (), "--fix"))
    chats, ratings, at, gold = _rated_dialogues(data, map or (), format, columns, level, dimension)
    settings = TuningSettings(method, flat, **vars(drawing))
    with output.progress("dialogues scored") as watch:
        result = tuning.tune(
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
    record = result.to_dict(data=data)
    if out:
        files.write_text(out, files.json_text(record))
    if json:
        output.print_json(record)
    else:
        _show_tuned(result)
    if out:
        output.say(f"written: {out}")


def _single(fields: dict[str, tuple[str, ...]]) -> dict[str, str]:
    for field, values in fields.items():
        if len(values) > 1:
            raise UsageError(f"--fix {field}: expected one value; --try takes several")
    return {field: values[0] for field, values in fields.items()}


def _rated_dialogues(
    data: list[str],
    maps: list[str] | tuple[()],
    format: str | None,
    columns: str | None,
    level: Any,
    dimension: str | None,
) -> tuple[Any, Any, Any, str | None]:
    """Return dialogues, ratings, and the level and name of the gold, if known."""
    from dialeval.dialogues import formats
    from dialeval.jobs import runs
    from dialeval.training import tuning

    chats, *tables = data
    if chosen := formats.public_part(chats):
        if tables or maps:
            raise UsageError(f"{chats} has its own ratings: give no others")
        if chosen[1]:
            raise UsageError(f"{chats}: the tuning part is set by the split manifest; give {chosen[0]}")
        return tuning.tuning_part(chosen[0], level, dimension)
    if not tables and not maps:
        raise UsageError(f"no ratings of {chats}: add a table of ratings, or give a public set")
    return (
        formats.read(chats, format, columns, note=output.say),
        runs.load_scores(tables, maps),
        level,
        dimension,
    )


def _show_tuned(result: Any) -> None:
    """Print trials, regions and choice."""
    gold, method = result.gold, result.settings["method"].capitalize()
    title = f"{result.metric} {result.dimension} against human {gold['dimension']} at {gold['level']} level"
    rows = [
        (
            ",".join(f"{field}={_text(value)}" for field, value in trial.fields.items()),
            trial.figure.n,
            trial.n_unscored,
            output.interval(trial.figure),
            output.interval(trial.below),
            _mark(trial, result.chosen),
        )
        for trial in result.trials
    ]
    below = f"below the best [{result.settings['flat']:.0%}]"
    output.print_table(title, ("tried", "n", "unscored", method, below, "mark"), rows)
    shown = [
        (region.field, _texts(region.tried), _texts(region.flat), _text(region.chosen), region.note)
        for region in result.regions
    ]
    output.print_table("Flat regions", ("field", "tried", "flat", "chosen", "note"), shown, further=True)
    chosen = result.chosen
    use = [(f"-m {chosen.spec}", output.interval(chosen.figure), chosen.signature)]
    output.print_table("Use", ("use", method, "signature"), use, further=True)
    output.say(*result.notes)
    if result.n_dropped:
        count = output.counted(result.n_dropped, "dialogue")
        output.say(f"dropped, because found in a test set: {count}")


def _mark(trial: Any, chosen: Any) -> str:
    marks = [
        *(["best"] if trial.below.value == 0 else ["flat"] if trial.flat else []),
        *(["chosen"] if trial.spec == chosen.spec else []),
    ]
    return ", ".join(marks)


def _text(value: object) -> str:
    return "none" if value is None else "+".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _texts(values: Any) -> str:
    return ", ".join(map(_text, values))


PartModel = Annotated[str | None, typer.Option(help="Model for this part; default: the shipped one.")]


def blend(
    _: Running,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the weights.")],
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            help="Public sets, and run folders whose study has ratings; default: those of the shipped "
            "weights."
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(help="Hold out this set, and all that share its text, to evaluate on it; repeatable."),
    ] = None,
    turn_quality: PartModel = None,
    coherence: PartModel = None,
    reactions: Annotated[
        str | None, typer.Option(help="Model for mood and tone; default: the shipped one.")
    ] = None,
    followup: Annotated[
        str | None, typer.Option(help="Student of a language model for this part; default: none.")
    ] = None,
    reader: Annotated[str | None, typer.Option(help="Model for faults; default: the shipped one.")] = None,
    licence: Annotated[str | None, typer.Option(help="Licence on the card of the weights.")] = None,
    json: Json = False,
) -> None:
    """Fit the weights of the metric quality to ratings.

    Example: dialeval blend conture fed my-run/ -o my-quality/
    """
    from dialeval.jobs.runs import Run, is_run
    from dialeval.metrics.quality_parts import PartReader
    from dialeval.models.kinds import KINDS
    from dialeval.training.blending import Rated, blend_to

    shipped = PartReader()
    parts = PartReader(
        turn_quality or shipped.turn_quality,
        coherence or shipped.coherence,
        reactions or shipped.reactions,
        followup or shipped.followup,
        reader or shipped.reader,
    )
    rated_sources: list[str | Rated] = [
        Rated.of_scores(source, Run(source).dialogues(), Run(source).scores()) if is_run(source) else source
        for source in sources or ()
    ]
    with output.progress("dialogues read") as watch:
        record = blend_to(
            rated_sources, out, without=without or (), reader=parts, licence=licence, watch=watch
        )
    if json:
        output.print_json(record)
        return
    rows = [
        (level, term["part"], term["mean"], term["scale"], *term["weights"].values())
        for level, terms in record["levels"].items()
        for term in terms
    ]
    output.print_table("Weights", ("level", "part", "mean", "scale", *KINDS), rows)
    for level, counts in record["rated"].items():
        counted = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
        output.say(f"{level}s rated: {counted or 'none, so the shipped weights are kept'}")
    output.say(f"quality:blend={out} uses them; sha {record['sha'][:12]}")
