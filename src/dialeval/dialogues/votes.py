"""Votes: what wizards chose as an appropriate reply, in JSONL, one choice a line.

A wizard marks *all* utterances that would do at a turn of a dialogue, so there may be many votes of one rater
for one turn. The same choice twice is one vote.

    {"dialogue_id": "d1", "turn": 1, "rater": "ann", "utterance": "Hello! How can I help?"}

A wizard who says that none of the utterances fits is a record too, with `null` for the utterance: where all
did, every reply has no vote, which is not the same as a turn that nobody was asked about.

Wizards may choose what a reply should *do* in place of its words (DeVault, Leuski and Sagae, 2011): then a
record has an `act` and no `utterance`.

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
        """Return the vote as files have it."""
        chosen = {"utterance": self.utterance} if self.act is None else {"act": self.act}
        return {"dialogue_id": self.dialogue_id, "turn": self.turn, "rater": self.rater, **chosen}


def read_votes(path: str | Path) -> list[Vote]:
    """Read a file of votes, in its order; a choice that is there twice counts once.

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
        raise DataError("an object is expected", file=path, line=number, fix=_FIX)
    return record


def _vote(record: dict[str, Any], path: str | Path, line: int) -> Vote:
    chosen = next((field for field in _CHOSEN if record.get(field) is not None), None)
    chosen = chosen or ("act" if "act" in record else "utterance")
    for field in ("dialogue_id", "turn", "rater", chosen):
        if field not in record:
            raise DataError("missing", file=path, line=line, field=field, fix=_FIX)
    if all(record.get(field) is not None for field in _CHOSEN):
        raise DataError("an utterance or an act is expected, not both", file=path, line=line, field="act")
    for field in ("dialogue_id", "rater", chosen):
        if field == chosen and record[field] is None:
            continue
        if not isinstance(record[field], str):
            raise DataError("text is expected", file=path, line=line, field=field, fix=_FIX)
        if field != "utterance" and not record[field].strip():
            raise DataError("empty", file=path, line=line, field=field)
    turn = record["turn"]
    if isinstance(turn, bool) or not isinstance(turn, int) or not 0 <= turn < 1 << 31:
        raise DataError(
            "a turn's number is expected", file=path, line=line, field="turn", fix="turns are counted from 0"
        )
    texts = {
        field: clean_text(record[field])[0]
        for field in ("dialogue_id", "rater", chosen)
        if record[field] is not None
    }
    return Vote(turn=turn, **texts)


def write_votes(votes: Iterable[Vote], path: str | Path) -> int:
    """Write votes as JSONL, `-` for standard output; read back they are equal.

    Returns:
        How many votes were written.
    """
    lines = [json.dumps(vote.record(), ensure_ascii=False) + "\n" for vote in votes]
    files.write_text(path, "".join(lines))
    return len(lines)


def read_candidates(path: str | Path, speaker: str | None = None) -> list[str]:
    """Read what wizards and selecting systems choose from: a `.txt` file, one utterance a line, or replies.

    Args:
        path: A text file, or dialogues, whose replies are taken, each once.
        speaker: Whose turns are replies, in place of the assistant's.
    """
    from dialeval.dialogues.dialogue import scored_turns
    from dialeval.dialogues.formats import read

    if Path(path).suffix.lower() != ".txt":
        said = (one.turns[turn].text for one in read(path) for turn in scored_turns(one, speaker))
        return list(dict.fromkeys(text for text in said if text.strip()))
    with files.open_binary(path) as file:
        try:
            lines = file.read().decode("utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise DataError(f"not UTF-8 text: {error}", file=path) from None
    return list(dict.fromkeys(line.strip() for line in lines if line.strip()))


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


def majority_of(rounds: Sequence[Sequence[str | None]]) -> str | None:
    """Return the answer with more votes than any other, and at least two, after the first round that has one.

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
