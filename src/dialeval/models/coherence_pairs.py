"""The same ten questions about a reply, answered by cross-encoders: one with ten heads, or ten with one each.

A cross-encoder reads the words of a window together. It is given every window anew, so ten figures cost ten
times one.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from dialeval.dialogues import Dialogue, scored_turns, takes_part
from dialeval.errors import DataError
from dialeval.models.artefact import Artefact, load, resolve
from dialeval.models.coherence import Coherence, CoherenceScorer, windows
from dialeval.models.pairs import PairScorer
from dialeval.models.window_features import DIRECTIONS, FEATURES, HISTORIES, Direction

FIGURES = tuple(f"{direction}{history}" for direction in DIRECTIONS for history in HISTORIES)


class Scorer(Protocol):
    """What judges replies."""

    sha: str

    def score(
        self,
        dialogues: Sequence[Dialogue],
        speaker: str | None = None,
        asked: Sequence[tuple[Direction, int]] | None = None,
    ) -> list[list[Coherence]]:
        """Judge the scored turns of each dialogue."""


def coherence_scorer(name: str | Path) -> Scorer:
    """Open a scorer: a head over turn vectors, a cross-encoder, or a folder of ten, `ur0` to `ru4`."""
    if Path(name).is_dir() and (Path(name) / FIGURES[0]).is_dir():
        return PairCoherence({figure: load(resolve(Path(name) / figure)) for figure in FIGURES})
    artefact = load(resolve(name))
    if artefact.kind in FEATURES:
        return CoherenceScorer.load(name)
    if artefact.kind == "pair-scorer.v1":
        return PairCoherence(dict.fromkeys(FIGURES, artefact))
    raise DataError(f"this is {artefact.kind}, no scorer of coherence", file=artefact.folder)


class PairCoherence:
    """Cross-encoders that have among them a head for each figure."""

    def __init__(self, artefacts: dict[str, Artefact]) -> None:
        self._scorers = {figure: PairScorer.load(found.folder) for figure, found in artefacts.items()}
        for figure, scorer in self._scorers.items():
            if figure not in [head.name for head in scorer.heads]:
                place = artefacts[figure].folder / "config.json"
                raise DataError(
                    f"has no head {figure!r}", file=place, field="heads", fix="train it for all ten figures"
                )
        shas = sorted({found.sha for found in artefacts.values()})
        self.sha = shas[0] if len(shas) == 1 else hashlib.sha256("".join(shas).encode()).hexdigest()

    def score(
        self,
        dialogues: Sequence[Dialogue],
        speaker: str | None = None,
        asked: Sequence[tuple[Direction, int]] | None = None,
    ) -> list[list[Coherence]]:
        """Judge the scored turns of each dialogue, by the figures asked for, or by all."""
        wanted = {f"{direction}{history}" for direction, history in asked or ()} or set(FIGURES)
        return [self._dialogue(one, scored_turns(one, speaker), wanted) for one in dialogues]

    def _dialogue(self, dialogue: Dialogue, turns: list[int], wanted: set[str]) -> list[Coherence]:
        texts = [turn.text for turn in dialogue.turns]
        spoken = [takes_part(turn) and bool(turn.text.strip()) for turn in dialogue.turns]
        asked = windows(dialogue, spoken, turns)
        values: list[dict[Direction, list[float]]] = [{} for _ in turns]
        cut = [False] * len(turns)
        for figure in (one for one in FIGURES if one in wanted):
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
                values[place].setdefault(direction, []).append(float(said.values[figure][number]))
                cut[place] |= said.history_cut[number] or said.response_cut[number]
        return [Coherence(*one) for one in zip(turns, values, cut, strict=True)]
