"""The table of shapes, narrow ones first, and how the records of a file become dialogues by it.

The first record says which shape a file has. Where several fit, the first of the table is taken and that is
said; where none does, the record is refused and the nearest one named.
"""

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from dialeval.dialogues.dialogue import Dialogue, storable
from dialeval.dialogues.formats import (
    agents,
    apis,
    corpora,
    evaluations,
    exchanges,
    rows,
    spans,
    support,
    traces,
    transcripts,
)
from dialeval.dialogues.formats.chats import is_messages, messages_in, oldest_first, plain_message
from dialeval.dialogues.formats.records import Record, RecordShape, at, kept_of
from dialeval.dialogues.formats.values import decoded
from dialeval.errors import DataError
from dialeval.plugins import load_plugin, plugins

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_BY_NAME = {
    shape.name: shape
    for family in (evaluations, agents, traces, spans, exchanges, apis, transcripts, support, corpora, rows)
    for shape in family.SHAPES
}
_LAST = (
    *("ragas", "langchain", "anthropic", "messages", "sharegpt", "convlab", "parlai", "preferences"),
    *("rows", "sessions", "prompts", "bare"),
)
_ENVELOPES = (
    *("data", "items", "results", "records", "rows", "conversations", "tickets", "traces", "runs", "spans"),
    *("observations", "activities", "logs", "samples", "examples", "events", "chats", "dialogues"),
    *("store", "chat_store", "content", "response", "result", "export", "testRunData"),
    *("_embedded", "_results", "hits", "issues", "payload", "conversationHistoryRecords"),
)
Numbered = Iterator[tuple[int, Dialogue]]
Tell = Callable[[str], None]


def shapes() -> tuple[RecordShape, ...]:
    """Return all shapes, narrow ones first; those of other packages stand before the general ones."""
    return _shapes(tuple(plugins("formats", _BY_NAME).values()))


@cache
def _shapes(others: tuple["EntryPoint", ...]) -> tuple[RecordShape, ...]:
    return (
        *(shape for name, shape in _BY_NAME.items() if name not in _LAST),
        *(load_plugin(one, RecordShape) for one in others),
        *(_BY_NAME[name] for name in _LAST),
        evaluations.PREDICTIONS,
    )


def column_names() -> frozenset[str]:
    """Return the names of columns that hold whole dialogues."""
    return frozenset(key for shape in shapes() if shape.column for key in shape.keys)


def shape_named(name: str | None) -> RecordShape | None:
    """Return the shape that is called so, None if none is."""
    return next((shape for shape in shapes() if shape.name == name), None)


def fitting(record: object) -> list[RecordShape]:
    """Return the shapes that a record fits, the one to take first."""
    return [shape for shape in shapes() if isinstance(record, dict) and _matches(shape, record)]


def _matches(shape: RecordShape, record: Record) -> bool:
    try:
        return bool(shape.matches(record))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError):
        return False


def shape_of(record: object) -> RecordShape:
    """Find the shape of a record, or name the nearest one.

    >>> shape_of({"traj": [], "task_id": 3}).name
    'tau'
    """
    if not isinstance(record, dict):
        raise DataError(f"a JSON object is expected, not {type(record).__name__}")
    if found := fitting(record):
        return found[0]
    keys = ", ".join(list(map(str, record))[:8])
    raise DataError(f"no known kind of dialogue: keys are {keys or 'none'}", fix=_nearest(record))


def _nearest(record: Record) -> str:
    keys = {str(key).lower() for key in record}
    shared = Counter({shape: sum(key.lower() in keys for key in shape.keys) for shape in shapes()})
    shape, count = max(shared.items(), key=lambda one: (one[1], one[1] / (len(one[0].keys) or 1)))
    if not count:
        marks = {key.lower(): one for one in reversed(shapes()) for key in one.keys}
        close = [match for key in keys for match in difflib.get_close_matches(key, marks, 1, 0.8)]
        shape = marks[close[0]] if close else shape_named("messages") or shapes()[0]
    marks_of = ", ".join(dict.fromkeys(shape.keys[:4]))
    return f"nearest is {shape.name} ({marks_of}): {shape.what}; dialeval list formats shows all"


_CHATS = (
    *("turns", "history", "chat_history", "conversation", "dialog", "dialogue", "exchanges"),
    "messages",
)


def _exchanges(found: object) -> list[Any] | None:
    """Return the messages of a list of pairs: of texts, or of a question and its answer in an object."""
    if not isinstance(found, list) or not found or is_messages(found):
        return None
    if all(isinstance(one, Mapping) for one in found):
        keys = [plain_message(one) is None and exchanges.pair_keys(dict(one)) for one in found]
        found = [[one[key] for key in pair] if pair else None for one, pair in zip(found, keys, strict=True)]
    pairs = [one for one in found if isinstance(one, list) and len(one) == 2]
    texts = all(isinstance(text, str | None) for one in pairs for text in one)
    return messages_in(pairs) if texts and len(pairs) == len(found) else None


def as_record(found: object) -> object:
    """Return a record as an object: a list of messages is a conversation, and so is one of texts."""
    if isinstance(found, Mapping):
        found = _unboxed(found)
        if any(str(key).startswith("inputs.") for key in found):  # evaluations of Azure
            found = {str(key).removeprefix("inputs."): value for key, value in found.items()}
        key, said = next(((key, said) for key in _CHATS if (said := _exchanges(found.get(key)))), ("", None))
        rest = {name: value for name, value in found.items() if name != key}
        if said and exchanges.pair_keys(rest) is None:
            return {**rest, "messages": said}
    elif said := _exchanges(found):
        return {"messages": said}
    if isinstance(found, list | tuple) and found and all(plain_message(one) is not None for one in found):
        return {"messages": list(found)}
    if isinstance(found, list) and len(found) > 1 and all(isinstance(one, str) for one in found):
        return {"data": found, "note": "roles guessed: every second text is a reply"}
    return dict(found) if isinstance(found, Mapping) and not isinstance(found, dict) else found


_BOXES = ("$oid", "$date", "$uuid", "$numberLong", "$numberInt", "$numberDouble", "$numberDecimal")
_ATTRIBUTES = ("S", "N", "BOOL", "M", "L", "SS", "NS")


def _unboxed(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a record without what databases write around it: Elasticsearch, MongoDB, DynamoDB.

    >>> _unboxed({"_id": {"$oid": "65a1"}, "at": {"$date": {"$numberLong": "17"}}})
    {'_id': '65a1', 'at': '17'}
    """
    if isinstance(found.get("_source"), Mapping):
        return {"_id": found.get("_id"), **found["_source"]}
    if isinstance(logged := decoded(found.get("@message")), Mapping):  # CloudWatch
        return {"timestamp": found.get("@timestamp"), **logged}
    if set(found) == {"Item"} and isinstance(found["Item"], Mapping):
        return {key: _opened(value, _ATTRIBUTES) for key, value in found["Item"].items()}
    boxed = any(isinstance(one, Mapping) and len(one) == 1 and {*_BOXES} & {*one} for one in found.values())
    return {key: _opened(value, _BOXES) for key, value in found.items()} if boxed else found


def _opened(found: Any, boxes: tuple[str, ...]) -> Any:
    if isinstance(found, list):
        return [_opened(one, boxes) for one in found]
    if not isinstance(found, Mapping):
        return found
    if len(found) == 1 and (key := next(iter(found))) in boxes:
        return _opened(found[key], boxes)
    return {key: _opened(value, boxes) for key, value in found.items()}


def unwrapped(record: object) -> list[Any] | None:
    """Return the records that an export wraps (`{"data": […], "next": …}`), None if it wraps none.

    They stand in a list under any key, or under keys that name them (`{"conv-1": [messages]}`).

    >>> unwrapped({"data": [{"messages": []}], "has_more": False})
    [{'messages': []}]
    >>> unwrapped({"store": {"ann": [{"role": "user", "content": "Hi!"}]}})
    [{'id': 'ann', 'messages': [{'role': 'user', 'content': 'Hi!'}]}]
    """
    if isinstance(record, list):
        return None if not record or is_message(record[0]) else record
    if not isinstance(record, dict) or as_record(record) is not record:
        return None
    if "id" not in record and _fit(listed := record.get("messages"), ("rows", "sunshine")):
        return None if any(not shape.general for shape in fitting(record)) else list(listed or ())
    if _fits(record):
        return None
    for key in (*_ENVELOPES, *(key for key in record if key not in _ENVELOPES)):
        items = record.get(key)
        if key in _ENVELOPES and items and is_messages(items) and not _fit(items, ("rows", "slack")):
            held = oldest_first(items) if record.get("object") == "list" else items
            return [{**{name: value for name, value in record.items() if name != key}, "messages": held}]
        below = isinstance(items, list) and bool(items) and nested(items[0]) is not None
        if below or (_fit(items) and (key in _ENVELOPES or not is_messages(items))):
            beside = {"users": record["users"]} if key == "tickets" and "users" in record else {}
            return [{**beside, **one} if isinstance(one, dict) else one for one in items or ()]
        if key in _ENVELOPES and isinstance(items, dict):
            if _fits(items):
                return [items]
            if (inside := unwrapped(items)) is not None:
                return inside
    if record and all(map(is_messages, record.values())) and not fitting(record):
        return [{"id": key, "messages": items} for key, items in record.items()]
    if len(record) > 1 and all(isinstance(one, dict) and _fits(one) for one in record.values()):
        return [{"id": key, **one} for key, one in record.items()]
    return None


def _fits(record: object, names: tuple[str, ...] = ()) -> bool:
    """Whether a record has some shape, or one of these; general ones, which most have, come first."""
    known = (one for one in reversed(shapes()) if (one.name in names if names else one.name != "predictions"))
    return isinstance(record, dict) and any(_matches(shape, record) for shape in known)


def _fit(items: Any, names: tuple[str, ...] = ()) -> bool:
    """Whether one of the first items of a list is a record of some shape, or of one of these."""
    held = items[:3] if isinstance(items, list) else ()
    return any(_fits(as_record(one), names) for one in held if isinstance(one, dict | list))


def nested(record: object, depth: int = 4) -> tuple[str, dict[str, Any]] | None:
    """Return where the only list of messages below a record stands, and a record with it under `messages`.

    Of several the longest, where it holds what the others hold.

    >>> nested({"id": 7, "state": {"values": {"chat": [{"role": "user", "content": "Hi!"}]}}})
    ('state.values.chat', {'id': 7, 'messages': [{'role': 'user', 'content': 'Hi!'}]})
    """
    if not isinstance(record, Mapping):
        return None
    places = [(path, items) for path, items in _lists_below(record, "", depth) if is_messages(items)]
    places.sort(key=lambda place: len(place[1]), reverse=True)
    said = [[_said(one) for one in items] for _, items in places]
    if not places or not all(one in said[0] for some in said[1:] for one in some):
        return None
    path, items = places[0]
    top, holder = path.partition(".")[0], at(record, path.rpartition(".")[0]) if "." in path else None
    about = holder if isinstance(holder, Mapping) else {}
    beside = kept_of({"instructions": about.get("system"), **about}, "instructions", "model")
    return path, {**beside, **{key: one for key, one in record.items() if key != top}, "messages": items}


def _said(item: object) -> tuple[object, object]:
    plain = plain_message(item) or {}
    return plain.get("role"), plain.get("content")


def _lists_below(record: Mapping[str, Any], prefix: str, depth: int) -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        inner = decoded(value)
        if isinstance(inner, list):
            yield f"{prefix}{key}", inner
        elif isinstance(inner, Mapping) and depth:
            yield from _lists_below(inner, f"{prefix}{key}.", depth - 1)


class Losses:
    """Counts what a file holds that is not in its dialogues, with the first place of each kind."""

    def __init__(self, path: object, tell: Tell | None) -> None:
        self.path, self.tell = path, tell
        self.counts: Counter[str] = Counter()
        self.first: dict[str, int] = {}

    def __call__(self, number: int, why: str) -> None:
        """Count one more."""
        self.counts[why] += 1
        self.first.setdefault(why, number)

    def say(self) -> None:
        """Tell about everything that was lost."""
        for why, count in self.counts.items():
            if self.tell:
                times = f"{count} times, first in record" if count > 1 else "in record"
                self.tell(f"{self.path}: {times} {self.first[why]}: {why}")


def dialogues_of(
    records: Iterable[tuple[int, Any]],
    path: object,
    shape: RecordShape | None = None,
    tell: Tell | None = None,
    *,
    lenient: bool = False,
    took: Tell | None = None,
) -> Numbered:
    """Yield the dialogues of numbered records, in the given shape or the one that the first record has.

    Args:
        records: Records; a `DataError` in the place of one that could not be read, a `Dialogue` where it is
            one already.
        path: Their file, for errors and notes.
        shape: How to read them, instead of looking.
        tell: Told which shape was taken where several fit, and what was lost.
        lenient: Whether a record that cannot be read is counted as lost once a dialogue was read; else it is
            an error.
        took: Told the name of the shape that was taken.
    """
    lost = Losses(path, tell)
    stream = iter(records) if shape else _without_head(iter(records), lost)
    read_any = False
    for number, record in stream:
        if isinstance(record, Dialogue):
            if took and not read_any:
                took("messages")
            read_any = True
            yield number, record
            continue
        try:
            if isinstance(record, DataError):
                raise record
            record = as_record(record)  # noqa: PLW2901
            if shape is None and not fitting(record) and (below := nested(record)):
                record = below[1]  # noqa: PLW2901
                if tell:
                    tell(f"{path}: the messages were found under {below[0]}")
            chosen = shape or _chosen(record, path, number, tell)
            if took and not read_any:
                took(chosen.name)
            if chosen.join is not None:
                yield from _joined(chosen, chain(((number, record),), stream), path, lost, lenient=lenient)
                break
            made, shape = parse_record(record, chosen, path, number)
        except DataError as error:
            if not (lenient and read_any):
                raise
            lost(number, str(error).removeprefix(f"{path}:{number}: "))
            continue
        for one in made:
            read_any = True
            yield number, one
        if not made:
            lost(number, "a conversation without a message")
    lost.say()


def _without_head(records: Iterator[tuple[int, Any]], lost: Losses) -> Iterator[tuple[int, Any]]:
    """Leave out a first record that tells of the file and is no dialogue, where the second one is some."""
    first = list(islice(records, 1))
    if first and _is_strange(first[0][1]):
        second = list(islice(records, 1))
        if second and isinstance(second[0][1], dict) and not _is_strange(second[0][1]):
            lost(first[0][0], "a record about the file, no dialogue")
            first = []
        first += second
    return chain(first, records)


def _is_strange(record: object) -> bool:
    record = as_record(record)
    return isinstance(record, dict) and not fitting(record) and nested(record) is None


def _chosen(record: object, path: object, number: int, tell: Tell | None) -> RecordShape:
    found = fitting(record)
    narrow = [shape for shape in found if not shape.general]
    if len(narrow) > 1 and tell:
        others = ", ".join(shape.name for shape in narrow[1:])
        marks = ", ".join(key for key in found[0].keys if isinstance(record, dict) and key in record)
        why = f", because of {marks}" if marks else ""
        tell(f"{path}: read as {found[0].name}{why}; {others} would fit too (--format {others})")
    try:
        return found[0] if found else shape_of(record)
    except DataError as error:
        raise DataError(_bare(error), file=path, line=number, field=error.field, fix=error.fix) from None


def _bare(error: DataError) -> str:
    return str(error).removeprefix(f"{error.field}: ").removesuffix(f" ({error.fix})")


def _joined(
    shape: RecordShape, records: Iterable[tuple[int, Any]], path: object, lost: Losses, *, lenient: bool
) -> Numbered:
    def sound() -> Iterator[tuple[int, Record]]:
        read_any = False
        for number, record in records:
            if isinstance(record, dict):
                read_any = True
                yield number, as_record(record)  # type: ignore[misc]  # an object stays one
            elif lenient and read_any:
                lost(number, str(record).removeprefix(f"{path}:{number}: "))
            elif isinstance(record, DataError):
                raise record
            else:
                raise DataError(
                    f"a JSON object is expected, not {type(record).__name__}", file=path, line=number
                )

    try:
        assert shape.join is not None  # noqa: S101
        for number, made in shape.join(sound(), lost):
            yield number, storable(made)
    except DataError as error:
        if error.file is not None:
            raise
        raise DataError(_bare(error), file=path, field=error.field, fix=error.fix) from None
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise DataError(f"not of the shape of {shape.name}: {error!r}", file=path) from None
    except RecursionError:
        raise DataError("nested too deeply", file=path) from None


def parse_record(
    record: object, shape: RecordShape | None, path: object, line: int
) -> tuple[list[Dialogue], RecordShape]:
    """Read one record, in the given shape or the one it has, adding file and line to any complaint."""
    try:
        record = as_record(record)
        if shape is None or not isinstance(record, dict):
            shape = shape_of(record)
        elif not _matches(shape, record):
            below = None if fitting(record) else nested(record)
            record = below[1] if below else record
            shape = next((one for one in fitting(record) if one.parse), shape)
        if shape.parse is None:
            assert shape.join is not None  # noqa: S101
            return [made for _, made in shape.join([(line, record)], lambda *_: None)], shape  # type: ignore[list-item]
        made = shape.parse(record)  # type: ignore[arg-type]  # shape_of takes objects only
        return [storable(one) for one in (made if isinstance(made, list) else [made])], shape
    except DataError as error:
        raise DataError(_bare(error), file=path, line=line, field=error.field, fix=error.fix) from None
    except KeyError as error:
        raise DataError("missing", file=path, line=line, field=str(error.args[0])) from None
    except (TypeError, AttributeError, ValueError, IndexError) as error:
        raise DataError(f"not of the expected shape: {error}", file=path, line=line) from None
    except RecursionError:
        raise DataError("nested too deeply", file=path, line=line) from None


def is_message(item: object) -> bool:
    """Whether an object is one message of a conversation, rather than a conversation.

    >>> is_message({"role": "user", "content": "Hi!"}), is_message({"from": "gpt", "value": "Hi!"})
    (True, True)
    >>> is_message({"role": "user", "messages": []})
    False
    """
    if not isinstance(item, Mapping) or "messages" in item:
        return False
    found = fitting(dict(item))
    return (
        "role" in item
        if not found
        else found[0].name == "bare" or (plain_message(item) is not None and found[0].name == "prompts")
    )
