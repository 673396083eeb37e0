"""Any file of dialogues as a stream, the place named when something is wrong, every id only once."""

import contextlib
import json
import os
import re
import zipfile
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from dialeval import files
from dialeval.dialogues.dialogue import Dialogue, content_id
from dialeval.dialogues.formats import actdial, tables
from dialeval.dialogues.formats.records import RecordShape, is_prompt
from dialeval.dialogues.formats.shapes import (
    Numbered,
    Tell,
    dialogues_of,
    fitting,
    parse_record,
    shape_named,
    shapes,
    unwrapped,
)
from dialeval.dialogues.formats.support import is_slack_export, slack_messages
from dialeval.dialogues.formats.texts import read_text
from dialeval.errors import DataError
from dialeval.stores import is_address

_OTHER_FORMATS = {
    "actdial": "ActDial: a JSON list of segments with their acts",
    "table": "CSV, TSV or Parquet with one turn a row; name columns with --columns",
    "text": "plain text: User: and System: lines, a blank line between dialogues; WhatsApp's and Slack's too",
    "dataset": "a Hugging Face dataset on disk (a folder of Arrow files)",
}
_LINES = (".jsonl", ".ndjson")
_TEXTS = (".txt", ".md", ".vtt", ".srt")
_CLOSED = {
    **dict.fromkeys((".xlsx", ".xls", ".ods"), ("a spreadsheet", "save it as CSV")),
    **dict.fromkeys((".zip", ".7z", ".tar", ".tgz", ".rar"), ("an archive", "unpack it")),
    **dict.fromkeys((".yaml", ".yml"), ("YAML", "write it as JSON")),
    **dict.fromkeys((".eml", ".mbox", ".msg"), ("a mailbox", "save a thread as text, From: above each mail")),
    **dict.fromkeys((".pdf", ".docx", ".html", ".htm", ".xml"), ("a page", "export JSON, CSV or plain text")),
    **dict.fromkeys((".db", ".sqlite", ".sqlite3"), ("a data base", "export its table as CSV")),
}
_CHUNK = 1 << 16
_RECENT = 1 << 17  # dialogues of a stream whose names are remembered, at least
_decode = msgspec.json.Decoder(Dialogue).decode
_ENDLESS: Any = {"parse_constant": lambda _: None}  # NaN, Infinity: no file of ours holds them
_raw_decode = json.JSONDecoder(object_pairs_hook=files.unique_keys, **_ENDLESS).raw_decode
_PLAIN_ROLES = frozenset(("user", "assistant", "system"))
Place = tuple[object, int, str]  # file, line, id


def known_formats() -> dict[str, str]:
    """Return all formats by name with a line about each, those of other packages too.

    >>> known_formats()["tau"]
    'tau-bench results: traj, task_id and reward'
    """
    return {shape.name: shape.what for shape in shapes()} | _OTHER_FORMATS


@contextlib.contextmanager
def readable(path: str | Path) -> Iterator[None]:
    """Turn the complaints of gzip and UTF-8 about broken bytes into errors that name the file."""
    try:
        yield
    except (EOFError, zlib.error) as error:
        raise DataError(f"the compressed file is broken: {error}", file=path, fix="copy it again") from None
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8: {error.reason}", file=path, fix="save the file as UTF-8") from None


def named(dialogue: Dialogue, nameless: Counter[str]) -> Dialogue:
    """Name a dialogue by its content; `nameless` counts how often that content came before."""
    name = content_id(dialogue)
    nameless[name] += 1
    return msgspec.structs.replace(dialogue, id=name if nameless[name] == 1 else f"{name}-{nameless[name]}")


class RecentCounts(Counter[Any]):
    """Numbers by name, of which at least the last `most` are remembered."""

    def __init__(self, most: int | None = None) -> None:
        super().__init__()
        self.most, self.old = most or _RECENT, dict[Any, int]()

    def __missing__(self, name: Any) -> int:
        return self.old.get(name, 0)

    def __setitem__(self, name: Any, number: int) -> None:
        if len(self) == self.most:
            self.old = dict(self)
            self.clear()
        super().__setitem__(name, number)


class UniqueIds:
    """Refuses an id that was used before, in eight bytes a dialogue: memory stays flat over a gigabyte.

    Hashes are sorted in place and looked through when their number has doubled, and at the end. Only when two
    are equal are the dialogues read again, up to the first that has an earlier one's id: which two places are
    named does not depend on the hashes. A live stream cannot be read again: there the hashes of the last ids
    are kept with their lines.

    Args:
        again: Yields file, line and id of all dialogues that have one, in their order.
        live: Whether they can be read only once.
    """

    def __init__(self, again: Callable[[], Iterator[Place]], *, live: bool = False) -> None:
        self.again, self.hashes, self.check_at = again, array("q"), 4096
        self.lines = RecentCounts()
        if live:
            self.add = self._keep  # type: ignore[method-assign]

    def add(self, name: str, file: object, line: int) -> None:
        """Take in the id of the next dialogue."""
        self.hashes.append(hash(name))
        if len(self.hashes) >= self.check_at:
            self.check()

    def _keep(self, name: str, file: object, line: int) -> None:
        hashed = hash(name)
        if first := self.lines[hashed]:
            raise _used_before(name, file, line, (file, first))
        self.lines[hashed] = line

    def check(self) -> None:
        """Refuse what has come twice so far."""
        import numpy as np

        self.check_at = 2 * max(2048, len(self.hashes))
        hashes = np.frombuffer(self.hashes, dtype=np.int64)
        hashes.sort()
        twice = set(hashes[1:][hashes[1:] == hashes[:-1]].tolist())
        del hashes  # or the array could not grow
        places: dict[str, tuple[object, int]] = {}
        for file, line, name in self.again() if twice else ():
            if hash(name) in twice:
                if name in places:
                    raise _used_before(name, file, line, places[name])
                places[name] = file, line


def _used_before(name: str, file: object, line: int, first: tuple[object, int]) -> DataError:
    where = f"line {first[1]}" if first[0] == file else f"{first[0]}:{first[1]}"
    shown = name if len(name) <= 80 else f"{name[:80]}…"
    fix = "ids must be unique; leave them out to have them made"
    return DataError(
        f"the id {shown!r} was already used in {where}", file=file, line=line, field="id", fix=fix
    )


def numbered(
    path: str | Path,
    format: str | None,
    columns: tables.TurnColumns | None,
    tell: Tell | None = None,
    *,
    lenient: bool = False,
    took: Tell | None = None,
) -> Numbered:
    """Choose the reader of a file; yield its dialogues with their lines. One without an id has the id "".

    Args:
        path: The file, or the folder of a Hugging Face dataset.
        format: One of `known_formats()`, instead of looking.
        columns: Which columns of a table of turns hold what.
        tell: Told what was guessed, and what was lost.
        lenient: Whether a record that cannot be read is counted as lost, once a dialogue was read.
        took: Told the format that was found.
    """
    suffix = ending(path)
    shape = shape_named(format)
    how = tables.TableReading(columns, shape, tell, lenient, took)
    if tables.is_dataset(path) or suffix == ".arrow":
        return tables.read_dataset(path, how)
    if suffix in _CLOSED:
        what, fix = _CLOSED[suffix]
        raise DataError(what, file=path, fix=fix)
    if suffix == ".parquet":
        return tables.read_parquet(path, how)
    if suffix in (".csv", ".tsv") or format == "table":
        return tables.read_csv(path, "\t" if suffix == ".tsv" else ",", how)
    if suffix in _TEXTS or format == "text":
        how.take("text")
        return read_text(path, tell)
    if format == "actdial" or (format is None and suffix == ".json" and actdial.holds_segments(path)):
        how.take("actdial")
        return enumerate(actdial.read_dialogues(Path(path)), 1)
    if is_slack_export(path):
        records: Iterator[tuple[int, Any]] = slack_messages(path)
    else:
        records = _packed_samples(path) if suffix == ".eval" else _records(path, format)
    return dialogues_of(records, path, shape, tell, lenient=lenient, took=took)


def is_one_source(path: str | Path) -> bool:
    """Whether a folder is read as a whole: a Hugging Face dataset, the export of a Slack workspace."""
    return tables.is_dataset(path) or is_slack_export(path)


_NO_ZIP = (
    *(zipfile.BadZipFile, zlib.error, StopIteration, KeyError, TypeError, ValueError, EOFError),
    *(RuntimeError, OSError),  # a password, places that cannot be
)


def _packed_samples(path: str | Path) -> Iterator[tuple[int, Any]]:
    """Yield the samples of a log of inspect_ai, a zip with a file for each, as logs of one sample."""
    with files.open_binary(path) as file:
        try:
            packed = zipfile.ZipFile(file)
            names = [name for name in packed.namelist() if name.startswith("samples/")]
            head = next(one for one in ("header.json", "_journal/start.json") if one in packed.namelist())
            size = sum(packed.getinfo(name).file_size for name in (head, *names))
            files.check_expansion(path, file.seek(0, os.SEEK_END), size)
            about = _load(path, _member(path, packed, head))["eval"]
            for number, name in enumerate(names, 1):
                yield number, {"eval": about, "samples": [_load(path, _member(path, packed, name))]}
        except _NO_ZIP as error:
            fix = "inspect log dump writes it as JSON"
            raise DataError(f"no log of inspect_ai: {error}", file=path, fix=fix) from None


def _member(path: str | Path, packed: Any, name: str) -> bytes:
    """Return a file of a zip, which has as many bytes as its header says or fewer."""
    size = packed.getinfo(name).file_size
    if size > files.max_record():
        raise files.too_large(f"{path}/{name}")
    with packed.open(name) as member:
        return bytes(member.read(size))


def _records(path: str | Path, format: str | None) -> Iterator[tuple[int, Any]]:
    """Yield the records of a JSON file with their lines: of an array, of one object, or one a line."""
    with files.open_binary(path) as file:
        start = first_line(path, file)
        if start.lstrip()[:1] == b"[" and not (ending(path) in _LINES and _is_whole(start)):
            yield from _array_items(path, file, start)
            return
        following = file.readline(_CHUNK) if ending(path) == ".json" else b""
        if is_one_object(path, start, following, format):
            yield from _object_records(path, start + following + file.read(), format)
            return
        rest = files.lines(file, path, 3 if following.endswith(b"\n") else 2)
        if following and not following.endswith(b"\n"):
            following += next(rest, b"")
        yield from _line_records(path, chain((start,), (following,) if following else (), rest))


def is_one_object(path: str | Path, start: bytes, following: bytes, format: str | None) -> bool:
    """Whether a file is one JSON object, on one line or over several, by its first two lines."""
    if start.lstrip()[:1] != b"{":
        return False
    if start.strip() == b"{" or format == "predictions":
        return True
    return ending(path) == ".json" and (not following.strip() or not _is_whole(start))


def _is_whole(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _object_records(path: str | Path, data: bytes, format: str | None) -> Iterator[tuple[int, Any]]:
    try:
        record = _load(path, data)
    except DataError:
        if not (several := _one_after_another(data)):
            raise
        yield from enumerate(several, 1)
        return
    if shape_named(format) is None and (inside := unwrapped(record)) is not None:
        yield from enumerate(inside, 1)
        return
    yield 1, record


def _one_after_another(data: bytes) -> list[Any]:
    """Return the objects of a file that holds several, each over many lines; none if it is broken."""
    found: list[Any] = []
    try:
        text, at = data.decode().rstrip(), 0
        while at < len(text):
            record, at = _raw_decode(text, at)
            found.append(record)
            at = next((place for place in range(at, len(text)) if not text[place].isspace()), len(text))
    except (DataError, ValueError, RecursionError):
        return []
    return found


def _load(path: str | Path, data: bytes) -> Any:
    try:
        return files.parse_json(data, **_ENDLESS)
    except DataError as error:
        raise DataError(str(error), file=path) from None
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8: {error.reason}", file=path, fix="save the file as UTF-8") from None
    except json.JSONDecodeError as error:
        cut = error.pos >= len(data.rstrip()) - 1 or error.msg.startswith("Unterminated")
        what = "the file breaks off" if cut else f"not JSON: {error.msg}"
        raise DataError(what, file=path, line=error.lineno, fix="one JSON object, or one a line") from None


def ending(path: str | Path) -> str:
    """Return how a name ends, that of an address before its query, without `.gz`.

    >>> ending("chats.JSONL.gz"), ending("s3://logs/may.parquet?region=eu-west-1")
    ('.jsonl', '.parquet')
    """
    name = str(path).partition("?")[0] if is_address(path) else str(path)
    return Path(name.removesuffix(".gz")).suffix.lower()


def first_line(path: str | Path, file: BinaryIO) -> bytes:
    """Return the first line of a file; of an array, which may be one line as a whole, how it begins."""
    try:
        line = file.readline(_CHUNK).removeprefix(b"\xef\xbb\xbf")
        if line.lstrip()[:1] != b"[" and len(line) >= _CHUNK - 3 and not line.endswith(b"\n"):
            line += next(files.lines(file, path), b"")
    except OSError as error:  # gzip's complaint about bytes that are not gzip
        raise DataError(str(error), file=path) from None
    return line


def _line_records(path: str | Path, lines: Iterator[bytes]) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(lines, 1):
        dialogue = _read_plain(line)
        if dialogue is not None:
            yield number, dialogue
            continue
        if (event := _EVENT.match(line)) and not (line := line[event.end() :].strip()).startswith(b"{"):
            continue
        try:
            record = _json(path, number, line)
        except DataError as error:
            yield number, error
            continue
        if record is not _BLANK:
            for inside in (record,) if (items := unwrapped(record)) is None else items:
                yield number, inside


def parse_line(
    path: str | Path, number: int, line: bytes, shape: RecordShape | None
) -> tuple[Dialogue | None, RecordShape | None]:
    """Read one line of JSONL, in the shape that the file has so far; a blank line holds no dialogue."""
    dialogue = _read_plain(line)
    if dialogue is not None:
        return dialogue, shape
    record = _json(path, number, line)
    if record is _BLANK:
        return None, shape
    made, shape = parse_record(record, shape, path, number)
    return made[0], shape


def one_a_line(start: bytes, format: str | None) -> bool:
    """Whether each line of JSONL is one dialogue, by the first one; pairs, trees and spans are not."""
    try:
        record = json.loads(start)
    except (ValueError, RecursionError):
        return True  # an error, said where it is read
    named = shape_named(format)
    found = [named] if named else fitting(record)
    return not found or found[0].column or found[0].name in ("langchain", "anthropic")


def _read_plain(line: bytes) -> Dialogue | None:
    """Decode a line in our own format that needs no second look, at the speed of msgspec; else None.

    What is not plain ASCII may need composing, roles may go by other names, tool messages hold no text, and
    thoughts and calls may stand in tags.
    """
    if not line.isascii() or (b"\\" in line and b"\\u" in line) or b"</t" in line or b"</details" in line:
        return None
    try:
        dialogue = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    many = len(dialogue.turns)
    often = line.count(b'"role"') > many or line.count(b'"content"') > many or line.count(b'"messages"') > 1
    if often or line.count(b'"id"') > 1 or line.count(b'"references"') > 1:
        return None  # a key may stand there twice
    for turn in dialogue.turns:
        if turn.speaker not in _PLAIN_ROLES or "tool_calls" in turn.meta:
            return None
    if dialogue.system and is_prompt(dialogue.system):
        return None
    numbers = dialogue.references
    if numbers and (min(numbers) < 0 or max(numbers) >= len(dialogue.turns)):
        return None
    return dialogue


_BLANK = object()
_EVENT = re.compile(rb"(data|event|id|retry|):\s?")  # a stream as a server sends it


def _json(path: str | Path, number: int, line: bytes) -> Any:
    try:
        text = line.decode()
        return files.parse_json(text, **_ENDLESS) if text.strip() else _BLANK
    except json.JSONDecodeError as error:
        broken = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        what, column = (
            ("the line breaks off", len(text.rstrip())) if broken else (f"not JSON: {error.msg}", error.colno)
        )
        raise DataError(
            what, file=path, line=number, field=f"column {column}", fix="one JSON object a line"
        ) from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"not UTF-8: {error.reason}", file=path, line=number, fix="save the file as UTF-8"
        ) from None
    except DataError as error:
        raise DataError(str(error), file=path, line=number) from None


def _array_items(path: str | Path, file: BinaryIO, start: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the items of a JSON array, holding one at a time; where it breaks off, the error is the last.

    Any other error is raised: nobody knows how much stands behind it.
    """
    items = _ArrayItems(path, file, start)
    try:
        yield from enumerate(items, 1)
    except DataError as error:
        if not items.cut_off:
            raise
        yield items.number, error


class _ArrayItems:
    """The items of a JSON array; what is no array from its first byte to its last is an error."""

    def __init__(self, path: str | Path, file: BinaryIO, start: bytes) -> None:
        import codecs

        self.path, self.file, self.number = path, file, 1
        self.ended = self.cut_off = False
        self.utf8 = codecs.getincrementaldecoder("utf-8")()
        try:
            self.text = self.utf8.decode(start).lstrip()[1:]
        except UnicodeDecodeError as error:
            raise self._wrong(f"not UTF-8: {error.reason}") from None

    def __iter__(self) -> Iterator[Any]:
        if self._next() != "]":
            yield self._item()
            while (mark := self._next()) == ",":
                self.text, self.number = self.text[1:], self.number + 1
                yield self._item()
            if mark != "]":
                raise self._wrong(f"a comma or ] is expected after it, not {mark!r}")
        self.text = self.text[1:]
        if self._next(at_end=True):
            raise self._wrong(
                f"after the closing ] of the array there is more: {self.text[:20]!r}", "one array a file"
            )

    def _next(self, *, at_end: bool = False) -> str:
        """Return the next character that is no space, without taking it; at the end of the file none."""
        while not (text := self.text.lstrip(" \t\r\n")) and not self.ended:
            self._read()
        self.text = text
        if not text and not at_end:
            self.cut_off = True
            raise self._wrong("the array is not closed: the file breaks off")
        return text[:1]

    def _item(self) -> Any:
        if (mark := self._next()) in ",]":
            raise self._wrong(f"an item is expected, not {mark!r}")
        while True:
            end, text = -1, self.text
            try:
                record, end = _raw_decode(text)
            except RecursionError:
                raise self._wrong("nested too deeply") from None
            except json.JSONDecodeError as error:
                hopeless = error.pos < len(text) - 64 and error.msg.startswith("Expecting")
                if self.ended or hopeless:
                    self.cut_off = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
                    what = "the file breaks off" if self.cut_off else f"not JSON: {error.msg}"
                    raise self._wrong(what) from None
            except DataError as error:
                raise self._wrong(str(error)) from None
            except ValueError:
                raise self._wrong("a number of more than 4,300 digits") from None
            if (end if end >= 0 else len(text)) > files.max_record():
                raise files.too_large(self.path, self.number)
            if 0 <= end < len(text) or (end >= 0 and self.ended):  # at the very end a number might go on
                self.text = text[end:]
                return record
            self._read()

    def _read(self) -> None:
        chunk = self.file.read(max(_CHUNK, len(self.text)))
        self.ended = not chunk
        try:
            self.text += self.utf8.decode(chunk, final=self.ended)
        except UnicodeDecodeError as error:
            raise self._wrong(f"not UTF-8: {error.reason}") from None

    def _wrong(self, message: str, fix: str | None = None) -> DataError:
        field = f"item {self.number} of the array"
        return DataError(message, file=self.path, line=self.number, field=field, fix=fix)
