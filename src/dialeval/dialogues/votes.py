"""Votes: what wizards chose as an appropriate reply, in JSONL, one choice a line.

A wizard marks *all* utterances that would do at a turn of a dialogue, so there may be many votes of one rater
for one turn. The same choice twice is one vote.

    {"dialogue_id": "d1", "turn": 1, "rater": "ann", "utterance": "Hello! How can I help?"}
"""

import functools
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dialeval import files
from dialeval.dialogues.dialogue import clean_text
from dialeval.errors import DataError

EXAMPLES = Path(__file__).parent / "examples" / "votes.jsonl"
_TEXTS = ("dialogue_id", "rater", "utterance")
_FIX = '{"dialogue_id": "…", "turn": 1, "rater": "…", "utterance": "…"}'


@dataclass(frozen=True, slots=True)
class Vote:
    """One rater chose one utterance as an appropriate reply at one turn of one dialogue.

    >>> Vote("d1", 1, "ann", "Hello!").utterance
    'Hello!'
    """

    dialogue_id: str
    turn: int
    rater: str
    utterance: str


def read_votes(path: str | Path) -> list[Vote]:
    """Read a file of votes, in its order; a choice that is there twice counts once.

    Raises:
        DataError: With file, line and field.
    """
    with files.open_binary(path) as file:
        return list(dict.fromkeys(_votes(path, file)))


def _votes(path: str | Path, lines: Iterable[bytes]) -> Iterator[Vote]:
    try:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield _vote(_json(line, path, number), path, number)
    except (EOFError, OSError) as error:  # gzip's complaint about a file that breaks off
        raise DataError(f"the compressed file is broken: {error}", file=path, fix="copy it again") from None


def _json(line: bytes, path: str | Path, number: int) -> dict[str, Any]:
    try:
        record = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:  # bad JSON, bad UTF-8, nested without end
        raise DataError(f"not JSON: {error}", file=path, line=number, fix=_FIX) from None
    if not isinstance(record, dict):
        raise DataError("an object is expected", file=path, line=number, fix=_FIX)
    return record


def _vote(record: dict[str, Any], path: str | Path, line: int) -> Vote:
    for field in ("dialogue_id", "turn", "rater", "utterance"):
        if field not in record:
            raise DataError("missing", file=path, line=line, field=field, fix=_FIX)
    for field in _TEXTS:
        if not isinstance(record[field], str):
            raise DataError("text is expected", file=path, line=line, field=field, fix=_FIX)
        if field != "utterance" and not record[field]:
            raise DataError("empty", file=path, line=line, field=field)
    turn = record["turn"]
    if isinstance(turn, bool) or not isinstance(turn, int) or not 0 <= turn < 1 << 31:
        raise DataError(
            "a turn's number is expected", file=path, line=line, field="turn", fix="turns are counted from 0"
        )
    name, rater, utterance = (clean_text(record[field])[0] for field in _TEXTS)
    return Vote(name, turn, rater, utterance)


def write_votes(votes: Iterable[Vote], path: str | Path) -> int:
    """Write votes as JSONL, `-` for standard output; read back they are equal.

    Returns:
        How many votes were written.
    """
    lines = [json.dumps(asdict(vote), ensure_ascii=False) + "\n" for vote in votes]
    files.write_text(path, "".join(lines))
    return len(lines)


def load_votes(name: str) -> tuple[Vote, ...]:
    """Open the votes that a field names: a file, or `examples` for the invented ones of the package.

    A file that was opened before and has not changed since is not read again.
    """
    path = EXAMPLES if name == "examples" else Path(name).absolute() if name == "-" else Path(name)
    return _loaded(str(path), _stamp(path))


def votes_mark(name: str) -> str:
    """Name votes in signatures by what is in the file; what cannot be read keeps its name.

    >>> votes_mark("nowhere.jsonl")
    'nowhere.jsonl'
    """
    path = EXAMPLES if name == "examples" else Path(name)
    stamp = _stamp(path)
    return name if stamp is None else f"{path.stem}@{_hashed(str(path), stamp)[:12]}"


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        return (path.stat().st_mtime_ns, path.stat().st_size) if path.is_file() else None
    except (OSError, ValueError):  # no such file, or no such name
        return None


@functools.lru_cache(maxsize=4)
def _loaded(path: str, _: tuple[int, int] | None) -> tuple[Vote, ...]:
    return tuple(read_votes(Path(path)))


@functools.lru_cache(maxsize=16)
def _hashed(path: str, _: tuple[int, int]) -> str:
    return files.sha256(path)
