"""Whether a reply belongs where it stands, from turn vectors: every turn is encoded once for ten figures.

Two questions are asked of a reply. `ur`: does it fit what the user said, and N exchanges before that? `ru`:
does what the user said *next* fit it, what it answered, and N exchanges before that? Each is a `Window`: the
turn that is judged to follow, and what came before it, newest first. One head answers for both questions and
all N; which is asked is part of what it reads.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dialeval.dialogues import Dialogue, scored_turns
from dialeval.dialogues.signals import next_turns
from dialeval.errors import DataError
from dialeval.models.artefact import Artefact, load, resolve
from dialeval.models.encoder import recorded_encoder
from dialeval.models.heads import Head
from dialeval.models.network import Floats
from dialeval.models.turn_vectors import TurnVectors, turn_vectors
from dialeval.models.vector_head import VectorHead
from dialeval.models.window_features import (
    DIRECTIONS,
    FEATURES,
    HISTORIES,
    MOST,
    PLACES,
    Direction,
    described,
    padded,
)

HEAD = Head("coherent", "binary")
_BEFORE = {"ur": 1, "ru": 2}  # turns that are no history: what is answered; that and the reply
_ROWS = 4096  # windows described at a time


@dataclass(frozen=True)
class Window:
    """A turn, `turns[0]`, and what came before it, newest first, as numbers of turns."""

    direction: Direction
    turns: tuple[int, ...]

    @property
    def histories(self) -> int:
        """How many exchanges of history there are."""
        return min(MOST, (len(self.turns) - 1 - _BEFORE[self.direction]) // 2)

    def cut(self, history: int) -> tuple[int, ...]:
        """Return the turns that a question with so many exchanges of history is about."""
        return self.turns[: 1 + _BEFORE[self.direction] + 2 * history]


def windows(
    dialogue: Dialogue, spoken: Sequence[bool], turns: Sequence[int]
) -> list[dict[Direction, Window]]:
    """Return what can be asked of replies: `ur` if something was said before, `ru` if somebody answered.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Hi"), ("assistant", "Hello"), ("user", "A taxi?"), ("assistant", "Sure.")])
    >>> first, last = windows(chat, [True] * 4, [1, 3])
    >>> first["ru"].turns, last
    ((2, 1, 0), {'ur': Window(direction='ur', turns=(3, 2, 1, 0))})
    """
    following, said = next_turns(dialogue), [number for number, heard in enumerate(spoken) if heard]
    order = {number: place for place, number in enumerate(said)}
    found = []
    for turn in turns:
        asked: dict[Direction, Window] = {}
        if place := order.get(turn):
            before = said[max(0, place - PLACES + 1) : place][::-1]
            asked["ur"] = Window("ur", (turn, *before))
            after = following[turn].turn
            if after is not None:
                asked["ru"] = Window("ru", (after, turn, *before)[:PLACES])
        found.append(asked)
    return found


@dataclass(frozen=True)
class Coherence:
    """What is said of one reply: a probability by direction and exchanges of history that there are."""

    turn: int
    values: dict[Direction, list[float]]
    """Values for 0, 1, … exchanges, as many as the dialogue has; no direction that cannot be asked."""
    cut: bool
    """Whether a turn of its windows was too long for the encoder."""


class CoherenceScorer:
    """A head over windows of turn vectors, and the encoder it was trained on."""

    def __init__(self, artefact: Artefact) -> None:
        config, place = artefact.config, artefact.folder / "config.json"
        self.sha, self.name = artefact.sha, str(config.get("name", artefact.folder.name))
        if artefact.kind not in FEATURES:
            raise DataError(f"this is {artefact.kind}, no head of coherence", file=place, field="class")
        self._features = FEATURES[artefact.kind]
        self._head, self.encoder = VectorHead(artefact), recorded_encoder(config, place)
        if HEAD not in self._head.heads:
            raise DataError(f"has no head {HEAD.name!r}", file=place, field="heads")

    @classmethod
    def load(cls, name: str | Path) -> "CoherenceScorer":
        """Load a scorer by folder, shipped name, pulled name or Hub id; one per process, shared by all."""
        return _loaded(str(resolve(name)))

    def score(
        self,
        dialogues: Sequence[Dialogue],
        speaker: str | None = None,
        asked: Sequence[tuple[Direction, int]] | None = None,
    ) -> list[list[Coherence]]:
        """Judge the scored turns of each dialogue; `asked`: by which direction and history, None for all."""
        wanted = set(asked or ((direction, history) for direction in DIRECTIONS for history in HISTORIES))
        found = turn_vectors(self.encoder, dialogues)
        return [self._dialogue(one, scored_turns(one.dialogue, speaker), wanted) for one in found]

    def _dialogue(
        self, found: TurnVectors, turns: list[int], wanted: set[tuple[Direction, int]]
    ) -> list[Coherence]:
        seen = list(zip(turns, windows(found.dialogue, found.spoken, turns), strict=True))
        rows = [
            (number, window, history)
            for number, (_, some) in enumerate(seen)
            for window in some.values()
            for history in range(window.histories + 1)
            if (window.direction, history) in wanted
        ]
        vectors = described(found.vectors, [turn.text for turn in found.dialogue.turns])
        made = [
            Coherence(turn, {}, any(found.cut[one] for window in some.values() for one in window.turns))
            for turn, some in seen
        ]
        for (number, window, _), value in zip(rows, self._answers(vectors, rows), strict=True):
            made[number].values.setdefault(window.direction, []).append(float(value))
        return made

    def _answers(self, vectors: Floats, rows: Sequence[tuple[int, Window, int]]) -> npt.NDArray[np.float64]:
        parts = [np.zeros(0)]
        for start in range(0, len(rows), _ROWS):
            some = rows[start : start + _ROWS]
            places = np.array([padded(window.cut(history)) for _, window, history in some], np.int64)
            direction = np.array([DIRECTIONS.index(window.direction) for _, window, _ in some], np.int64)
            history = np.array([history for _, _, history in some], np.int64)
            parts.append(self._head.answers(self._features(vectors, places, direction, history))[HEAD.name])
        return np.concatenate(parts)


@functools.lru_cache(maxsize=8)
def _loaded(folder: str) -> CoherenceScorer:
    return CoherenceScorer(load(folder))
