"""`dialeval coverage`: does a corpus surround the dialogues that are judged by it?"""

import json as jsons
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dialeval.cli import output
from dialeval.cli.options import Cache, Columns, Confidence, Format, Json, Threads

if TYPE_CHECKING:
    from dialeval.jobs.coverage import Coverage

_ENDINGS = (".svg", ".html", ".json")
_FARTHEST = 5


def coverage(
    chats: Annotated[str, typer.Argument(help="Dialogues in any known format, or the name of a public set.")],
    corpus: Annotated[Path, typer.Option(help="Folder of an index (see: dialeval index).")],
    column: Annotated[
        str | None, typer.Option(help="Features to compare; by default the first that can be made.")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="What the column text was made with; by default by its name.")
    ] = None,
    out: Annotated[
        list[Path] | None,
        typer.Option("-o", "--out", help="A picture, .svg or .html, or all figures, .json; repeat for more."),
    ] = None,
    part: Annotated[
        str | None, typer.Option(help="Part of a public set; by default test of the split manifest.")
    ] = None,
    confidence: Confidence = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of the samples of a large corpus.")] = 0,
    format: Format = None,
    columns: Columns = None,
    threads: Threads = None,
    cache: Cache = None,
    json: Json = False,
) -> None:
    """Lay dialogues over a corpus: how many have a near neighbour in it, and a picture of both.

    Example: dialeval coverage chats.jsonl --corpus my-index/ -o space.svg
    """
    from dialeval import files
    from dialeval.errors import UsageError
    from dialeval.jobs.coverage import cover

    wrong = [path for path in out or () if path.suffix.lower() not in _ENDINGS]
    if wrong:
        raise UsageError(f"cannot write {wrong[0]}: the name must end in {', '.join(_ENDINGS)}")
    found = cover(
        read_dialogues(chats, part, format, columns),
        corpus,
        column,
        encoder=encoder,
        confidence=confidence,
        seed=seed,
    )
    record = found.to_dict(data=chats, folder=str(corpus))
    for path in out or ():
        if path.suffix.lower() == ".json":
            text = jsons.dumps(record, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
        else:
            text = _picture(found, chats, path.suffix.lower() == ".html")
        files.write_text(path, text)
    if json:
        output.print_json(record)
    else:
        _show(found)
    for note in (*found.notes, *(f"written: {path}" for path in out or ())):
        output.say(note)


def read_dialogues(chats: str, part: str | None, format: str | None, columns: str | None) -> Any:
    """Read a file, a run folder or a portion of a public set."""
    from dialeval.dialogues import datasets, formats
    from dialeval.dialogues.splits import ROLES, portion, split_of
    from dialeval.errors import UsageError

    if chats in datasets.NAMES and not Path(chats).exists():
        split = split_of(chats)
        part = part or ("test" if split.test else "all")
        role = next((role for role in ROLES if role == part and getattr(split, role)), None)
        return portion(chats, role) if role else datasets.public_set(chats).dialogues(part)
    if part:
        raise UsageError("--part goes with a public set")
    return formats.read(chats, format, formats.TurnColumns.parse(columns) if columns else None)


def _show(found: "Coverage") -> None:
    """Print the number with what it stands on, and the test dialogues that are farthest away."""
    share = {"value": found.share.value, "low": found.share.low, "high": found.share.high, "reason": None}
    row = (
        found.column,
        found.n_corpus,
        found.n_left_out,
        found.limit,
        found.share.n,
        found.n_without,
        found.median,
        output.interval(share),
    )
    header = ("column", "corpus", "equal", "its median", "test", "no features", "their median", "covered")
    output.print_table("Coverage", header, [row])
    farthest = sorted(found.places, key=lambda place: -place.distance)[:_FARTHEST]
    output.print_table(
        "Farthest from the corpus",
        ("dialogue", "nearest", "distance", "covered"),
        [(place.id, place.nearest, place.distance, "yes" if place.covered else "no") for place in farthest],
        further=True,
    )


def _picture(found: "Coverage", chats: str, page: bool) -> str:
    from dialeval.reports import space

    near, far = ([(p.x, p.y) for p in found.places if p.covered is wanted] for wanted in (True, False))
    svg = space.space(found.corpus, near, far, found.explained, drawn_of=found.n_corpus)
    if not page:
        return space.to_file(svg)
    value, low, high = (f"{end:.1%}" for end in (found.share.value, found.share.low, found.share.high))
    sentences = [
        f"{value} of {found.share.n:,} dialogues have a neighbour in the corpus that is no farther away than "
        f"half of the corpus' own dialogues have theirs ({found.confidence:.0%} interval {low} to {high}).",
        f"That distance, 1 - cosine, is {found.limit:.3f} in the corpus; the median of the dialogues is "
        f"{found.median:.3f}. The corpus has {found.n_corpus:,} dialogues; {found.n_left_out:,} that say the "
        "same as one of the test dialogues were left out.",
    ]
    caption = (
        f"The column {found.column} in two dimensions (principal components of both together). "
        f"{len(found.corpus):,} of {found.n_corpus:,} corpus dialogues are shown"
        + (", drawn at random." if len(found.corpus) < found.n_corpus else ".")
    )
    return space.to_page(svg, f"{chats} over its corpus", sentences, caption)
