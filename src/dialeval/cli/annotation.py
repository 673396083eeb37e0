"""`dialeval annotate`: an annotation project, from dialogues to scores."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dialeval.cli import output
from dialeval.cli.options import Columns, Format, Json, open_chats, split_names
from dialeval.cli.serving import PageServer, Port, print_links

if TYPE_CHECKING:
    from dialeval.annotation import AnnotationProject, Scheme


def annotate(
    server: PageServer,
    chats: Annotated[
        list[str],
        typer.Argument(help="Dialogues, as for score (two inputs for pairs), or the folder of a project."),
    ],
    scheme: Annotated[
        str | None, typer.Option(help="Built-in scheme (see: dialeval list schemes) or a .toml file.")
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Folder of the annotation project.")] = None,
    raters: Annotated[
        str, typer.Option(help="Comma-separated names of the raters; new ones are added to a project.")
    ] = "",
    experts: Annotated[
        str,
        typer.Option(help="Comma-separated names of experts, who get daily samples to compare raters with."),
    ] = "",
    candidates: Annotated[
        Path | None,
        typer.Option(help="Candidates for wizards: a .txt file, one utterance per line, or dialogues."),
    ] = None,
    speaker: Annotated[
        str | None, typer.Option(help="Speaker whose turns are rated or chosen; default: the assistant.")
    ] = None,
    overlap: Annotated[int | None, typer.Option(min=1, help="Raters per item.")] = None,
    per_rater: Annotated[int | None, typer.Option(min=1, help="Maximum items per rater.")] = None,
    items: Annotated[int | None, typer.Option(min=1, help="Size of a random sample of items.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of sampling, assignment and order.")] = 0,
    earlier: Annotated[
        list[str] | None, typer.Option(help="Earlier project or file of votes: warn if a judge was a wizard.")
    ] = None,
    answers: Annotated[
        list[Path] | None, typer.Option(help="Import answers from a Label Studio or Potato file.")
    ] = None,
    export: Annotated[
        list[Path] | None,
        typer.Option(help="Write the answers: scores.parquet, votes.jsonl, label-studio.json, …"),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option("--as", help="Kind of --export, if the file name does not tell: scores, votes, acts, …"),
    ] = None,
    links: Annotated[bool, typer.Option("--links", help="Print the links and exit.")] = False,
    port: Port = 8750,
    format: Format = None,
    columns: Columns = None,
    json: Json = False,
) -> None:
    """Collect human ratings in a browser.

    Repeat the command, or give the folder alone, to resume.

    Example: dialeval annotate chats.jsonl --scheme turn-quality -o study/ --raters ann,bob,cem
    """
    from dialeval.annotation import is_project
    from dialeval.errors import UsageError

    if kind is not None and not export:
        raise UsageError("--as needs --export")
    serving = None if export or links else server.names()
    changes: dict[str, int | str | None] = {"raters_per_item": overlap, "items_per_rater": per_rater}
    changes |= {"items": items, "speaker": speaker}
    people = split_names(raters), split_names(experts)
    if len(chats) == 1 and is_project(chats[0]):
        project = _resumed(Path(chats[0]), people)
    else:
        project = _made(chats, scheme, out, people, candidates, seed, changes, format, columns)
    try:
        _prepare(project, earlier or [], answers or [])
        if export:
            _export(project, export, kind)
        elif serving is None:
            _announce(project, server.address or f"http://{server.host}:{port}", json)
        else:
            _serve(project, server, port, *serving, json)
    finally:
        project.close()


def _resumed(folder: Path, people: tuple[list[str], list[str]]) -> "AnnotationProject":
    from dialeval.annotation import AnnotationProject

    project = AnnotationProject(folder)
    if new := project.add(*people):
        output.say(f"added: {', '.join(new)}")
    return project


def _made(
    chats: list[str],
    scheme: str | None,
    out: Path | None,
    people: tuple[list[str], list[str]],
    candidates: Path | None,
    seed: int,
    changes: dict[str, int | str | None],
    format: str | None,
    columns: str | None,
) -> "AnnotationProject":
    """Make a project, or resume the one that is there if it was made of the same input."""
    from dialeval.annotation import create, is_project
    from dialeval.annotation.project import fingerprint
    from dialeval.dialogues.formats.opening import digests
    from dialeval.dialogues.votes import read_candidates
    from dialeval.errors import UsageError

    if scheme is None or out is None:
        raise UsageError(
            "a new project needs --scheme and -o FOLDER; to open an existing one, give its folder"
        )
    if "-" in chats:
        raise UsageError("a project needs files, so that it can be resumed; standard input is refused")
    chosen, text = _scheme(scheme, changes)
    inputs = digests([*chats, *([candidates] if candidates else [])])
    source = fingerprint(inputs, chosen, seed, format, columns)
    if is_project(out):
        project = _resumed(out, people)
        if project.settings["source"] != source:
            project.close()
            raise UsageError(
                f"{out} has other dialogues or another scheme; to resume it: dialeval annotate {out}"
            )
        return project
    dialogues = [dialogue for source in chats for dialogue in open_chats([source], format, columns)]
    project = create(
        out,
        chosen,
        dialogues,
        people[0],
        experts=people[1],
        candidates=read_candidates(candidates, chosen.speaker) if candidates else None,
        source=source,
        text=text,
        seed=seed,
    )
    if project.numbered:
        output.say(
            f"warning: {project.numbered} dialogues share id and system with another; their scores have a "
            "number (d1@0) and join with no other scores: set the system of the dialogues"
        )
    return project


def _scheme(source: str, changes: dict[str, int | str | None]) -> tuple["Scheme", str]:
    import msgspec

    from dialeval.annotation.scheme import parse_scheme, scheme_text

    text, name = scheme_text(source)
    changed = {field: value for field, value in changes.items() if value is not None}
    return msgspec.structs.replace(parse_scheme(text, name), **changed), text


def _prepare(project: "AnnotationProject", earlier: list[str], answers: list[Path]) -> None:
    from dialeval.annotation.interchange import load_answers
    from dialeval.annotation.monitoring import overlaps, record

    if earlier:
        record(project, earlier)
    for overlap in overlaps(project):
        output.say(f"warning: {overlap}")
    for path in answers:
        taken, there = load_answers(project, path)
        output.say(f"{path}: {output.counted(taken, 'answer')} imported, {there} already present")


def _export(project: "AnnotationProject", paths: list[Path], kind: str | None) -> None:
    from dialeval.annotation.export import export_of, write
    from dialeval.annotation.project import snapshot

    for path in paths:  # all names are looked at before the first file is written
        export_of(project.scheme, path, kind)
    seen = snapshot(project)
    for path in paths:
        name = write(seen, path, kind)
        output.say(f"written: {path} ({name.rpartition('.')[0]})")


def _announce(project: "AnnotationProject", address: str, json: bool) -> None:
    people = project.people().items()
    print_links(
        [{"name": name, "role": role, "link": f"{address}/in/{token}"} for name, (role, token) in people],
        json,
    )


def _serve(
    project: "AnnotationProject", server: PageServer, port: int, names: list[str], is_secure: bool, json: bool
) -> None:
    """Print everybody's link, then serve until Ctrl-C."""
    from dialeval.annotation.app import make_app

    def announce(address: str) -> None:
        _announce(project, address, json)
        output.say(
            "Send each rater only their own link: it is the key. Ctrl-C stops; repeat the command to resume."
        )

    server.serve(make_app(project, names, is_secure=is_secure), port, names, announce)
    output.say(f"stopped; everything is in {project.folder}")
