"""Aids: what other heads make of a dialogue, for a head that reads it.

A head that is solved for adds its features up; whether a reply fits what it answers, or whether a user is
annoyed, is no sum of two turns' vectors. Heads that are shipped already know both, and the acts of segments.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dialeval.dialogues import Dialogue
from dialeval.dialogues.signals import next_turns
from dialeval.models import reactions, segment_acts
from dialeval.models.artefact import recorded
from dialeval.models.coherence import CoherenceScorer
from dialeval.models.flow_features import NAMES as FLOW
from dialeval.models.network import Floats
from dialeval.models.reactions import Reactions, exchanges
from dialeval.models.segment_acts import SegmentActs
from dialeval.models.window_features import HISTORIES

_UNKNOWN = 0.5  # whether a turn fits that follows nothing


class _Aid(NamedTuple):
    """A model that features are made with: what it is called where nobody says, and for which of them."""

    name: str
    load: Callable[[str], Any]
    blocks: tuple[str, ...]


_AIDS: Mapping[str, _Aid] = {
    "acts": _Aid(segment_acts.DEFAULT, SegmentActs.load, FLOW),
    "coherence": _Aid("dialeval-coherence", CoherenceScorer.load, ("fit",)),
    "reactions": _Aid(reactions.DEFAULT, Reactions.load, ("moods",)),
}
"""By the field of an artefact's config that names it."""


@dataclass(frozen=True)
class Aided:
    """A dialogue, its segments with acts if they were asked for, and what is known of its turns."""

    dialogue: Dialogue
    fits: Mapping[int, float] = field(default_factory=dict)
    heard: Sequence[tuple[int, str, float]] = ()
    """Which turn answers whom, and how pleased it sounds, in the order of turns."""

    def fit(self, turns: Sequence[int]) -> Floats:
        """Say how well turns fit what was said before them, a row each."""
        return np.array([[self.fits.get(turn, _UNKNOWN)] for turn in turns], np.float32).reshape(-1, 1)

    def moods(self, turns: Sequence[int]) -> Floats:
        """Say how pleased those sounded who had answered the speaker of a turn before it: last, and mean."""
        rows = np.zeros((len(turns), 2), np.float32)
        speakers = [self.dialogue.turns[turn].speaker for turn in turns]
        for speaker in dict.fromkeys(speakers):
            some = [(answer, value) for answer, to, value in self.heard if to == speaker]
            values = [value for _, value in some]
            sums, answers = np.concatenate([[0.0], np.cumsum(values)]), [answer for answer, _ in some]
            for row, (turn, own) in enumerate(zip(turns, speakers, strict=True)):
                if own == speaker and (count := bisect_left(answers, turn)):
                    rows[row] = values[count - 1], sums[count] / count
        return rows


class Aids:
    """The models that some blocks of features need.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Do you like jazz?"), ("assistant", "Yes, and the blues."),
    ...     ("user", "Great, I love it!"), ("assistant", "Which band?")])
    >>> found = Aids.shipped(["fit", "moods"]).read([chat])[0]
    >>> found.fit([1]).shape, found.moods([1, 3])[:, 0] > 0
    ((1, 1), array([False,  True]))
    """

    def __init__(self, models: Mapping[str, Any]) -> None:
        self._models = models

    @classmethod
    def shipped(cls, blocks: Sequence[str]) -> "Aids":
        """Load what these blocks of features need."""
        return cls({name: aid.load(aid.name) for name, aid in _needed(blocks).items()})

    @classmethod
    def recorded(cls, config: Mapping[str, Any], file: Path, blocks: Sequence[str]) -> "Aids":
        """Load what an artefact was trained with, and nothing else of the same name."""
        return cls({name: recorded(config, name, file, aid.load) for name, aid in _needed(blocks).items()})

    def fields(self) -> dict[str, dict[str, str]]:
        """Return what an artefact's config says of them."""
        return {name: {"name": _AIDS[name].name, "sha": model.sha} for name, model in self._models.items()}

    def read(self, dialogues: Sequence[Dialogue], speaker: str | None = None) -> list[Aided]:
        """Let each model read all dialogues."""
        acts, coherence = self._models.get("acts"), self._models.get("coherence")
        labelled = acts.label(dialogues) if acts else dialogues
        fits: Sequence[Mapping[int, float]] = [{}] * len(dialogues)
        if coherence:
            asked = [("ur", history) for history in HISTORIES]
            fits = [_fits(some) for some in coherence.score(dialogues, speaker, asked)]
        return [
            Aided(one, fit, heard)
            for one, fit, heard in zip(labelled, fits, self._heard(dialogues), strict=True)
        ]

    def _heard(self, dialogues: Sequence[Dialogue]) -> list[list[tuple[int, str, float]]]:
        model = self._models.get("reactions")
        if not model:
            return [[] for _ in dialogues]
        each = [exchanges(one, range(len(one.turns))) for one in dialogues]
        values = iter(model.sentiments([exchange for some in each for exchange in some.values()]).tolist())
        found = []
        for one, some in zip(dialogues, each, strict=True):
            answers = next_turns(one)
            rows = [(answers[turn].turn or 0, one.turns[turn].speaker, next(values)) for turn in some]
            found.append(sorted(rows, key=lambda row: row[0]))
        return found


def _needed(blocks: Sequence[str]) -> dict[str, _Aid]:
    return {name: aid for name, aid in _AIDS.items() if any(block in aid.blocks for block in blocks)}


def _fits(found: Sequence[Any]) -> dict[int, float]:
    """Take the mean over what there is of history."""
    return {one.turn: float(np.mean(one.values["ur"])) for one in found if one.values.get("ur")}
