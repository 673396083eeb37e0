"""Where a command may write: never over what it reads, nor over anything of another kind than it writes.

Every verb passes here before it begins (`Verb`): the options that write (`WRITES`) are held against what is
there now and against all paths among its other arguments, also those inside `FILE:id=…` or `corpus=FILE`,
and the file that standard input comes from. A table with people's ratings is of another kind than a metric's.
"""

import glob
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

from dialeval.errors import UsageError

_TABLES = ("scores", "ratings")
_CHATS = ("dialogues", "dialogues with acts")
WRITES: dict[str, dict[str, tuple[str, ...]]] = {
    "score": {"out": ("run folder", "scores")},
    "demo": {"out": ("run folder",)},
    "benchmark": {"out": ("run folder",)},
    "contrast": {"out": ("run folder",)},
    "study": {"out": ("study",)},
    "report": {"out": ("web page", "Markdown", "LaTeX")},
    "compare": {"out": ("web page", "Markdown", "comparison")},
    "batch": {"out": ("batch",)},
    "convert": {"out": _CHATS, "ratings": _TABLES},
    "acts": {"out": (*_CHATS, "segments")},
    "index": {"out": ("index",)},
    "coverage": {"out": ("coverage", "web page", "picture")},
    "train": {"out": ("model",)},
    "blend": {"out": ("model",)},
    "export": {"out": ("model",)},
    "tune": {"out": ("tuning",)},
    "respond": {"out": _CHATS},
    "simulate": {"out": _CHATS},
    "annotate": {
        "out": ("annotation project",),
        "export": (*_TABLES, "votes", "dialogues with acts", "JSON", "XML"),
    },
    "chat": {"out": ("conversations",)},
    "trust": {"intervals": ("scores",)},
    "plan": {"out": ()},
    "reproduce": {"out": ("reproduction",)},
}
"""By verb and option: the kinds of what it writes (see `kind_of`)."""

_WHOLE = ("run folder", "batch", "index", "model", "conversations")  # their files belong together
_ADDED = ("study", "web page", "Markdown", "LaTeX")  # what a run folder takes beside its own
_NAMES = {"title", "name", "kind", "source", "set", "paper", "raters", "experts", "people"}  # no paths
_SPECS = {"metric", "recipe", "system"}  # name:field=FILE: the name is none
_HEAD = 1 << 14
_RATER = re.compile(rb'[,"]human[:,"]')  # where a table names a source
_STANDARD_INPUT = "/dev/stdin"


class Verb(TyperCommand):
    """A verb that looks at its places before it begins."""

    def invoke(self, ctx: Any) -> Any:
        """Refuse what would be lost, then run the verb."""
        check_places(str(self.name), ctx.params)
        return super().invoke(ctx)


def check_places(verb: str, arguments: dict[str, Any]) -> None:
    """Refuse to write over what is read, or over anything of another kind.

    Raises:
        UsageError: Names the place.
    """
    written = WRITES.get(verb, {})
    read = {name: value for name, value in arguments.items() if name not in written and name not in _NAMES}
    inputs = [path for name, value in read.items() for path in _paths(value, is_spec=name in _SPECS)]
    if (cache := arguments.get("cache")) and (kind := kind_of(Path(cache))) in _WHOLE:
        raise UsageError(f"{cache} is there and holds something else ({kind}): choose another cache")
    for option, kinds in written.items():
        for place in _each(arguments.get(option)):
            path = Path(place)
            _check_names(place, *(one for value in arguments.values() for one in _each(value)))
            if place == "-" or not (path.is_file() or path.is_dir()):
                continue
            if verb != "annotate" or option != "out":  # a project is resumed by its folder
                _check_inputs(path, inputs, kinds)
            _check_kind(path, kinds)


def _check_names(place: str, *given: str) -> None:
    """Refuse a place that no file can have, and names that cannot be recorded in what is written."""
    for name in given:
        if name.encode("utf-8", "replace").decode() != name:
            raise UsageError(f"{name!r} is not UTF-8: rename it")
    try:
        Path(place).exists()
        is_circle = "\0" not in place and os.path.islink(os.path.realpath(place))  # noqa: PTH114
    except OSError as error:  # a name that is too long, or a current folder that was removed
        raise UsageError(f"{place[:100]}: {error.strerror}: choose another name for the output") from None
    if is_circle:
        raise UsageError(f"{place} is a link that leads in a circle: choose another name for the output")


def _check_inputs(path: Path, inputs: Iterable[Path], kinds: tuple[str, ...]) -> None:
    place = path.resolve()
    for input_path in inputs:
        read, is_folder = input_path.resolve(), input_path.is_dir()
        inside = is_folder and path.is_file() and place.is_relative_to(read)
        if inside and (kind_of(read) == "annotation project" or set(kinds) <= set(_ADDED)):
            continue  # an export beside its project; study and report, whose kind is looked at below
        around = path.is_dir() and read.is_relative_to(place)
        if path.samefile(input_path) or inside or around:
            raise UsageError(f"{path} is an input: choose another name for the output")


def _check_kind(path: Path, kinds: tuple[str, ...]) -> None:
    kind = kind_of(path)
    if kind and kind not in kinds:
        raise UsageError(f"{path} exists and is something else ({kind}): choose another name for the output")
    folder = path.resolve().parent
    if folder.name == "scores" and kind_of(folder.parent) == "batch":
        folder = folder.parent
    if path.is_file() and kind not in _ADDED and (parent_kind := kind_of(folder)) in _WHOLE:
        raise UsageError(
            f"{path} is part of the {parent_kind} {folder.name}: choose another name for the output"
        )


def _each(value: Any) -> Iterator[str]:
    for item in value if isinstance(value, list | tuple) else () if value is None else (value,):
        yield str(item)


def _paths(value: Any, *, is_spec: bool = False) -> Iterator[Path]:
    """Yield the paths that an argument names: itself, its matches, what stands in `FILE:…` or `key=FILE`."""
    for item in _each(value):
        text = _STANDARD_INPUT if item == "-" else item.partition(":")[2] if is_spec else item
        names = {text, *re.split(r"[:=,]", text), text.partition("=")[2]}
        names |= set(glob.glob(text, recursive=True)) if re.search(r"[*?\[]", text) else set()  # noqa: PTH207
        yield from (Path(item) for item in sorted(names) if item and "\0" not in item and _is_there(item))


def _is_there(name: str) -> bool:
    try:
        return Path(name).exists()
    except OSError:  # a name that is too long for one
        return False


# --- what something is --------------------------------------------------------------------------------------


def kind_of(path: Path) -> str:
    """Return what a file or folder holds, by its first bytes or its files; nothing for an empty one."""
    try:
        return _folder_kind(path) if path.is_dir() else _file_kind(path)
    except OSError as error:
        return f"not readable: {error.strerror}"


def _folder_kind(path: Path) -> str:
    there = {entry.name for entry in path.iterdir() if not entry.name.startswith(".")}
    marks = (
        ("annotation project", {"study.db"}),
        ("run folder", {"run.json", "scores.parquet"}),
        ("batch", {"run.json"}),
        ("model", {"SHA256SUMS", "config.json"}),
        ("index", {"config.json", "parts"}),
        ("conversations", {"people.json"}),
        ("reproduction", {"rows.jsonl"}),
    )
    if kind := next((kind for kind, names in marks if names <= there), ""):
        return kind
    if there == {"scores"}:  # a reproduction that was ended before its first row
        return "reproduction"
    if there == {"parts"} or (there and there <= {"log.jsonl", "SHA256SUMS"}):  # begun and killed
        return "index" if there == {"parts"} else "batch"
    return "a folder" if there else ""


def _file_kind(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(_HEAD).removeprefix(b"\xef\xbb\xbf").lstrip()
    start = head[:100].lower()
    if start.startswith(b"par1"):
        return _rated(path, _table_kind(_parquet_names(path))) or "a Parquet table"
    if start.startswith((b"{", b"[")):
        return _rated(path, _json_kind(head))
    signs = ((b"<!doctype html", "web page"), (b"<svg", "picture"), (b"<?xml", "picture"), (b"<view", "XML"))
    for sign, kind in signs:
        if start.startswith(sign):
            return kind
    names = {"# ": "Markdown", "% Tables of a dialeval study": "LaTeX"}
    for sign_, kind in names.items():
        if head.startswith(sign_.encode()):
            return kind
    header = head.partition(b"\n")[0].decode("utf-8", "replace").strip()
    return _rated(path, _table_kind(set(header.split(",")))) or ("something else" if head else "")


def _rated(path: Path, kind: str) -> str:
    """Return the kind of a table of scores that has people's ratings in it, wherever they stand."""
    return "ratings" if kind == "scores" and _has_raters(path) else kind


def _has_raters(path: Path) -> bool:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with path.open("rb") as file:
        if file.read(4) != b"PAR1":
            return any(_RATER.search(line) for line in file)
        file.seek(0)
        try:
            batches = pq.ParquetFile(file, read_dictionary=["source"]).iter_batches(columns=["source"])
            sources = {source for batch in batches for source in batch.column(0).unique().to_pylist()}
        except pa.ArrowException:  # damaged
            return False
    return any(str(source).partition(":")[0] == "human" for source in sources)


def _json_kind(head: bytes) -> str:
    if match := re.match(rb'\{\s*"version":\s*"(study|coverage|tuning|comparison)\.v\d', head):
        return match[1].decode()
    names = {name.decode() for name in re.findall(rb'"(\w+)"\s*:', head)}
    if {"index", "fs_text"} <= names:
        return "segments"
    if {"dialogue_id", "rater", "utterance"} <= names:
        return "votes"
    kind = _table_kind(names) or "JSON"
    return "dialogues with acts" if kind == "dialogues" and "segments" in names else kind


def _table_kind(names: set[str]) -> str:
    if {"dialogue_id", "source", "value"} <= names:
        return "scores"
    is_chats = {"id", "messages"} <= names or {"dialogue_id", "speaker", "text"} <= names
    return "dialogues" if is_chats else ""


def _parquet_names(path: Path) -> set[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return set(pq.read_schema(path).names)
    except pa.ArrowException:
        return set()
