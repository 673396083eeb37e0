"""`dialeval inspect`, `convert`, `index`, `acts` and `coverage`: corpora of dialogues."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dialeval.cli import output
from dialeval.cli.options import Chats, ChatSource, Columns, Confidence, Format, Json, Overwrite, Running

if TYPE_CHECKING:
    from dialeval.jobs.acts import ActReport
    from dialeval.jobs.coverage import Coverage


def inspect(chats: Chats, format: Format = None, columns: Columns = None, json: Json = False) -> None:
    """Show how a log is read, before scoring it.

    Prints format, roles, tool calls, evidence, feedback and what is lost.

    Example: dialeval inspect langfuse-export.json
    """
    from dialeval.cli.dialogues import show_overview
    from dialeval.dialogues.formats.overview import overview

    summary = overview(chats, format, columns)
    if json:
        output.print_json(summary.to_dict())
        return
    output.say(*summary.told)
    show_overview(summary)


def convert(
    source: ChatSource,
    out: Annotated[str, typer.Option("-o", "--out", help="A .jsonl, .parquet or .csv file; - prints JSONL.")],
    ratings: Annotated[Path | None, typer.Option(help="Write a public set's ratings here too.")] = None,
) -> None:
    """Convert dialogues to JSONL, Parquet or CSV.

    Example: dialeval convert sharegpt.json -o chats.jsonl
    """
    from dialeval.dialogues import datasets, formats
    from dialeval.errors import UsageError

    chosen = source.public
    if ratings and not chosen:
        raise UsageError("--ratings needs a public set")
    count = formats.write(source.open(), out)
    if ratings and chosen:
        datasets.public_set(chosen[0]).ratings().write(ratings)
    output.say(f"{output.counted(count, 'dialogue')} written: {out}")


def index(
    source: ChatSource,
    _: Running,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", help="Folder of the index; default for a public set: where metrics find it."
        ),
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Encoder: folder, name or Hub id; default: the shipped one.")
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Vectors and words only: faster, but not for consensus metrics.")
    ] = False,
    layer: Annotated[int | None, typer.Option(help="Encoder layer for content.")] = None,
    acts_layer: Annotated[int | None, typer.Option(help="ActBERT layer for acts.")] = None,
    acts: Annotated[str | None, typer.Option(help="Segment-act classifier.")] = None,
    splitter: Annotated[
        str | None, typer.Option(help="Segmentation: a segmenter, punkt or punkt+comma.")
    ] = None,
    add: Annotated[bool, typer.Option("--add", help="Add to an existing index.")] = False,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Index a corpus, for floweval and for search.

    Example: dialeval index corpus.jsonl -o my-index/
    """
    from dialeval.errors import UsageError
    from dialeval.jobs.indexing import index_to
    from dialeval.models.consensus import corpus_folder

    public = source.public
    if out is None and not public:
        raise UsageError("an index needs a folder: -o my-index/")
    with output.progress("dialogues indexed") as watch:
        record = index_to(
            source.open("train"),
            out or corpus_folder(public[0] if public else ""),
            encoder,
            plain=plain,
            layer=layer,
            acts_layer=acts_layer,
            acts=acts,
            splitter=splitter,
            add=add,
            overwrite=overwrite,
            watch=watch,
        )
    for key in () if json else ("columns", "search"):
        if isinstance(record[key], dict):
            record[key] = ", ".join(f"{name}: {kind}" for name, kind in record[key].items())
    output.print_records("Index", record, json)


def acts(
    source: ChatSource,
    _: Running,
    out: Annotated[
        str | None,
        typer.Option(
            "-o", "--out", help="A .json file of ActDial segments, or .jsonl, .parquet, .csv; - prints JSONL."
        ),
    ] = None,
    splitter: Annotated[
        Literal["punkt", "punkt+comma"], typer.Option(help="Segmentation of turns without segments.")
    ] = "punkt+comma",
    model: Annotated[
        str | None, typer.Option(help="Segment-act classifier; default: the shipped one.")
    ] = None,
    expert: Annotated[
        Path | None, typer.Option(help="Segments with an expert's acts, to measure accuracy.")
    ] = None,
    json: Json = False,
) -> None:
    """Label segments with acts; print counts and agreement.

    Example: dialeval acts chats.jsonl -o chats-with-acts.jsonl
    """
    from dialeval.jobs.acts import annotate_acts

    with output.progress("dialogues read") as watch:
        report = annotate_acts(
            out=out, splitter=splitter, model=model, expert=expert, watch=watch, **vars(source)
        )
    output.say(*report.notes)
    if out == "-":
        return
    if json:
        output.print_json({"input": source.name, **report.to_dict()})
    else:
        _show_acts(report)
    if out:
        output.say(f"written: {out}")


def _show_acts(report: "ActReport") -> None:
    overall = report.whole
    output.print_table(
        "Segment acts",
        ("dimension", "act", "n", "share"),
        [(row["dimension"], row["act"], row["n"], _percent(row["share"])) for row in overall.by_act()],
    )
    output.print_table(
        "Dimensions",
        ("dimension", "n", "share"),
        [(row["dimension"], row["n"], _percent(row["share"])) for row in overall.by_dimension()],
        further=True,
    )
    parts = dict(report.parts) if len(report.parts) == 1 else {**report.parts, "together": overall}
    header = ("part", "dialogues", "turns", "segments", "segments per turn", "unlabelled", "uncut turns")
    output.print_table(
        "Corpus", header, [(name, *part.size().values()) for name, part in parts.items()], further=True
    )
    if report.agreement is not None:
        votes, count = report.agreement, len(report.undecided)
        kappas = output.interval(votes.kappa), output.interval(votes.kappa_without_dominant)
        heads = ("segments", "decided", "another round", "kappa", f"kappa without {votes.dominant}")
        row = (votes.segments, votes.segments - count, count, *kappas)
        output.print_table("Votes", heads, [row], further=True)
        if count:
            output.say(f"another round: {', '.join(report.undecided[:5])}{', …' if count > 5 else ''}")
    if report.expert:
        rows = [(name, output.interval(share), share.n) for name, share in report.expert.items()]
        output.print_table("Accuracy by the expert's sample", ("who", "accuracy", "n"), rows, further=True)
    if report.model:
        output.say(f"{output.counted(report.by_model, 'segment')} labelled by {report.model}")


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.3f} %"


_ENDINGS = (".svg", ".html", ".json")
_FARTHEST = 5


def coverage(
    source: ChatSource,
    _: Running,
    corpus: Annotated[Path, typer.Option(help="Folder of an index (see: dialeval index).")],
    column: Annotated[
        str | None, typer.Option(help="Features to compare; default: the first available.")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Encoder of the column text; default: the one of the index.")
    ] = None,
    out: Annotated[
        list[Path] | None,
        typer.Option("-o", "--out", help="Plot (.svg, .html) or all figures (.json); repeatable."),
    ] = None,
    confidence: Confidence = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of the sample of a large corpus.")] = 0,
    json: Json = False,
) -> None:
    """Measure how well a corpus covers your dialogues.

    Prints the share of dialogues with a near neighbour in the corpus; -o draws both.

    Example: dialeval coverage chats.jsonl --corpus my-index/ -o space.svg
    """
    from dialeval import files
    from dialeval.jobs.coverage import cover

    files.check_endings(out or (), _ENDINGS)
    result = cover(
        source.open("test", "all"), corpus, column, encoder=encoder, confidence=confidence, seed=seed
    )
    record = result.to_dict(data=source.name, folder=str(corpus))
    for path in out or ():
        ending = path.suffix.lower()
        drawn = "" if ending == ".json" else _picture(result, source.name, ending == ".html")
        files.write_text(path, drawn or files.json_text(record))
    if json:
        output.print_json(record)
    else:
        _show_coverage(result)
    for note in (*result.notes, *(f"written: {path}" for path in out or ())):
        output.say(note)


def _show_coverage(result: "Coverage") -> None:
    """Print the number with what it stands on, and the test dialogues that are farthest away."""
    row = (
        result.column,
        result.n_corpus,
        result.n_left_out,
        result.limit,
        result.share.n,
        result.n_without,
        result.median,
        output.interval(result.share),
    )
    header = ("column", "corpus", "equal", "its median", "test", "no features", "their median", "covered")
    output.print_table("Coverage", header, [row])
    farthest = sorted(result.places, key=lambda place: -place.distance)[:_FARTHEST]
    output.print_table(
        "Farthest from the corpus",
        ("dialogue", "nearest", "distance", "covered"),
        [(place.id, place.nearest, place.distance, "yes" if place.covered else "no") for place in farthest],
        further=True,
    )


def _picture(result: "Coverage", chats: str, page: bool) -> str:
    from dialeval.reports import space

    near, far = ([(p.x, p.y) for p in result.places if p.covered is wanted] for wanted in (True, False))
    svg = space.space(result.corpus, near, far, result.explained, drawn_of=result.n_corpus)
    if not page:
        return space.to_file(svg)
    value, low, high = (f"{end:.1%}" for end in (result.share.value, result.share.low, result.share.high))
    sentences = [
        f"{value} of {result.share.n:,} dialogues have a neighbour in the corpus that is no farther away "
        f"than half of the corpus' own dialogues have theirs ({result.confidence:.0%} interval {low} to "
        f"{high}).",
        f"That distance, 1 - cosine, is {result.limit:.3f} in the corpus; the median of the dialogues is "
        f"{result.median:.3f}. The corpus has {result.n_corpus:,} dialogues; {result.n_left_out:,} that say "
        "the same as one of the test dialogues were left out.",
    ]
    caption = (
        f"The column {result.column} in two dimensions (principal components of both together). "
        f"{len(result.corpus):,} of {result.n_corpus:,} corpus dialogues are shown"
        + (", drawn at random." if len(result.corpus) < result.n_corpus else ".")
    )
    return space.to_page(svg, f"{chats} over its corpus", sentences, caption)
