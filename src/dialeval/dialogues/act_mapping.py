"""Dialogues of corpora with other acts, as if somebody had annotated their segments with ours.

`act_mapping.toml` is the table, with a reason for each line. A corpus labels whole utterances; such a label
goes to the one segment of the utterance that is more than a filler, and to none if there are several.
"""

import functools
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dialeval.dialogues.acts import canonical
from dialeval.dialogues.dialogue import Dialogue, Turn, takes_part
from dialeval.dialogues.segmentation import DEFAULT_SPLITTER, Splitter, split
from dialeval.dialogues.segments import Segment, with_acts

_TABLE = Path(__file__).with_name("act_mapping.toml")
_ENDS = " .,;:!?-\"'()"


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the table."""

    act: str
    why: str
    corpus: str | None
    labels: frozenset[str]
    only: re.Pattern[str] | None
    words: tuple[int, int]
    asked: bool | None
    phrase: bool

    def fits(self, corpus: str, label: str | None, text: str, telling: bool) -> bool:
        """Say whether the rule speaks of this segment; if it is not the telling one, only phrases do."""
        if not (self.phrase or (telling and label is not None)):
            return False
        plain = text.lower().strip(_ENDS)
        return (
            self.corpus in (None, corpus)
            and (not self.labels or label in self.labels)
            and (self.only is None or self.only.fullmatch(plain) is not None)
            and self.words[0] <= len(plain.split()) <= self.words[1]
            and self.asked in (None, "?" in text)
        )


@functools.cache
def rules() -> tuple[Rule, ...]:
    """Return the table in the order in which its lines are tried.

    >>> len(rules()), rules()[0].act
    (35, 'greeting')
    """
    return tuple(
        Rule(
            canonical(row["act"]),
            row["why"],
            row.get("corpus"),
            frozenset(row.get("labels", ())),
            re.compile(row["only"]) if "only" in row else None,
            tuple(row.get("words", (1, 40))),
            row.get("asked"),
            row.get("phrase", False),
        )
        for row in _table()["rule"]
    )


@functools.cache
def _table() -> dict[str, Any]:
    return tomllib.loads(_TABLE.read_text(encoding="utf-8"))


@functools.cache
def _fillers() -> re.Pattern[str]:
    return re.compile(_table()["fillers"]["only"])


def mapped(dialogue: Dialogue, splitter: Splitter = DEFAULT_SPLITTER) -> Dialogue:
    """Return the dialogue with our acts, where its corpus' labels say them; segments it has are kept.

    >>> from dialeval.dialogues.dialogue import Turn, dialogue
    >>> call = dialogue([Turn("A", "Well, where do you live?", {"tag": "qw"})])
    >>> [turn.meta["segments"] for turn in mapped(call).turns][0]
    [{'text': 'Well', 'act': None}, {'text': ' where do you live?', 'act': 'question'}]
    """
    if any("segments" in turn.meta for turn in dialogue.turns):
        return dialogue
    found = [
        segment
        for number, turn in enumerate(dialogue.turns)
        if takes_part(turn)
        for segment in _mapped_turn(number, turn, splitter)
    ]
    return with_acts(dialogue, found)


def _mapped_turn(number: int, turn: Turn, splitter: Splitter) -> Iterator[Segment]:
    pieces = split(turn.text, splitter)
    telling = [
        place
        for place, piece in enumerate(pieces)
        if len(pieces) == 1 or not _fillers().fullmatch(piece.lower().strip(_ENDS))
    ]
    corpus, label = _label(turn)
    for place, piece in enumerate(pieces):
        act = next((one.act for one in rules() if one.fits(corpus, label, piece, [place] == telling)), None)
        yield Segment(number, turn.speaker, piece, act)


def _label(turn: Turn) -> tuple[str, str | None]:
    """Name the corpus and the label of a turn; a turn with several different labels has none."""
    meta = turn.meta
    if "tag" in meta:
        return "swda", str(meta["tag"])
    if isinstance(meta.get("acts"), dict):
        kinds = {str(act[0]) for acts in meta["acts"].values() for act in acts}
        return "sgd", kinds.pop() if len(kinds) == 1 else None
    return "dailydialog", None if meta.get("act") is None else str(meta["act"])
