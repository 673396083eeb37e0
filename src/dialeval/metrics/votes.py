"""Weak Agreement and Voted Appropriateness, from the number of wizards who chose a reply.

Generated replies seldom equal a wizard's choice to the letter, so there are four ways for two to be the same:
`exact`, `normalised` (letters and digits, whatever the case and the punctuation), `encoder` (vectors with a
cosine of at least a threshold) and `act` (they do the same things in the same order, by segment acts).

Where wizards chose acts in place of utterances (DeVault's original measure), `act` is the only way: a wizard
chose a reply if every act that it realises is among the wizard's. What a reply realises stands in its turn
(`"acts": ["confirm"]`, of any inventory), or is told by the classifier of segment acts.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import ClassVar, Literal

from dialeval.dialogues import Dialogue, Turn, in_blocks, scored_turns
from dialeval.dialogues.acts import ACTS as SEGMENT_ACTS
from dialeval.dialogues.acts import folded
from dialeval.dialogues.contexts import failure_of, place_of
from dialeval.dialogues.dialogue import context_of
from dialeval.dialogues.segments import segments_of
from dialeval.dialogues.splits import normalise
from dialeval.dialogues.votes import Vote, load_votes, votes_mark
from dialeval.errors import UsageError
from dialeval.metrics.registry import Rows, metric
from dialeval.models.artefact import load
from dialeval.models.encoder import DEFAULT as ENCODER
from dialeval.models.encoder import mark
from dialeval.models.network import unit
from dialeval.models.segment_acts import DEFAULT as ACTS
from dialeval.scores import Scores

Match = Literal["exact", "normalised", "encoder", "act"]
NEAR = "no wizard chose anything near it"
NO_FILE = "no votes: name a file, votes=votes.jsonl"
NO_ACTS = "wizards chose other acts than segment acts, and the reply does not name its own"
_AT_ONCE = 256  # dialogues whose replies are compared together
Choices = dict[str, set[str]]  # an utterance, or an act, and the wizards who chose it


@dataclass(frozen=True, slots=True)
class ReplyChoices:
    """A reply, and what wizards chose in its place."""

    reply: Turn
    before: Turn | None
    choices: Choices
    acts: Choices


@dataclass(frozen=True, slots=True)
class VoteCount:
    """A scored turn of a dialogue, and how many wizards chose it; None with a reason where that is open."""

    dialogue: Dialogue
    turn: int
    votes: int | None
    note: str | None = None


def _by_place(votes: Sequence[Vote]) -> dict[tuple[str, int], tuple[Choices, Choices]]:
    """Return the utterances and the acts that were chosen at each place."""
    choices: dict[tuple[str, int], tuple[Choices, Choices]] = {}
    for vote in votes:
        utterances, acts = choices.setdefault((vote.dialogue_id, vote.turn), ({}, {}))
        if vote.utterance is not None:
            utterances.setdefault(vote.utterance, set()).add(vote.rater)
        if vote.act is not None:
            acts.setdefault(folded(vote.act), set()).add(vote.rater)
    return choices


def _question(
    dialogue: Dialogue, turn: int, cast: dict[tuple[str, int], tuple[Choices, Choices]] | None
) -> ReplyChoices | str:
    """Return what is to be compared, or why nothing is."""
    if cast is None:
        return NO_FILE
    if turn == len(dialogue.turns) - 1 and (failure := failure_of(dialogue)) is not None:
        return f"the system failed: {failure}"
    choices = cast.get((dialogue.id, turn), cast.get(place_of(dialogue, turn)))
    if choices is None:
        return "no votes for this turn"
    reply, before = dialogue.turns[turn], context_of(dialogue, turn)
    if not set(choices[1]) <= set(SEGMENT_ACTS) and _own_acts(reply) is None:
        return NO_ACTS
    return ReplyChoices(reply, before[-1] if before else None, *choices)


def _letters(text: str) -> str:
    """Fold case and punctuation; a text that has nothing else is compared as it stands."""
    return normalise(text) or text.strip()


def _by_text(case: ReplyChoices, fold: Callable[[str], str]) -> int:
    target = fold(case.reply.text)
    return _wizards(case, [text for text in case.choices if fold(text) == target])


def _wizards(case: ReplyChoices, chosen: Sequence[str]) -> int:
    return len(set().union(*(case.choices[text] for text in chosen)))


def _by_vector(asked: Sequence[ReplyChoices], name: str, threshold: float) -> list[int]:
    from dialeval.models.encoder import Encoder

    texts = list(dict.fromkeys(text for case in asked for text in (case.reply.text, *case.choices)))
    rows = dict(zip(texts, unit(Encoder.load(name).vectors(texts)), strict=True))

    def near(left: str, right: str) -> bool:
        if left == right or not (left.strip() and right.strip()):
            return left.strip() == right.strip()
        return round(float(rows[left] @ rows[right]), 4) >= threshold  # rounding noise must not decide

    return [_wizards(case, [text for text in case.choices if near(text, case.reply.text)]) for case in asked]


def _by_act(asked: Sequence[ReplyChoices], name: str) -> list[int]:
    """Compare what replies do: the acts of their segments in order, the same act twice in a row once.

    A reply and the choices beside it are read after the same turn, since the classifier looks at it.
    """
    from dialeval.models.segment_acts import SegmentActs

    chosen = [[case.reply, *(Turn(case.reply.speaker, text) for text in case.choices)] for case in asked]
    talks = [
        Dialogue("", (*(() if case.before is None else (case.before,)), turn))
        for case, turns in zip(asked, chosen, strict=True)
        for turn in turns
    ]
    done = iter([_acts(talk) for talk in SegmentActs.load(name).label(talks)])
    counts = []
    for case in asked:
        reply, *choice_acts = islice(done, 1 + len(case.choices))
        alike = [text for text, acts in zip(case.choices, choice_acts, strict=True) if acts == reply]
        wizards = [case.choices[text] for text in alike]
        if realised := _own_acts(case.reply) or {act or "" for act in reply}:
            wizards.append(set.intersection(*(case.acts.get(act, set()) for act in realised)))
        counts.append(len(set().union(*wizards)))
    return counts


def _own_acts(turn: Turn) -> set[str] | None:
    """Return the acts that a turn names itself; None where it names none."""
    acts = turn.meta.get("acts")
    return {folded(str(act)) for act in acts} if isinstance(acts, list) and acts else None


def _acts(talk: Dialogue) -> tuple[str | None, ...]:
    last = len(talk.turns) - 1
    return tuple(
        act for act, _ in groupby(segment.act for segment in segments_of(talk) if segment.turn == last)
    )


class _CountsVotes:
    """A metric of how many wizards chose a reply, with the fields of `WeakAgreement`."""

    votes: str | None
    match: Match
    threshold: float
    encoder: str
    acts: str
    speaker: str | None

    def provenance(self) -> dict[str, str]:
        """Name votes and models by their contents."""
        named = {} if self.votes is None else {"votes": votes_mark(self.votes)}
        return {**named, "encoder": mark(self.encoder), "acts": mark(self.acts, load)}

    def counted(self, dialogues: Iterable[Dialogue]) -> Iterator[VoteCount]:
        """Count, for every scored turn in order, the wizards who chose the reply."""
        if not 0 < self.threshold <= 1:
            raise UsageError(f"threshold {self.threshold}: a cosine above 0 and up to 1 is expected")
        cast = None if self.votes is None else _by_place(load_votes(self.votes))
        if self.match != "act" and cast is not None and any(acts for _, acts in cast.values()):
            raise UsageError(f"{self.votes}: wizards chose acts here, not utterances: match=act")
        for chunk in in_blocks(dialogues, _AT_ONCE):
            places = [(dialogue, turn) for dialogue in chunk for turn in scored_turns(dialogue, self.speaker)]
            cases = [_question(dialogue, turn, cast) for dialogue, turn in places]
            counts = iter(self._chosen([case for case in cases if isinstance(case, ReplyChoices)]))
            for (dialogue, turn), asked in zip(places, cases, strict=True):
                if isinstance(asked, ReplyChoices):
                    number = next(counts)
                    yield VoteCount(dialogue, turn, number, None if number else NEAR)
                else:
                    yield VoteCount(dialogue, turn, None, asked)

    def _chosen(self, asked: Sequence[ReplyChoices]) -> list[int]:
        if self.match == "encoder":
            return _by_vector(asked, self.encoder, self.threshold)
        if self.match == "act":
            return _by_act(asked, self.acts)
        return [_by_text(case, str.strip if self.match == "exact" else _letters) for case in asked]


@metric("weak-agreement.v1")
@dataclass(frozen=True)
class WeakAgreement(_CountsVotes):
    """Weak Agreement: whether any wizard chose the reply (5 or 1).

    `high` if so, `low` if not (equation 1 of the paper: 5 and 1).

    `votes` names the file of the wizards' choices; a turn that no wizard saw is unscored, and where all said
    that nothing fits every reply has `low`. `match` says when a reply is one of the choices: `exact`,
    `normalised`, `encoder` (a cosine of `threshold` or more) or `act`, which wizards may also have chosen.

    >>> from dialeval.dialogues import dialogue
    >>> turns = [("user", "A filling just cracked."), ("assistant", "I'm sorry to hear that! Does it hurt?")]
    >>> [row.value for row in WeakAgreement("examples").score([dialogue(turns, "book-05-good")])]
    [5.0]
    """

    votes: str | None = None
    match: Match = "normalised"
    threshold: float = 0.8
    low: float = 1.0
    high: float = 5.0
    encoder: str = ENCODER
    acts: str = ACTS
    speaker: str | None = None
    dimensions: ClassVar[tuple[str, ...]] = ("agreement",)

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Look each reply up among the wizards' choices."""
        rows = Rows(self)
        for count in self.counted(dialogues):
            value = None if count.votes is None else self.high if count.votes else self.low
            rows.add(count.dialogue, count.turn, "agreement", value, count.note)
        return rows.scores()


@metric("voted-appropriateness.v1")
@dataclass(frozen=True)
class VotedAppropriateness(_CountsVotes):
    """Number of wizards who chose the reply, and the predicted rating.

    Dimensions `votes` and `appropriateness`.

    The rating is `intercept + slope * votes` (equation 2). The defaults are the line that the paper fitted to
    four wizards and ratings from 1 to 5; `dialeval study --combine mine=line:…` fits yours. Other fields are
    those of `weak-agreement`.

    >>> from dialeval.dialogues import dialogue
    >>> turns = [("user", "A filling just cracked."), ("assistant", "I'm sorry to hear that! Does it hurt?")]
    >>> made = VotedAppropriateness("examples").score([dialogue(turns, "book-05-good")])
    >>> [(row.dimension, round(row.value, 3)) for row in made]
    [('votes', 4.0), ('appropriateness', 5.345)]
    """

    votes: str | None = None
    match: Match = "normalised"
    threshold: float = 0.8
    intercept: float = 3.549
    slope: float = 0.449
    encoder: str = ENCODER
    acts: str = ACTS
    speaker: str | None = None
    dimensions: ClassVar[tuple[str, ...]] = ("votes", "appropriateness")

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Count the wizards who chose each reply."""
        rows = Rows(self)
        for count in self.counted(dialogues):
            rating = None if count.votes is None else self.intercept + self.slope * count.votes
            rows.add(count.dialogue, count.turn, "votes", count.votes, count.note)
            rows.add(count.dialogue, count.turn, "appropriateness", rating, count.note)
        return rows.scores()
