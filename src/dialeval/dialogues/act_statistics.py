"""Frequencies of acts in an annotated corpus (FlowEval's Table 4), and majority votes of raters on segments.

Voting follows FlowEval's appendix A.2: three raters label a segment; if no two agree, others label it in a
further round, until one act has more votes than any other, and at least two. Votes of all rounds count
together. A rater who skips (None) has no vote. A segment's votes are one list; the first three are the first
round. Agreement is measured on the first round alone: later rounds exist only where raters disagreed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from dialeval.dialogues.acts import ACTS, acts, annotations, canonical
from dialeval.dialogues.dialogue import Dialogue, takes_part
from dialeval.dialogues.formats.actdial import indexed
from dialeval.dialogues.votes import majority_of
from dialeval.errors import DataError, UsageError
from dialeval.statistics import Estimate, agreement_interval, share


@dataclass(frozen=True)
class ActStatistics:
    """The size of a corpus and how often each act occurs; the statistics of two corpora can be added.

    `turns` are those that take part in the conversation, `uncut` those of them without segments, `segments`
    counts all, also those without text (a published one may have an act all the same), `unlabelled` those
    whose act is not known.

    >>> from dialeval.dialogues import dialogue
    >>> from dialeval.dialogues.segments import segments_of, with_acts
    >>> chat = dialogue([("user", "Hey, how are you?"), ("assistant", "Fine.")])
    >>> statistics = count_acts([with_acts(chat, segments_of(chat))])
    >>> statistics.segments, statistics.unlabelled, statistics.segments_per_turn
    (3, 3, 1.5)
    """

    dialogues: int = 0
    turns: int = 0
    uncut: int = 0
    segments: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def labelled(self) -> int:
        """How many segments have an act."""
        return sum(self.counts.values())

    @property
    def unlabelled(self) -> int:
        """How many segments have none."""
        return self.segments - self.labelled

    @property
    def segments_per_turn(self) -> float | None:
        """Mean number of segments of the turns that have any; None if no turn has."""
        cut = self.turns - self.uncut
        return self.segments / cut if cut else None

    def by_act(self) -> list[dict[str, Any]]:
        """Return a row for each of the eleven acts: how often, and its share of all labelled segments."""
        return [
            {"dimension": act.dimension, "act": act.name, **self._share(self.counts.get(act.name, 0))}
            for act in acts()
        ]

    def by_dimension(self) -> list[dict[str, Any]]:
        """Return the same for each of the three dimensions."""
        totals: Counter[str] = Counter()
        for act in acts():
            totals[act.dimension] += self.counts.get(act.name, 0)
        return [{"dimension": name, **self._share(count)} for name, count in totals.items()]

    def _share(self, count: int) -> dict[str, Any]:
        return {"n": count, "share": count / self.labelled if self.labelled else None}

    def size(self) -> dict[str, Any]:
        """Return how large the corpus is."""
        return {
            "dialogues": self.dialogues,
            "turns": self.turns,
            "segments": self.segments,
            "segments_per_turn": self.segments_per_turn,
            "unlabelled": self.unlabelled,
            "uncut_turns": self.uncut,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as plain values."""
        return {**self.size(), "acts": self.by_act(), "dimensions": self.by_dimension()}

    def __add__(self, other: "ActStatistics") -> "ActStatistics":
        counts = {act: self.counts.get(act, 0) + other.counts.get(act, 0) for act in ACTS}
        return ActStatistics(
            self.dialogues + other.dialogues,
            self.turns + other.turns,
            self.uncut + other.uncut,
            self.segments + other.segments,
            counts,
        )


def count_acts(dialogues: Iterable[Dialogue]) -> ActStatistics:
    """Count the acts in the meta of dialogues, in one pass.

    >>> from dialeval.dialogues import Turn, dialogue
    >>> segments = [{"text": "Hey", "act": "greeting"}, {"text": " who is it?", "act": "question"}]
    >>> statistics = count_acts([dialogue([Turn("user", "Hey, who is it?", {"segments": segments})], "d1")])
    >>> statistics.by_dimension()[0]
    {'dimension': 'general task', 'n': 1, 'share': 0.5}

    Raises:
        DataError: If an act is none of the eleven; it names the dialogue.
    """
    total = turns = uncut = segments = 0
    counts: Counter[str] = Counter()
    for dialogue in dialogues:
        total += 1
        for number, turn in enumerate(dialogue.turns):
            if not takes_part(turn):
                continue
            try:
                annotated = annotations(turn)
                counts.update(
                    canonical(segment.act) for segment in annotated or () if segment.act is not None
                )
            except DataError as error:
                raise DataError(f"dialogue {dialogue.id!r}, turn {number}: {error}") from None
            turns += 1
            uncut += not annotated
            segments += len(annotated or ())
    return ActStatistics(total, turns, uncut, segments, {act: counts[act] for act in ACTS})


ROUND = 3
Vote = str | None


@dataclass(frozen=True, slots=True)
class Voted:
    """The votes on a segment: its index, its votes, its annotated act, and the majority's act, if any."""

    index: str
    votes: tuple[Vote, ...]
    act: str | None = None
    decided: str | None = None


def decide(rounds: Sequence[Sequence[Vote]]) -> str | None:
    """Return the act that has a majority, or None if another round is needed.

    Rounds after the one that decided do not count.

    >>> decide([["inform", "question", "inform"]])
    'inform'
    >>> decide([["inform", "question", "directive"]]) is None
    True
    >>> decide([["inform", "question", "directive"], ["question", None, "apology"]])
    'question'
    """
    return majority_of([[canonical(vote) if vote else None for vote in votes] for votes in rounds])


def rounds_of(votes: Sequence[Vote], size: int = ROUND) -> list[Sequence[Vote]]:
    """Divide a list of votes into rounds of `size` votes.

    >>> rounds_of(["inform", None, "question", "inform"])
    [['inform', None, 'question'], ['inform']]
    """
    if size < 1:
        raise UsageError("a round needs at least one vote")
    return [votes[start : start + size] for start in range(0, len(votes), size)]


def settle(dialogue: Dialogue) -> Dialogue:
    """Return the dialogue with the act of the majority for each segment that has votes but no act.

    >>> from dialeval.dialogues import Turn, dialogue
    >>> segment = {"text": "Hm.", "act": None, "votes": ["inform", "inform", None]}
    >>> settled = settle(dialogue([Turn("user", "Hm.", {"segments": [segment]})], "d1"))
    >>> settled.turns[0].meta["segments"][0]["act"]
    'inform'
    """
    turns = []
    for turn in dialogue.turns:
        annotated = annotations(turn) or []
        if any(segment.act is None and segment.votes for segment in annotated):
            acts = [segment.act or decide(rounds_of(segment.votes or ())) for segment in annotated]
            labelled = [{**raw, "act": act} for raw, act in zip(turn.meta["segments"], acts, strict=True)]
            turns.append(msgspec.structs.replace(turn, meta={**turn.meta, "segments": labelled}))
        else:
            turns.append(turn)
    return msgspec.structs.replace(dialogue, turns=tuple(turns))


def voted(dialogues: Iterable[Dialogue]) -> Iterator[Voted]:
    """Yield the votes on every segment that has any, with the decision.

    >>> from dialeval.dialogues import Turn, dialogue
    >>> segment = {"text": "Huh?", "act": None, "votes": ["question", "backchannel_failure", "apology"]}
    >>> (votes,) = voted([dialogue([Turn("user", "Huh?", {"segments": [segment]})], "d1")])
    >>> votes.index, votes.decided is None
    ('d1_0_0', True)
    """
    for dialogue in dialogues:
        for index, segment in indexed(dialogue):
            if segment.votes is None:
                continue
            try:
                votes = tuple(canonical(vote) if vote else None for vote in segment.votes)
                act = None if segment.act is None else canonical(segment.act)
            except DataError as error:
                raise DataError(f"{index}: {error}") from None
            yield Voted(index, votes, act, decide(rounds_of(votes)))


@dataclass(frozen=True, slots=True)
class ActAgreement:
    """Fleiss' kappa of the first round, with and without the votes for the most frequent act."""

    segments: int
    dominant: str | None
    kappa: Estimate
    kappa_without_dominant: Estimate


def agreement(segments: Sequence[Voted], resamples: int = 500, seed: int = 0) -> ActAgreement:
    """Return the agreement of raters in the first round; intervals come from resampling dialogues.

    >>> votes = [("inform",) * 3, ("inform", "inform", "question"), ("question",) * 3, ("apology",) * 3]
    >>> result = agreement([Voted(f"d_0_{i}", v) for i, v in enumerate(votes)])
    >>> result.dominant, round(result.kappa.value, 3), result.kappa_without_dominant.value
    ('inform', 0.745, 1.0)
    """
    rounds = [segment.votes[:ROUND] for segment in segments]
    counts = Counter(vote for votes in rounds for vote in votes if vote)
    dominant = max(ACTS, key=lambda act: counts[act]) if counts else None
    ratings = np.full((len(rounds), ROUND), np.nan)
    for row, votes in enumerate(rounds):
        for seat, vote in enumerate(votes):
            if vote:
                ratings[row, seat] = ACTS.index(vote)
    names = np.array([segment.index.rsplit("_", 2)[0] for segment in segments], dtype=str)

    def kappa(exclude: float | None = None) -> Estimate:
        return agreement_interval(
            ratings, "fleiss_kappa", names, exclude=exclude, resamples=resamples, seed=seed
        )

    without = kappa(None if dominant is None else float(ACTS.index(dominant)))
    return ActAgreement(len(rounds), dominant, kappa(), without)


def accuracy(labels: Mapping[str, Vote], expert: Mapping[str, str]) -> Estimate:
    """Return the share of an expert's labels, index to act, that the labels match, with Wilson's interval.

    Segments without a label (no majority yet, or a rater who skipped) are left out: `n` counts the rest.

    >>> estimate = accuracy(dict.fromkeys("abcdefghij", "inform"), dict.fromkeys("abcdefgh", "inform"))
    >>> estimate.value, estimate.n, round(estimate.low, 3)
    (1.0, 8, 0.676)
    """
    pairs = [(label, act) for index, act in expert.items() if (label := labels.get(index)) is not None]
    if not pairs:
        return Estimate.undefined("no overlap")
    return share(sum(canonical(label) == canonical(act) for label, act in pairs), len(pairs))


def accuracies(segments: Sequence[Voted], expert: Mapping[str, str]) -> dict[str, Estimate]:
    """Return the accuracy of the majority and of each seat of the first round, by an expert's labels.

    >>> votes = Voted("d_0_0", ("inform", "apology", "inform"), None, "inform")
    >>> {name: estimate.value for name, estimate in accuracies([votes], {"d_0_0": "inform"}).items()}
    {'majority': 1.0, 'rater 1': 1.0, 'rater 2': 0.0, 'rater 3': 1.0}
    """
    estimates = {"majority": accuracy({segment.index: segment.decided for segment in segments}, expert)}
    for seat in range(min(ROUND, max((len(segment.votes) for segment in segments), default=0))):
        votes = {segment.index: segment.votes[seat] for segment in segments if seat < len(segment.votes)}
        estimates[f"rater {seat + 1}"] = accuracy(votes, expert)
    return estimates
