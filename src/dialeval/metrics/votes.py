"""Would wizards have said it? Weak Agreement and Voted Appropriateness (Gandhe and Traum, 2014).

Both hold a reply against what several people, the wizards, marked as appropriate in the same context. Weak
Agreement asks whether anybody chose it; Voted Appropriateness asks how many did, on the scale of ratings.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from dialeval.dialogues import Dialogue
from dialeval.dialogues.votes import votes_mark
from dialeval.errors import DialevalError
from dialeval.metrics.registry import Rows, metric
from dialeval.metrics.voting import Counted, Match, count_votes
from dialeval.models.artefact import load, resolve
from dialeval.models.encoder import DEFAULT as ENCODER
from dialeval.models.encoder import mark
from dialeval.models.segment_acts import DEFAULT as ACTS
from dialeval.scores import Scores


@metric("weak-agreement.v1")
@dataclass(frozen=True)
class WeakAgreement:
    """Whether any wizard chose the reply: `high` if so, `low` if not (equation 1: 5 and 1).

    `votes` names the file of the wizards' choices; a turn that has none is unscored. `match` says when a
    reply is one of them: `exact`, `normalised`, `encoder` (a cosine of `threshold` or more) or `act`.

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
        for one in _counted(self, dialogues):
            value = None if one.votes is None else self.high if one.votes else self.low
            rows.add(one.dialogue, one.turn, "agreement", value, one.note)
        return rows.scores()

    def provenance(self) -> dict[str, str]:
        """Name votes and models by their contents."""
        return _marks(self.votes, self.encoder, self.acts)


@metric("voted-appropriateness.v1")
@dataclass(frozen=True)
class VotedAppropriateness:
    """How many wizards chose the reply (`votes`), and what rating that foretells (`appropriateness`).

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
        for one in _counted(self, dialogues):
            rating = None if one.votes is None else self.intercept + self.slope * one.votes
            rows.add(one.dialogue, one.turn, "votes", one.votes, one.note)
            rows.add(one.dialogue, one.turn, "appropriateness", rating, one.note)
        return rows.scores()

    def provenance(self) -> dict[str, str]:
        """Name votes and models by their contents."""
        return _marks(self.votes, self.encoder, self.acts)


def _counted(made: WeakAgreement | VotedAppropriateness, dialogues: Iterable[Dialogue]) -> Iterator[Counted]:
    return count_votes(
        dialogues,
        made.votes,
        made.match,
        threshold=made.threshold,
        encoder=made.encoder,
        acts=made.acts,
        speaker=made.speaker,
    )


def _marks(votes: str | None, encoder: str, acts: str) -> dict[str, str]:
    named = {} if votes is None else {"votes": votes_mark(votes)}
    return {**named, "encoder": mark(encoder), "acts": _mark(acts)}


def _mark(name: str) -> str:
    try:
        return load(resolve(name)).sha[:12]
    except DialevalError:
        return name
