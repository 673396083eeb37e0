"""`dialeval annotate`: a study of people, from a file of dialogues to scores."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dialeval.cli import output
from dialeval.cli.options import Columns, Format, Json

if TYPE_CHECKING:
    from dialeval.annotation import Scheme, Study


def annotate(
    chats: Annotated[
        list[str],
        typer.Argument(help="Dialogues in any known format (two files for pairs), or a study folder."),
    ],
    scheme: Annotated[
        str | None, typer.Option(help="A ready scheme (see: dialeval list schemes) or a .toml file.")
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Folder of the study.")] = None,
    raters: Annotated[
        str, typer.Option(help="Names of the raters, with commas; new ones are added to a study.")
    ] = "",
    experts: Annotated[
        str, typer.Option(help="Experts, whose daily samples the raters are compared with.")
    ] = "",
    candidates: Annotated[
        Path | None,
        typer.Option(help="What wizards choose from: a .txt file, one utterance a line, or dialogues."),
    ] = None,
    overlap: Annotated[int | None, typer.Option(min=1, help="Raters for each item.")] = None,
    per_rater: Annotated[int | None, typer.Option(min=1, help="The most items a rater gets.")] = None,
    items: Annotated[int | None, typer.Option(min=1, help="Draw so many items at random.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of draw, assignment and order.")] = 0,
    earlier: Annotated[
        list[str] | None,
        typer.Option(help="An earlier study, or a file of votes: warn where a judge was a wizard."),
    ] = None,
    answers: Annotated[
        list[Path] | None, typer.Option(help="Take answers from a Label Studio or Potato file.")
    ] = None,
    export: Annotated[
        list[Path] | None,
        typer.Option(help="Write what has been answered: scores.parquet, votes.jsonl, label-studio.json, …"),
    ] = None,
    links: Annotated[bool, typer.Option("--links", help="Print the links and end.")] = False,
    host: Annotated[
        str, typer.Option(help="Where to listen; by default only for this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8750,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A name by which others reach this server; needed with --host 0.0.0.0."),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(help="What people open, if a proxy stands before it: https://rating.example.org"),
    ] = None,
    format: Format = None,
    columns: Columns = None,
    json: Json = False,
) -> None:
    """Let people judge dialogues in their browsers; the answers become scores.

    Run it again, with the same words or with the folder alone, to go on.

    Example: dialeval annotate chats.jsonl --scheme turn-quality -o study/ --raters ann,bob,cem
    """
    from dialeval.annotation import is_study

    changes = {"raters_per_item": overlap, "items_per_rater": per_rater, "items": items}
    people = _names(raters), _names(experts)
    if len(chats) == 1 and is_study(chats[0]):
        study = _resumed(Path(chats[0]), people)
    else:
        study = _made(chats, scheme, out, people, candidates, seed, changes, format, columns)
    try:
        _prepare(study, earlier or [], answers or [])
        if export:
            _export(study, export)
        elif links:
            _announce(study, address or f"http://{host}:{port}", json)
        else:
            _serve(study, host, port, allow_host or [], address, json)
    finally:
        study.close()


def _names(text: str) -> list[str]:
    return [name for name in (part.strip() for part in text.split(",")) if name]


def _resumed(folder: Path, people: tuple[list[str], list[str]]) -> "Study":
    from dialeval.annotation import Study

    study = Study(folder)
    if new := study.add(*people):
        output.say(f"added: {', '.join(new)}")
    return study


def _made(
    chats: list[str],
    scheme: str | None,
    out: Path | None,
    people: tuple[list[str], list[str]],
    candidates: Path | None,
    seed: int,
    changes: dict[str, int | None],
    format: str | None,
    columns: str | None,
) -> "Study":
    """Make a study, or go on with the one that is there if it was made of the same things."""
    from dialeval.annotation import create, is_study
    from dialeval.annotation.study import fingerprint
    from dialeval.dialogues import formats
    from dialeval.errors import UsageError

    if scheme is None or out is None:
        raise UsageError("a new study needs --scheme and -o FOLDER; an old one is opened by its folder alone")
    if "-" in chats:
        raise UsageError("a study is made of files, so that it can be gone on with: standard input is none")
    chosen, text = _scheme(scheme, changes)
    source = fingerprint([*chats, *([candidates] if candidates else [])], chosen, seed, format, columns)
    if is_study(out):
        study = _resumed(out, people)
        if study.settings["source"] != source:
            study.close()
            raise UsageError(
                f"{out} was made of other dialogues or another scheme; go on with it: dialeval annotate {out}"
            )
        return study
    read = formats.TurnColumns.parse(columns) if columns else None
    dialogues = [one for path in chats for one in formats.read(path, format, read)]
    return create(
        out,
        chosen,
        dialogues,
        people[0],
        experts=people[1],
        candidates=_candidates(candidates) if candidates else None,
        source=source,
        text=text,
        seed=seed,
    )


def _scheme(source: str, changes: dict[str, int | None]) -> tuple["Scheme", str]:
    import msgspec

    from dialeval.annotation.scheme import parse_scheme, scheme_text

    text, name = scheme_text(source)
    given = {field: value for field, value in changes.items() if value is not None}
    return msgspec.structs.replace(parse_scheme(text, name), **given), text


def _candidates(path: Path) -> list[str]:
    from dialeval import files
    from dialeval.annotation.study import replies
    from dialeval.dialogues import formats
    from dialeval.errors import DataError

    if path.suffix.lower() != ".txt":
        return replies(formats.read(path))
    with files.open_binary(path) as file:
        try:
            lines = file.read().decode("utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise DataError(f"not UTF-8 text: {error}", file=path) from None
    return [line.strip() for line in lines if line.strip()]


def _prepare(study: "Study", earlier: list[str], answers: list[Path]) -> None:
    from dialeval.annotation.earlier import overlaps, record
    from dialeval.annotation.exchange import load

    if earlier:
        record(study, earlier)
    for one in overlaps(study):
        output.say(f"warning: {one}")
    for path in answers:
        taken, there = load(study, path)
        output.say(f"{path}: {output.counted(taken, 'answer')} taken, {there} were there already")


def _export(study: "Study", paths: list[Path]) -> None:
    from dialeval.annotation.export import write
    from dialeval.annotation.snapshot import snapshot

    seen = snapshot(study)
    for path in paths:
        write(seen, path)
        output.say(f"written: {path}")


def _announce(study: "Study", address: str, json: bool) -> None:
    import sys

    from dialeval import files
    from dialeval.dialogues.visibility import visible

    rows = [(name, role, f"{address}/in/{token}") for name, (role, token) in study.people().items()]
    if json:
        output.print_json([dict(zip(("name", "role", "link"), row, strict=True)) for row in rows])
    elif files.is_terminal(sys.stdout):  # a table would break the links
        for name, role, link in rows:
            print(f"{visible(name)}{f' ({role})' if role == 'expert' else ''}\n  {link}")
    else:
        output.print_table("Links", ("name", "role", "link"), rows)


def _serve(study: "Study", host: str, port: int, hosts: list[str], address: str | None, json: bool) -> None:
    """Print everybody's link, then serve until Ctrl-C."""
    import contextlib
    import sys

    from dialeval.annotation.server import address_of, check_host, listen, outside, serve
    from dialeval.errors import UsageError

    try:
        from dialeval.annotation.app import make_app
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is missing: pip install 'dialeval[serve]'") from None
    known, is_secure = outside(address)
    names = check_host(host, [name.lower() for name in [*hosts, *known]])
    app: Any = make_app(study, names, is_secure=is_secure)
    taken = listen(host, port)
    _announce(study, address.rstrip("/") if address else address_of(taken, names), json)
    output.say(
        "Give each rater their own link; it is their key. Ctrl-C ends; run the command again to go on."
    )
    sys.stdout.flush()
    with contextlib.suppress(KeyboardInterrupt):
        serve(app, taken)
    output.say(f"ended; everything is in {study.folder}")
