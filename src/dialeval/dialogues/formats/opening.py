"""One door for dialogues: files, folders, globs, run folders, public sets, lists and data frames.

Every command and `dialeval.read` open dialogues with `read`. What a text means is found in this order: `-` is
standard input; `set:NAME` is a public set; what exists on disk is that file or folder; `NAME` or `NAME/part`
is a public set; an address or a pattern stands for the files it matches.
"""

import fnmatch
import glob
import math
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from dialeval import files, stores
from dialeval.dialogues.dialogue import Dialogue, Turn, dialogue
from dialeval.dialogues.formats import tables
from dialeval.dialogues.formats.positions import Layout, Scan
from dialeval.dialogues.formats.reading import (
    RecentCounts,
    UniqueIds,
    ending,
    is_one_source,
    known_formats,
    named,
    numbered,
    readable,
)
from dialeval.dialogues.formats.shapes import Numbered, dialogues_of, is_message, shape_named
from dialeval.errors import DataError, UsageError
from dialeval.manifests import check_listed

ENDINGS = (".jsonl", ".ndjson", ".json", ".parquet", ".csv", ".tsv", ".eval")
_TEXT = ".txt"  # counts in a folder that holds no file of the other endings: a README is often beside those
_SET = "set:"
_PATTERN = re.compile(r"[*?\[]")
RUN, DIALOGUES, PARTS, SUCCESS = "run.json", "dialogues.jsonl", "scores", "_SUCCESS"  # of a run folder
Note = Callable[[str], None]
Columns = tables.TurnColumns | str | None


def read(
    source: Any,
    format: str | None = None,
    columns: Columns = None,
    *,
    note: Note | None = None,
    lenient: bool = False,
) -> Iterator[Dialogue]:
    """Yield dialogues, one after the other; files and public sets are read as a stream, in flat memory.

    The kind of a file follows from its name and first bytes, the shape of its records from the first one;
    gzip is seen through. A dialogue without an id is named by its content; the second one with the same
    content gets `-2`, and so on. Standard input may have no end, so there only the last 131,072 names, or up
    to twice as many, are remembered.

    Args:
        source: A file, a folder (all files below it with a known ending, in sorted order), a pattern such as
            `logs/*.jsonl`, an address (`s3://…`), a run folder, the folder of a finished batch, a public set
            (`fed`, `fed/test`, `set:fed`), `-` for JSONL on standard input, or a list of these. Or what is in
            memory: dialogues, conversations (`{"messages": […]}`), the messages of one conversation
            (`{"role": …, "content": …}`), a data frame of pandas or of any library that exports Arrow, with
            one turn or one conversation a row.
        format: One of `known_formats()` instead of looking.
        columns: Which columns of a table of turns hold what, or the same as text (`id=session,text=body`).
        note: Called with what a person should know (roles that were guessed, records that were lost); by
            default it is a warning.
        lenient: Whether a record that cannot be read is counted as lost, once a dialogue was read from its
            file; else it is an error.

    Raises:
        DataError: With file, line and field. A duplicate id names both places, at the latest at the end.

    >>> [one.id for one in read([{"id": "d1", "messages": [{"role": "user", "content": "Hi!"}]}])]
    ['d1']
    """
    if format is not None and format not in known_formats():
        raise UsageError(f"no format {format!r}; known: {', '.join(known_formats())}")
    given = tables.TurnColumns.parse(columns) if isinstance(columns, str) else columns
    how = _How(format, given, note, lenient)
    if isinstance(source, str | Path):
        return _checked(_named_inputs(source, how))
    if isinstance(source, Dialogue | Mapping):
        source = [source]
    if (frame := _frame_rows(source)) is not None:
        return _checked([_Input("the table", partial(_read_rows, *frame, how))])
    if not isinstance(source, Iterable):
        raise UsageError(
            f"cannot read dialogues from {type(source).__name__}: give a path, messages, dialogues, a data "
            "frame, or a list of these"
        )
    return _read_items(iter(source), how)


@dataclass(frozen=True, slots=True)
class _How:
    """How a source is read, and whom to tell."""

    format: str | None
    columns: tables.TurnColumns | None
    note: Note | None
    lenient: bool = False

    def tell(self, message: str) -> None:
        if self.note:
            self.note(message)
        else:
            warnings.warn(message, stacklevel=4)


@dataclass(frozen=True, slots=True)
class _Input:
    """Something that dialogues are read from: its name in errors, and how to read it, again if need be.

    The first time it is read with `telling`, if given, which also says what was guessed and lost.
    """

    name: str
    numbered: Callable[[], Numbered]
    live: bool = False
    telling: Callable[[], Numbered] | None = None


def _checked(inputs: Sequence[_Input]) -> Iterator[Dialogue]:
    """Yield the dialogues of all inputs; nameless ones get a name, and an id that comes again is refused."""
    live = any(one.live for one in inputs)
    ids = UniqueIds(lambda: _places(inputs), live=live)
    nameless: Counter[str] = RecentCounts() if live else Counter()
    for one in inputs:
        name, add = one.name, ids.add
        with readable(name):
            for line, made in (one.telling or one.numbered)():
                if made.id:
                    add(made.id, name, line)
                    yield made
                else:
                    yield named(made, nameless)
    ids.check()


def _places(inputs: Sequence[_Input]) -> Iterator[tuple[str, int, str]]:
    for one in inputs:
        for line, made in one.numbered():
            if made.id:
                yield one.name, line, made.id


def _named_inputs(source: str | Path, how: _How) -> list[_Input]:
    """Find what a text or path stands for."""
    text = str(source)
    if chosen := public_part(text, how.tell):
        name, part = chosen
        return [_Input(text, partial(_read_set, name, part or "all"))]
    if text != "-" and _exists(Path(text)) and is_batch(text):
        return [_Input(one.layout.path, partial(_read_planned, one)) for one in _planned_files(text)]
    found = ["-"] if text == "-" else source_files(text)
    read_one = partial(numbered, format=how.format, columns=how.columns, lenient=how.lenient)
    return [
        _Input(one, partial(read_one, one), text == "-", partial(read_one, one, tell=how.tell))
        for one in found
    ]


# Public sets


def public_part(text: str, note: Note | None = None) -> tuple[str, str | None] | None:
    """Return the public set and the part that a text names, None where it names none.

    What exists on disk under that name is meant instead, and `note` is told so; `set:` always means the set.

    >>> public_part("fed/test"), public_part("set:uss"), public_part("chats.jsonl")
    (('fed', 'test'), ('uss', None), None)
    """
    from dialeval.dialogues.datasets import set_names

    name, _, part = text.removeprefix(_SET).partition("/")
    if text.startswith(_SET):
        if name not in set_names():
            raise UsageError(f"{text}: no public set called {name!r}; known: {', '.join(set_names())}")
        return name, part or None
    if name not in set_names():
        return None
    if Path(text).exists():
        if note:
            note(f"{text}: what is read is the file or folder here; set:{text} is the public set")
        return None
    return name, part or None


def read_public(name: str, part: str = "all") -> Iterator[Dialogue]:
    """Yield a part of a public set: train, dev or test by the split manifest, others by their own name."""
    from dialeval.dialogues.datasets import public_set
    from dialeval.dialogues.splits import ROLES, portion, split_of

    role = next((role for role in ROLES if role == part and getattr(split_of(name), role)), None)
    yield from portion(name, role) if role else public_set(name).dialogues(part)


def part_of_set(name: str, wanted: Sequence[str]) -> str:
    """Return the first of some parts that a public set has, by the manifest or its own names, else the last.

    >>> part_of_set("fed", ("test", "all")), part_of_set("diasafety", ("test", "all"))
    ('test', 'all')
    """
    from dialeval.dialogues.datasets import public_set
    from dialeval.dialogues.splits import split_of

    split, parts = split_of(name), public_set(name).parts
    return next((one for one in wanted if getattr(split, one, ()) or one in parts), wanted[-1])


def _read_set(name: str, part: str) -> Numbered:
    yield from enumerate(read_public(name, part), 1)


# Files and folders


def source_files(source: str | Path | Sequence[str | Path]) -> list[str]:
    """List the files that a source on disk or in a store stands for, in an order that stays.

    A folder stands for every file below it with the ending of a format, those whose name begins with `.` or
    `_` left out; a run folder for the dialogues in it, a finished batch for those it scored.

    Raises:
        DataError: If there is no such file, or none with a known ending.
    """
    if not isinstance(source, str | Path):
        return list(dict.fromkeys(one for each in source for one in source_files(each)))
    text = str(source)
    found = _stored_files(text) if stores.is_address(text) else _local_files(text)
    if not found:
        raise DataError(f"no dialogues in {text}", fix=f"files end in {', '.join(ENDINGS)}, or .gz")
    return found


def _local_files(text: str) -> list[str]:
    path = Path(text)
    if is_batch(text):
        return [one.layout.path for one in _planned_files(text)]
    if is_run(text):
        return [str(check_listed(path, DIALOGUES))]
    if is_one_source(path):
        return [text]
    if path.is_dir():
        walk = os.walk(path, onerror=_cannot_list)
        below = sorted(Path(place, name) for place, _, names in walk for name in names)
        named = {one.relative_to(path).as_posix(): one for one in below}
        return [str(_plain_file(named[name])) for name in _meant(named)]
    if not _exists(path) and _PATTERN.search(text):
        return sorted(one for one in glob.glob(text, recursive=True) if Path(one).is_file())  # noqa: PTH207
    if not _exists(path):
        fix = "check the path; dialeval list sets shows public sets"
        raise DataError("no such file or folder", file=text, fix=fix)
    return [text]


def _cannot_list(error: OSError) -> None:
    raise DataError(error.strerror or str(error), file=error.filename) from None


def _plain_file(path: Path) -> Path:
    """Return a file of a folder; a pipe, a device or a link to nothing would be left out without a word."""
    if not path.is_file():
        what = "a pipe or a device, not a file" if path.exists() else "a link that leads nowhere"
        raise DataError(what, file=path, fix="remove it, or name the files to read")
    return path


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except ValueError:  # a NUL in the name
        raise DataError("no file has a NUL in its name", file=repr(str(path))) from None
    except OSError as error:  # a name that is too long
        raise DataError(str(error.strerror).lower(), file=str(path)[:200]) from None


def _stored_files(address: str) -> list[str]:
    path, mark, query = address.partition("?")
    if _PATTERN.search(path.partition("://")[2]):
        steps = path.split("/")
        fixed = next(place for place, step in enumerate(steps) if _PATTERN.search(step))
        folder, pattern = "/".join(steps[:fixed]) + mark + query, "/".join(steps[fixed:])
        names: Iterable[str] = fnmatch.filter(stores.sizes_below(folder), pattern)
    else:
        folder, names = address, stores.sizes_below(address)
        if "" in names or (not names and ending(address) in ENDINGS):  # what is not there is said on opening
            return [address]
        names = _meant(names)
    return [stores.joined(folder, name) for name in names]


def _meant(names: Iterable[str]) -> list[str]:
    """Keep the names of a folder that are dialogues by their ending."""
    seen = [one for one in names if not any(step.startswith((".", "_")) for step in one.split("/"))]
    found = [one for one in seen if ending(one) in ENDINGS]
    return found or [one for one in seen if ending(one) == _TEXT]


def is_one_of(path: str | Path, sources: Sequence[str]) -> bool:
    """Whether a file that is about to be written is among those that are read."""
    if not Path(path).is_file():
        return False
    there = [source for source in sources if source != "-" and _exists(Path(source))]
    return any(Path(path).samefile(one) for one in source_files(there))


def digests(sources: Sequence[str | Path]) -> list[str]:
    """Return a SHA-256 for each file that sources stand for; that of a public set is over its dialogues."""
    import hashlib

    found = []
    for source in sources:
        if chosen := public_part(str(source)):
            digest = hashlib.sha256()
            for made in read_public(chosen[0], chosen[1] or "all"):
                digest.update(msgspec.json.encode(made))
            found.append(digest.hexdigest())
        else:
            found += [files.sha256(path) for path in source_files(source)]
    return found


# Run folders and batches


def is_run(path: str | Path) -> bool:
    """Whether a path is a run folder with its dialogues in it."""
    return (Path(path) / RUN).is_file() and (Path(path) / DIALOGUES).is_file()


def is_batch(path: str | Path) -> bool:
    """Whether a path is the folder of a batch, finished or not."""
    return (Path(path) / RUN).is_file() and (Path(path) / PARTS).is_dir()


class _PlannedFile(msgspec.Struct):
    """A file that a batch has read, as its plan describes it."""

    layout: Layout
    sha256: str


class _Planned(msgspec.Struct):
    inputs: list[_PlannedFile]


def _planned_files(folder: str) -> list[_PlannedFile]:
    """Return what the plan of a finished batch says of its input files."""
    path = Path(folder)
    if not (path / SUCCESS).is_file():
        fix = "give the same dialeval batch command again"
        raise DataError("this batch is not finished", file=folder, fix=fix)
    with files.open_binary(check_listed(path, RUN)) as file:
        try:
            return msgspec.json.decode(file.read(), type=_Planned).inputs
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            message = f"not the plan of a batch: {error}"
            raise DataError(message, file=path / RUN, fix="score again") from None


def _read_planned(planned: _PlannedFile) -> Numbered:
    """Yield the dialogues of one input of a batch; one that has changed since is an error at the end."""
    layout = planned.layout
    survey = Scan(layout.path, layout.format, layout.columns)
    for _, number, made in survey:
        yield number, made
    if survey.sha256 != planned.sha256:
        fix = "the input has changed: plan again in another folder"
        raise DataError("no longer what was planned", file=layout.path, fix=fix)


# What is in memory


def _read_items(items: Iterator[Any], how: _How) -> Iterator[Dialogue]:
    """Read a list by its first item: dialogues, sources, conversations, or the messages of one."""
    first = next(items, None)
    if first is None:
        return iter(())
    items = chain((first,), items)
    if isinstance(first, Dialogue):
        return _same(items)
    if isinstance(first, str | Path):
        return _checked([one for item in items for one in _named_inputs(item, how)])
    if is_message(first) or isinstance(first, Turn) or _is_pair(first):
        return iter((dialogue(list(items)),))
    records = list(enumerate(items, 1))
    read_all = partial(dialogues_of, records, "the list", shape_named(how.format))
    return _checked([_Input("the list", read_all, telling=partial(read_all, tell=how.tell))])


def _is_pair(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str)


def _same(items: Iterable[Any]) -> Iterator[Dialogue]:
    for number, item in enumerate(items):
        if not isinstance(item, Dialogue):
            raise UsageError(f"item {number} is no Dialogue, as the first one is: {type(item).__name__}")
        yield item


def _frame_rows(source: Any) -> tuple[list[str], Callable[[], Iterator[dict[str, Any]]]] | None:
    """Return the columns of a data frame and what gives its rows; None if the source is none."""
    if hasattr(source, "to_dict") and hasattr(source, "iterrows"):  # pandas, whose cells hold any object
        return list(map(str, source.columns)), lambda: map(_row, source.to_dict("records"))
    if hasattr(source, "__arrow_c_stream__"):
        import pyarrow as pa

        table = pa.table(source)
        return table.column_names, lambda: (
            _row(row) for part in table.to_batches() for row in part.to_pylist()
        )
    return None


def _read_rows(names: list[str], rows: Callable[[], Iterator[dict[str, Any]]], how: _How) -> Numbered:
    way = tables.TableReading(how.columns, shape_named(how.format), how.tell, how.lenient)
    return tables.read_rows("the table", names, enumerate(rows(), 1), way)


def _row(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): _plain(cell) for name, cell in row.items()}


def _plain(value: Any) -> Any:
    """Turn a cell into what JSON holds; what is missing there (None, NaN, NA) is left out of a record."""
    if isinstance(value, Mapping):
        cells = {str(key): _plain(inner) for key, inner in value.items()}
        return {key: inner for key, inner in cells.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if hasattr(value, "tolist"):  # numpy: arrays and numbers
        return _plain(value.tolist())
    if type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and math.isnan(value)):
        return None
    return value.isoformat() if hasattr(value, "isoformat") else value
