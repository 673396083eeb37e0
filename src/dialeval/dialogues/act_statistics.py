"""How often each act occurs in an annotated corpus: the figures of FlowEval's Table 4, for any of them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dialeval.dialogues.acts import ACTS, acts, annotations, canonical
from dialeval.dialogues.dialogue import Dialogue, takes_part
from dialeval.errors import DataError


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
    >>> said = [{"text": "Hey", "act": "greeting"}, {"text": " who is it?", "act": "question"}]
    >>> found = count_acts([dialogue([Turn("user", "Hey, who is it?", {"segments": said})], "d1")])
    >>> found.by_dimension()[0]
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
                found = annotations(turn)
                counts.update(canonical(one.act) for one in found or () if one.act is not None)
            except DataError as error:
                raise DataError(f"dialogue {dialogue.id!r}, turn {number}: {error}") from None
            turns += 1
            uncut += not found
            segments += len(found or ())
    return ActStatistics(total, turns, uncut, segments, {act: counts[act] for act in ACTS})
