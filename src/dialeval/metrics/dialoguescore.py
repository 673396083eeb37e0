"""The metrics `dialoguescore` and `coherence`: whether replies fit the turns around them.

Nobody has to label anything to train either. A true reply is told from replies that were given elsewhere;
where those come from is what the two differ in: `dialoguescore` is for task-oriented dialogue, `coherence`
for talk about anything.

Either reads turn vectors (`CoherenceScorer`), or cross-encoders: one with a head for each figure, several
with one each, or some that answer only a few. Those read the words of a window together and are given every
window anew, so ten figures cost ten times one.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from dialeval.dialogues import Dialogue, says_something, scored_turns
from dialeval.dialogues.delexicalisation import delexicalised
from dialeval.errors import DataError
from dialeval.metrics.registry import (
    Aggregate,
    Language,
    OpensModels,
    Rows,
    encoded_chunks,
    known_language,
    metric,
    model_field,
)
from dialeval.models.artefact import Artefact, load, opened_once
from dialeval.models.coherence import (
    DIRECTIONS,
    FIGURES,
    HISTORIES,
    KIND,
    MOST,
    Coherence,
    CoherenceScorer,
    Direction,
    windows,
)
from dialeval.models.needs import Need
from dialeval.models.pairs import PairScorer
from dialeval.scores import Scores

TASKS, CHAT = "dialeval-dialoguescore", "dialeval-coherence"
_TRAIN = "train it by dialoguescore:figure={} --encoder …"
_MISSING: dict[Direction, str] = {"ur": "nothing said before it", "ru": "no follow-up turn"}
Row = tuple[str, float | None, str | None]


class PairCoherence:
    """Cross-encoders with a head for each of some figures, in the order of all."""

    def __init__(self, artefacts: dict[str, Artefact]) -> None:
        self._scorers = {figure: PairScorer.load(artefact.folder) for figure, artefact in artefacts.items()}
        self.figures = tuple(artefacts)
        for figure, scorer in self._scorers.items():
            if figure not in [head.name for head in scorer.heads]:
                place, fix = artefacts[figure].folder / "config.json", _TRAIN.format(figure)
                raise DataError(f"has no head {figure!r}", file=place, field="heads", fix=fix)
        if not artefacts:
            raise DataError("a cross-encoder without a figure of coherence", fix=_TRAIN.format(FIGURES[0]))
        shas = sorted({artefact.sha for artefact in artefacts.values()})
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
        requested = {f"{direction}{history}" for direction, history in asked or ()} or set(self.figures)
        return [
            self._dialogue(dialogue, scored_turns(dialogue, speaker), requested) for dialogue in dialogues
        ]

    def _dialogue(self, dialogue: Dialogue, turns: list[int], requested: set[str]) -> list[Coherence]:
        texts = [turn.text for turn in dialogue.turns]
        spoken = [says_something(turn) for turn in dialogue.turns]
        asked = windows(dialogue, spoken, turns)
        values: list[dict[Direction, dict[int, float]]] = [
            {direction: {} for direction in by_direction} for by_direction in asked
        ]
        cut = [False] * len(turns)
        for figure in (name for name in self.figures if name in requested):
            direction, history = DIRECTIONS[FIGURES.index(figure) // len(HISTORIES)], int(figure[-1])
            rows = [
                (place, by_direction[direction].cut(history))
                for place, by_direction in enumerate(asked)
                if direction in by_direction and history <= by_direction[direction].histories
            ]
            answers = self._scorers[figure].score(
                [([texts[turn] for turn in window[:0:-1]], texts[window[0]]) for _, window in rows]
            )
            for number, (place, _) in enumerate(rows):
                values[place][direction][history] = float(answers.values[figure][number])
                cut[place] |= answers.history_cut[number] or answers.response_cut[number]
        histories: list[dict[Direction, int]] = [
            {d: window.histories for d, window in by_direction.items()} for by_direction in asked
        ]
        return [Coherence(*fields) for fields in zip(turns, values, histories, cut, strict=True)]


@opened_once
def coherence_scorer(folder: str) -> CoherenceScorer | PairCoherence:
    """Open a scorer: a head over turn vectors, a cross-encoder, or a folder of them, `ur0` to `ru4`."""
    parts = [figure for figure in FIGURES if (Path(folder) / figure).is_dir()]
    if parts:
        return PairCoherence({figure: load(Path(folder) / figure) for figure in parts})
    artefact = load(folder)
    if artefact.kind == KIND:
        return CoherenceScorer.load(folder)
    if artefact.kind == "pair-scorer.v1":
        heads = [head.name for head in PairScorer.load(folder).heads]
        return PairCoherence(dict.fromkeys([figure for figure in FIGURES if figure in heads], artefact))
    raise DataError(f"expected a coherence scorer, found {artefact.kind}", file=artefact.folder)


class _JudgesFit(OpensModels):
    """A metric of how replies fit what surrounds them, with the fields of `OpenCoherence`."""

    model: str
    aggregate: Aggregate
    speaker: str | None
    dimensions: ClassVar[tuple[str, ...]]

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Judge each reply by what surrounds it."""
        rows, scorer = Rows(self), coherence_scorer(self.model)
        for chunk in encoded_chunks(self, dialogues):
            for dialogue, replies in zip(chunk, scorer.score(self.read(chunk), self.speaker), strict=True):
                self._add(rows, dialogue, replies, scorer.figures)
        return rows.scores()

    def read(self, dialogues: list[Dialogue]) -> list[Dialogue]:
        """Return what is read of dialogues."""
        return dialogues

    def _add(
        self, rows: Rows, dialogue: Dialogue, replies: list[Coherence], figures: tuple[str, ...]
    ) -> None:
        by_name: dict[str, dict[int, float]] = {name: {} for name in self.dimensions}
        for reply in replies:
            for name, value, note in _figures(dialogue, reply, figures):
                if name in by_name:
                    rows.add(dialogue, reply.turn, name, value, note)
                    by_name[name] |= {} if value is None else {reply.turn: value}
        for name, values in by_name.items():
            missing = _absent(name, figures) or "no reply to score"
            rows.add_dialogue(dialogue, name, values, self.aggregate, missing)


@metric("dialoguescore.v1")
@dataclass(frozen=True)
class DialogueScore(_JudgesFit):
    """Coherence of a reply in task-oriented dialogue, 0 to 1.

    `ur`: how well a reply fits what the user said. `ru`: how well the user's next turn fits the reply.

    `ur0` to `ur4` and `ru0` to `ru4` see so many exchanges of history, `ur` and `ru` are their means. Where a
    dialogue has less history, what there is is used, and noted. Dialogues have the figure of their turns by
    `aggregate`. With `delexicalise`, replies are read without their values, as systems write them whose
    replies have placeholders.

    >>> from dialeval.dialogues import dialogue
    >>> ask, answer = "I need a taxi to the station.", "From the museum, at 5."
    >>> chats = [dialogue([("user", ask), ("assistant", reply), ("user", answer)], reply)
    ...     for reply in ("Where from, and when?", "It has 4 stars.")]
    >>> found = DialogueScore().score(chats)
    >>> for name in ("ur", "ru"):
    ...     good, bad = (row.value for row in found.where(dimension=name, level="turn"))
    ...     print(good > bad)
    True
    True
    """

    model: str = model_field(TASKS, coherence_scorer)
    delexicalise: bool = False
    aggregate: Aggregate = "mean"
    speaker: str | None = None
    language: Language = known_language()
    dimensions: ClassVar[tuple[str, ...]] = (*FIGURES, *DIRECTIONS)

    def read(self, dialogues: list[Dialogue]) -> list[Dialogue]:
        """Return what is read of dialogues: their replies without values, if so asked."""
        if not self.delexicalise:
            return dialogues
        return [delexicalised(dialogue, self.speaker) for dialogue in dialogues]

    def needs(self) -> list[Need]:
        """Open the model; return what it reads of an encoder, unless it is made anew from the text."""
        needs = super().needs()
        return [] if self.delexicalise else needs


@metric("coherence.v1")
@dataclass(frozen=True)
class OpenCoherence(_JudgesFit):
    """Coherence of a reply in open-domain chat, 0 to 1.

    `ur`: how well a reply fits the turns before it. `ru`: how well the next turn fits the reply.

    For chat about anything. Both are means over none to four exchanges of history. Dialogues have the figure
    of their turns by `aggregate`.

    >>> from dialeval.dialogues import dialogue
    >>> chats = [dialogue([("user", "Do you have any pets?"), ("assistant", reply)], reply)
    ...     for reply in ("Yes, two cats and an old dog.", "The train leaves at nine.")]
    >>> good, bad = (row.value for row in OpenCoherence().score(chats) if row.turn and row.dimension == "ur")
    >>> good > bad
    True
    """

    model: str = model_field(CHAT, coherence_scorer)
    aggregate: Aggregate = "mean"
    speaker: str | None = None
    language: Language = known_language()
    dimensions: ClassVar[tuple[str, ...]] = DIRECTIONS
    tuned_on: ClassVar[tuple[str, ...]] = ("dbdc3",)
    left_out: ClassVar[tuple[str, ...]] = ("dailydialog++",)


def _absent(name: str, figures: tuple[str, ...]) -> str | None:
    """Return a note if a model lacks a figure, or one of the five of a mean."""
    needed = [f"{name}{history}" for history in HISTORIES] if name in DIRECTIONS else [name]
    return None if set(needed) <= set(figures) else f"the model has {', '.join(figures)} only"


def _figures(dialogue: Dialogue, reply: Coherence, figures: tuple[str, ...]) -> Iterator[Row]:
    """Return all figures of a reply; what there is of history stands in for what there is not."""
    empty = not dialogue.turns[reply.turn].text.strip()
    means: list[Row] = []
    for direction in DIRECTIONS:
        available = reply.there.get(direction)
        missing = "empty reply" if empty else _MISSING[direction]
        history_values = list[float | None]()
        for history in HISTORIES:
            name = f"{direction}{history}"
            if available is None or (lacking := _absent(name, figures)):
                yield name, None, missing if available is None else lacking
            else:
                history_values.append(reply.values[direction].get(min(history, available)))
                yield name, history_values[-1], _note(reply.cut, available, history)
        values = [value for value in history_values if value is not None]
        if available is None or len(values) < len(HISTORIES):
            means.append((direction, None, missing if available is None else _absent(direction, figures)))
        else:
            means.append((direction, sum(values) / len(values), _note(reply.cut, available, MOST)))
    yield from means


def _note(cut: bool, available: int, needed: int) -> str | None:
    short = f"exchanges of history: {available}, not {needed}" if available < needed else None
    return "truncated" if cut and not short else f"truncated; {short}" if cut else short
