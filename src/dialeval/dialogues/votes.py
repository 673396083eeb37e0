"""Votes: what wizards chose as an appropriate reply, in JSONL, one choice a line.

{"dialogue_id": "d1", "turn": 1, "rater": "ann", "utterance": "Hello! How can I help?"}
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from dialeval import files
from dialeval.errors import DataError

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
    """Read a file of votes, in its order; a choice that is there twice counts once."""
    found = []
    with files.open_binary(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                vote = Vote(**json.loads(line.decode("utf-8-sig")))
            except (ValueError, TypeError, RecursionError) as error:
                raise DataError(f"not a vote: {error}", file=path, line=number, fix=_FIX) from None
            found.append(vote)
    return list(dict.fromkeys(found))


def write_votes(votes: Iterable[Vote], path: str | Path) -> int:
    """Write votes as JSONL, `-` for standard output; return how many."""
    lines = [json.dumps(asdict(vote), ensure_ascii=False) + "\n" for vote in votes]
    files.write_text(path, "".join(lines))
    return len(lines)
