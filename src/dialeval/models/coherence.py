"""Whether a reply belongs where it stands, from turn vectors: every turn is encoded once for ten figures.

Two questions are asked of a reply. `ur`: does it fit what the user said, and N exchanges before that? `ru`:
does what the user said *next* fit it, what it answered, and N exchanges before that? Each is a `Window`: the
turn that is judged to follow, and what came before it, newest first. One head answers for both questions and
all N; which is asked is part of what it reads.

The same questions can be answered by cross-encoders, one with a head for each or several with one each, and
by some that answer only a few of them. They read the words of a window together and are given every window
anew, so ten figures cost ten times one.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from dialeval.dialogues import Dialogue, scored_turns, takes_part
from dialeval.dialogues.signals import next_turns
from dialeval.errors import DataError
from dialeval.models.artefact import Artefact, Model, load, resolve
from dialeval.models.cache import Cache, key
from dialeval.models.encoder import recorded_encoder
from dialeval.models.heads import Head, VectorHead
from dialeval.models.needs import Need
from dialeval.models.network import Floats
from dialeval.models.pairs import PairScorer
from dialeval.models.turn_vectors import TurnVectors, turn_vectors, vector_needs
from dialeval.models.window_features import (
    DIRECTIONS,
    HISTORIES,
    KIND,
    MOST,
    PLACES,
    Direction,
    described,
    padded,
    window_features,
)

HEAD = Head("coherent", "binary")
FIGURES = tuple(f"{direction}{history}" for direction in DIRECTIONS for history in HISTORIES)
_TRAIN = "train it by dialoguescore:figure={} --encoder …"
_BEFORE = {"ur": 1, "ru": 2}  # turns that are no history: what is answered; that and the reply
_FIGURES = (len(DIRECTIONS), len(HISTORIES))
_CACHE = 16 << 20  # bytes of figures kept, since several metrics of a run ask for the same
_ROWS = 256  # windows described at a time: what a core's cache holds


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
    """The figures of one reply: a probability by direction and exchanges of history that there are."""

    turn: int
    values: dict[Direction, dict[int, float]]
    """By exchanges of history, as many as the dialogue has and of those that were asked for."""
    there: dict[Direction, int]
    """How many exchanges of history there are; no direction that cannot be asked."""
    cut: bool
    """Whether a turn of its windows was too long for the encoder."""


class CoherenceScorer(Model):
    """A head over windows of turn vectors, and the encoder it was trained on."""

    kinds: ClassVar[tuple[str, ...]] = (KIND,)
    figures = FIGURES

    def __init__(self, artefact: Artefact) -> None:
        super().__init__(artefact)
        place = artefact.folder / "config.json"
        self._head, self.encoder = VectorHead(artefact), recorded_encoder(artefact.config, place)
        if HEAD not in self._head.heads:
            raise DataError(f"has no head {HEAD.name!r}", file=place, field="heads")
        self._cache = Cache(_CACHE)

    def needs(self) -> list[Need]:
        """Return what it reads of an encoder."""
        return vector_needs(self.encoder)

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
        asked = windows(found.dialogue, found.spoken, turns)
        texts = [turn.text for turn in found.dialogue.turns]
        keys = [_window_key(self.sha, some, texts) for some in asked]
        known = self._cache.fetch(keys)
        rows = [
            (number, window, history)
            for number, some in enumerate(asked)
            for window in some.values()
            for history in range(window.histories + 1)
            if known[number] is None and (window.direction, history) in wanted
        ]
        tables = [np.full(_FIGURES, np.nan, np.float32) if one is None else one for one in known]
        if rows:
            answers = self._answers(described(found.vectors, texts), rows)
            for (number, window, history), value in zip(rows, answers, strict=True):
                tables[number][DIRECTIONS.index(window.direction), history] = value
        if len(wanted) == len(DIRECTIONS) * len(HISTORIES):
            self._cache.store(keys, tables)
        return [
            Coherence(
                turn,
                {one.direction: _asked_for(table, one, wanted) for one in some.values()},
                {one.direction: one.histories for one in some.values()},
                any(found.cut[one] for window in some.values() for one in window.turns),
            )
            for turn, some, table in zip(turns, asked, tables, strict=True)
        ]

    def _answers(self, vectors: Floats, rows: Sequence[tuple[int, Window, int]]) -> npt.NDArray[np.float64]:
        parts = [np.zeros(0)]
        for start in range(0, len(rows), _ROWS):
            some = rows[start : start + _ROWS]
            places = np.array([padded(window.cut(history)) for _, window, history in some], np.int64)
            direction = np.array([DIRECTIONS.index(window.direction) for _, window, _ in some], np.int64)
            history = np.array([history for _, _, history in some], np.int64)
            parts.append(self._head.answers(window_features(vectors, places, direction, history))[HEAD.name])
        return np.concatenate(parts)


def _window_key(sha: str, some: dict[Direction, Window], texts: Sequence[str]) -> bytes:
    """Name what is said of a reply by the texts of its windows."""
    read = [f"{one.direction}\x1d" + "\x1e".join(texts[turn] for turn in one.turns) for one in some.values()]
    return key(f"{sha}|windows", "\x1f".join(read))


def _asked_for(table: Floats, window: Window, wanted: set[tuple[Direction, int]]) -> dict[int, float]:
    row = table[DIRECTIONS.index(window.direction)]
    there = range(window.histories + 1)
    return {history: float(row[history]) for history in there if (window.direction, history) in wanted}


class Scorer(Protocol):
    """A scorer of replies, and the figures that it has."""

    sha: str
    figures: tuple[str, ...]

    def needs(self) -> list[Need]:
        """Return what it reads of an encoder that others may read as well."""

    def score(
        self,
        dialogues: Sequence[Dialogue],
        speaker: str | None = None,
        asked: Sequence[tuple[Direction, int]] | None = None,
    ) -> list[list[Coherence]]:
        """Judge the scored turns of each dialogue."""


def coherence_scorer(name: str | Path) -> Scorer:
    """Open a scorer: a head over turn vectors, a cross-encoder, or a folder of them, `ur0` to `ru4`."""
    parts = [figure for figure in FIGURES if (Path(name) / figure).is_dir()]
    if parts:
        return PairCoherence({figure: load(resolve(Path(name) / figure)) for figure in parts})
    artefact = load(resolve(name))
    if artefact.kind == KIND:
        return CoherenceScorer.load(name)
    if artefact.kind == "pair-scorer.v1":
        heads = [head.name for head in PairScorer.load(artefact.folder).heads]
        return PairCoherence(dict.fromkeys([one for one in FIGURES if one in heads], artefact))
    raise DataError(f"this is {artefact.kind}, no scorer of coherence", file=artefact.folder)


class PairCoherence:
    """Cross-encoders with a head for each of some figures, in the order of all."""

    def __init__(self, artefacts: dict[str, Artefact]) -> None:
        self._scorers = {figure: PairScorer.load(found.folder) for figure, found in artefacts.items()}
        self.figures = tuple(artefacts)
        for figure, scorer in self._scorers.items():
            if figure not in [head.name for head in scorer.heads]:
                place, fix = artefacts[figure].folder / "config.json", _TRAIN.format(figure)
                raise DataError(f"has no head {figure!r}", file=place, field="heads", fix=fix)
        if not artefacts:
            raise DataError("a cross-encoder without a figure of coherence", fix=_TRAIN.format(FIGURES[0]))
        shas = sorted({found.sha for found in artefacts.values()})
        self.sha = shas[0] if len(shas) == 1 else hashlib.sha256("".join(shas).encode()).hexdigest()

    def needs(self) -> list[Need]:
        """Return nothing: cross-encoders have networks of their own."""
        return []

    def score(
        self,
        dialogues: Sequence[Dialogue],
        speaker: str | None = None,
        asked: Sequence[tuple[Direction, int]] | None = None,
    ) -> list[list[Coherence]]:
        """Judge the scored turns of each dialogue, by the figures asked for, or by all that it has."""
        wanted = {f"{direction}{history}" for direction, history in asked or ()} or set(self.figures)
        return [self._dialogue(one, scored_turns(one, speaker), wanted) for one in dialogues]

    def _dialogue(self, dialogue: Dialogue, turns: list[int], wanted: set[str]) -> list[Coherence]:
        texts = [turn.text for turn in dialogue.turns]
        spoken = [takes_part(turn) and bool(turn.text.strip()) for turn in dialogue.turns]
        asked = windows(dialogue, spoken, turns)
        values: list[dict[Direction, dict[int, float]]] = [{one: {} for one in some} for some in asked]
        cut = [False] * len(turns)
        for figure in (one for one in self.figures if one in wanted):
            direction, history = DIRECTIONS[FIGURES.index(figure) // len(HISTORIES)], int(figure[-1])
            rows = [
                (place, some[direction].cut(history))
                for place, some in enumerate(asked)
                if direction in some and history <= some[direction].histories
            ]
            said = self._scorers[figure].score(
                [([texts[one] for one in window[:0:-1]], texts[window[0]]) for _, window in rows]
            )
            for number, (place, _) in enumerate(rows):
                values[place][direction][history] = float(said.values[figure][number])
                cut[place] |= said.history_cut[number] or said.response_cut[number]
        there: list[dict[Direction, int]] = [{d: one.histories for d, one in some.items()} for some in asked]
        return [Coherence(*one) for one in zip(turns, values, there, cut, strict=True)]
