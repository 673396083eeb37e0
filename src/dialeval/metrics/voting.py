"""How many wizards chose a reply: what Weak Agreement and Voted Appropriateness are made of.

Generated replies seldom equal a wizard's choice to the letter, so there are four ways for two to be the same:
`exact`, `normalised` (letters and digits, whatever the case and the punctuation), `encoder` (vectors with a
cosine of at least a threshold) and `act` (they do the same things in the same order, by segment acts).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Literal

import numpy as np

from dialeval.dialogues import Dialogue, Turn, scored_turns
from dialeval.dialogues.contexts import failure_of, place_of
from dialeval.dialogues.dialogue import context_of
from dialeval.dialogues.segments import segments_of
from dialeval.dialogues.splits import normalise
from dialeval.dialogues.votes import Vote, load_votes
from dialeval.errors import UsageError

Match = Literal["exact", "normalised", "encoder", "act"]
NEAR = "no wizard chose anything near it"
NO_FILE = "no votes: name a file, votes=votes.jsonl"
_AT_ONCE = 256  # dialogues whose replies are compared together
Choices = dict[str, set[str]]  # an utterance and the wizards who chose it


@dataclass(frozen=True, slots=True)
class Question:
    """A reply, and what wizards chose in its place."""

    reply: Turn
    before: Turn | None
    choices: Choices


@dataclass(frozen=True, slots=True)
class Counted:
    """A scored turn of a dialogue, and how many wizards chose it; None with a reason where that is open."""

    dialogue: Dialogue
    turn: int
    votes: int | None
    note: str | None = None


def count_votes(
    dialogues: Iterable[Dialogue],
    votes: str | None,
    match: Match,
    *,
    threshold: float,
    encoder: str,
    acts: str,
    speaker: str | None,
) -> Iterator[Counted]:
    """Count, for every scored turn in order, the wizards who chose what was said there."""
    if not 0 < threshold <= 1:
        raise UsageError(f"threshold {threshold}: a cosine above 0 and up to 1 is expected")
    cast = None if votes is None else _by_place(load_votes(votes))
    ways: dict[Match, Callable[[Sequence[Question]], list[int]]] = {
        "exact": lambda some: [_by_text(one, str.strip) for one in some],
        "normalised": lambda some: [_by_text(one, _letters) for one in some],
        "encoder": lambda some: _by_vector(some, encoder, threshold),
        "act": lambda some: _by_act(some, acts),
    }
    stream = iter(dialogues)
    while chunk := list(islice(stream, _AT_ONCE)):
        places = [(one, turn) for one in chunk for turn in scored_turns(one, speaker)]
        found = [_question(one, turn, cast) for one, turn in places]
        counts = iter(ways[match]([one for one in found if isinstance(one, Question)]))
        for (one, turn), asked in zip(places, found, strict=True):
            if isinstance(asked, Question):
                number = next(counts)
                yield Counted(one, turn, number, None if number else NEAR)
            else:
                yield Counted(one, turn, None, asked)


def _by_place(votes: Sequence[Vote]) -> dict[tuple[str, int], Choices]:
    found: dict[tuple[str, int], Choices] = {}
    for vote in votes:
        found.setdefault((vote.dialogue_id, vote.turn), {}).setdefault(vote.utterance, set()).add(vote.rater)
    return found


def _question(dialogue: Dialogue, turn: int, cast: dict[tuple[str, int], Choices] | None) -> Question | str:
    """Return what is to be compared, or why nothing is."""
    if cast is None:
        return NO_FILE
    if turn == len(dialogue.turns) - 1 and (why := failure_of(dialogue)) is not None:
        return f"the system failed: {why}"
    choices = cast.get((dialogue.id, turn)) or cast.get(place_of(dialogue, turn))
    if choices is None:
        return "no votes for this turn"
    before = context_of(dialogue, turn)
    return Question(dialogue.turns[turn], before[-1] if before else None, choices)


def _letters(text: str) -> str:
    """Fold case and punctuation; a text that has nothing else is compared as it stands."""
    return normalise(text) or text.strip()


def _by_text(one: Question, fold: Callable[[str], str]) -> int:
    said = fold(one.reply.text)
    return _wizards(one, [text for text in one.choices if fold(text) == said])


def _wizards(one: Question, chosen: Sequence[str]) -> int:
    return len(set().union(*(one.choices[text] for text in chosen)))


def _by_vector(asked: Sequence[Question], name: str, threshold: float) -> list[int]:
    from dialeval.models.encoder import Encoder

    texts = list(dict.fromkeys(text for one in asked for text in (one.reply.text, *one.choices)))
    vectors = Encoder.load(name).vectors(texts)
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    rows = dict(zip(texts, unit, strict=True))

    def near(one: str, other: str) -> bool:
        if one == other or not (one.strip() and other.strip()):
            return one.strip() == other.strip()
        return round(float(rows[one] @ rows[other]), 4) >= threshold  # rounding noise must not decide

    return [_wizards(one, [text for text in one.choices if near(text, one.reply.text)]) for one in asked]


def _by_act(asked: Sequence[Question], name: str) -> list[int]:
    """Compare what replies do: the acts of their segments in order, the same act twice in a row once.

    A reply and the choices beside it are read after the same turn, since the classifier looks at it.
    """
    from dialeval.models.segment_acts import SegmentActs

    chosen = [[one.reply, *(Turn(one.reply.speaker, text) for text in one.choices)] for one in asked]
    talks = [
        Dialogue("", (*(() if one.before is None else (one.before,)), turn))
        for one, turns in zip(asked, chosen, strict=True)
        for turn in turns
    ]
    done = iter([_acts(one) for one in SegmentActs.load(name).label(talks)])
    counts = []
    for one in asked:
        reply, *others = islice(done, 1 + len(one.choices))
        counts.append(
            _wizards(one, [text for text, acts in zip(one.choices, others, strict=True) if acts == reply])
        )
    return counts


def _acts(talk: Dialogue) -> tuple[str | None, ...]:
    last = len(talk.turns) - 1
    return tuple(act for act, _ in groupby(one.act for one in segments_of(talk) if one.turn == last))
