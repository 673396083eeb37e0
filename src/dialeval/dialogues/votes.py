"""Votes: utterances that wizards chose as appropriate replies, in JSONL, one choice a line.

A wizard marks *all* utterances that are appropriate at a turn of a dialogue, so one rater may have many votes
for one turn. The same choice twice is one vote.

    {"dialogue_id": "d1", "turn": 1, "rater": "ann", "utterance": "Hello! How can I help?"}

A wizard who finds none of the utterances appropriate has a record with `null` for the utterance: a turn where
all wizards did has no votes, which differs from a turn without records.

Wizards may choose an act instead of words (DeVault, Leuski and Sagae, 2011): then a record has an `act` and
no `utterance`.

    {"dialogue_id": "d1", "turn": 1, "rater": "ann", "act": "question"}
"""

import functools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dialeval import files
from dialeval.dialogues.dialogue import clean_text
from dialeval.errors import DataError

EXAMPLES = Path(__file__).parent / "examples" / "votes.jsonl"
_CHOSEN = ("utterance", "act")
_FIX = '{"dialogue_id": "…", "turn": 1, "rater": "…", "utterance": "…"}'


@dataclass(frozen=True, slots=True)
class Vote:
    """One rater chose one utterance, or one act, as appropriate at one turn of one dialogue, or neither.

    >>> Vote("d1", 1, "ann", "Hello!").record()
    {'dialogue_id': 'd1', 'turn': 1, 'rater': 'ann', 'utterance': 'Hello!'}
    >>> Vote("d1", 1, "ann", act="greeting").record()
    {'dialogue_id': 'd1', 'turn': 1, 'rater': 'ann', 'act': 'greeting'}
    """

    dialogue_id: str
    turn: int
    rater: str
    utterance: str | None = None
    act: str | None = None

    def record(self) -> dict[str, Any]:
        """Return the vote as a record of a file."""
        chosen = {"utterance": self.utterance} if self.act is None else {"act": self.act}
        return {"dialogue_id": self.dialogue_id, "turn": self.turn, "rater": self.rater, **chosen}


def read_votes(path: str | Path) -> list[Vote]:
    """Read a file of votes, in order; a repeated choice counts once.

    Raises:
        DataError: With file, line and field.
    """
    with files.open_binary(path) as file:
        return list(dict.fromkeys(_votes(path, files.lines(file, path))))


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
        raise DataError("expected a JSON object", file=path, line=number, fix=_FIX)
    return record


def _vote(record: dict[str, Any], path: str | Path, line: int) -> Vote:
    chosen = next((field for field in _CHOSEN if record.get(field) is not None), None)
    chosen = chosen or ("act" if "act" in record else "utterance")
    for field in ("dialogue_id", "turn", "rater", chosen):
        if field not in record:
            raise DataError("missing", file=path, line=line, field=field, fix=_FIX)
    if all(record.get(field) is not None for field in _CHOSEN):
        raise DataError("expected an utterance or an act, not both", file=path, line=line, field="act")
    for field in ("dialogue_id", "rater", chosen):
        if field == chosen and record[field] is None:
            continue
        if not isinstance(record[field], str):
            raise DataError("expected text", file=path, line=line, field=field, fix=_FIX)
        if field != "utterance" and not record[field].strip():
            raise DataError("empty", file=path, line=line, field=field)
    turn = record["turn"]
    if isinstance(turn, bool) or not isinstance(turn, int) or not 0 <= turn < 1 << 31:
        raise DataError(
            "expected the number of a turn",
            file=path,
            line=line,
            field="turn",
            fix="turns are counted from 0",
        )
    texts = {
        field: clean_text(record[field])[0]
        for field in ("dialogue_id", "rater", chosen)
        if record[field] is not None
    }
    return Vote(turn=turn, **texts)


def write_votes(votes: Iterable[Vote], path: str | Path) -> int:
    """Write votes as JSONL, `-` for standard output, and return how many were written."""
    lines = [json.dumps(vote.record(), ensure_ascii=False) + "\n" for vote in votes]
    files.write_text(path, "".join(lines))
    return len(lines)


def read_candidates(path: str | Path, speaker: str | None = None) -> list[str]:
    """Read the utterances to choose from: a `.txt` file, one utterance a line, or replies of dialogues.

    Args:
        path: A text file, or dialogues, whose replies are taken, each once.
        speaker: The speaker whose turns are taken, instead of the assistant's.
    """
    from dialeval.dialogues.dialogue import scored_turns
    from dialeval.dialogues.formats import read

    if Path(path).suffix.lower() != ".txt":
        replies = (
            dialogue.turns[turn].text for dialogue in read(path) for turn in scored_turns(dialogue, speaker)
        )
        return list(dict.fromkeys(text for text in replies if text.strip()))
    with files.open_binary(path) as file:
        try:
            lines = file.read().decode("utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise DataError(f"not UTF-8 text: {error}", file=path) from None
    return list(dict.fromkeys(line.strip() for line in lines if line.strip()))


def load_votes(name: str) -> tuple[Vote, ...]:
    """Return the votes of a file, or of the bundled `examples`.

    A file that has not changed since the last call is not read again.
    """
    path = EXAMPLES if name == "examples" else Path(name).absolute() if name == "-" else Path(name)
    return _loaded(str(path), _stamp(path))


def votes_mark(name: str) -> str:
    """Return the name of votes in signatures, with a hash of the file; an unreadable file keeps its name.

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


def majority_of(rounds: Sequence[Sequence[str | None]]) -> str | None:
    """Return the answer with most votes, and at least two, after the first round in which there is one.

    >>> majority_of([["yes", "no", None], ["no"]])
    'no'
    """
    counts: Counter[str] = Counter()
    for votes in rounds:
        counts.update(vote for vote in votes if vote)
        first, second = [*(count for _, count in counts.most_common(2)), 0, 0][:2]
        if first >= 2 and first > second:
            return counts.most_common(1)[0][0]
    return None
