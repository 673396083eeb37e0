"""Whether replies fit what was said before and after them: `dialoguescore` and `coherence`.

Nobody has to label anything to train either. A true reply is told from replies that were given elsewhere;
where those come from is what the two differ in: `dialoguescore` is for task-oriented dialogue, `coherence`
for talk about anything.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from dialeval.dialogues import Dialogue
from dialeval.dialogues.delexicalisation import delexicalised
from dialeval.metrics.registry import (
    Aggregate,
    Language,
    OpensModels,
    Rows,
    aggregate,
    encoded_chunks,
    known_language,
    metric,
    model_field,
)
from dialeval.models.coherence import FIGURES, Coherence, coherence_scorer
from dialeval.models.needs import Need
from dialeval.models.window_features import DIRECTIONS, HISTORIES, MOST, Direction
from dialeval.scores import Scores

TASKS, CHAT = "dialeval-dialoguescore", "dialeval-coherence"
_MISSING: dict[Direction, str] = {"ur": "nothing said before it", "ru": "no follow-up turn"}
Row = tuple[str, float | None, str | None]


@metric("dialoguescore.v1")
@dataclass(frozen=True)
class DialogueScore(OpensModels):
    """How well a reply fits what the user said (`ur`), and what the user said next fits it (`ru`), 0 to 1.

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

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Judge each reply by what surrounds it."""
        rows, scorer = Rows(self), coherence_scorer(self.model)
        for some in encoded_chunks(self, dialogues):
            read = [delexicalised(one, self.speaker) for one in some] if self.delexicalise else some
            for dialogue, found in zip(some, scorer.score(read, self.speaker), strict=True):
                _add(rows, dialogue, found, self, scorer.figures)
        return rows.scores()

    def needs(self) -> list[Need]:
        """Open the model; return what it reads of an encoder, unless it is made anew from the text."""
        needs = super().needs()
        return [] if self.delexicalise else needs


@metric("coherence.v1")
@dataclass(frozen=True)
class OpenCoherence(OpensModels):
    """How well a reply fits what was said before (`ur`), and what is said next fits it (`ru`), 0 to 1.

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

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Judge each reply by what surrounds it."""
        rows, scorer = Rows(self), coherence_scorer(self.model)
        for some in encoded_chunks(self, dialogues):
            for dialogue, found in zip(some, scorer.score(some, self.speaker), strict=True):
                _add(rows, dialogue, found, self, scorer.figures)
        return rows.scores()


def _add(
    rows: Rows,
    dialogue: Dialogue,
    found: list[Coherence],
    asked: DialogueScore | OpenCoherence,
    figures: tuple[str, ...],
) -> None:
    known: dict[str, list[tuple[float, int]]] = {name: [] for name in asked.dimensions}
    for one in found:
        words = len(dialogue.turns[one.turn].text.split())
        for name, value, note in _figures(dialogue, one, figures):
            if name in known:
                rows.add(dialogue, one.turn, name, value, note)
                known[name] += [] if value is None else [(value, words)]
    for name, some in known.items():
        values, words_of = [value for value, _ in some], [words for _, words in some]
        figure = aggregate(values, words_of, asked.aggregate) if some else None
        missing = None if some else _absent(name, figures) or "no reply to score"
        rows.add(dialogue, None, name, figure, missing)


def _absent(name: str, figures: tuple[str, ...]) -> str | None:
    """Say what a model lacks for a figure, or for the mean of five."""
    wanted = [f"{name}{history}" for history in HISTORIES] if name in DIRECTIONS else [name]
    return None if set(wanted) <= set(figures) else f"the model has {', '.join(figures)} only"


def _figures(dialogue: Dialogue, one: Coherence, figures: tuple[str, ...]) -> Iterator[Row]:
    """Return all figures of a reply; what there is of history stands in for what there is not."""
    empty = not dialogue.turns[one.turn].text.strip()
    means: list[Row] = []
    for direction in DIRECTIONS:
        there = one.there.get(direction)
        missing = "empty reply" if empty else _MISSING[direction]
        each = list[float | None]()
        for history in HISTORIES:
            name = f"{direction}{history}"
            if there is None or (lacking := _absent(name, figures)):
                yield name, None, missing if there is None else lacking
            else:
                each.append(one.values[direction].get(min(history, there)))
                yield name, each[-1], _note(one.cut, there, history)
        values = [value for value in each if value is not None]
        if there is None or len(values) < len(HISTORIES):
            means.append((direction, None, missing if there is None else _absent(direction, figures)))
        else:
            means.append((direction, sum(values) / len(values), _note(one.cut, there, MOST)))
    yield from means


def _note(cut: bool, there: int, wanted: int) -> str | None:
    short = f"exchanges of history: {there}, not {wanted}" if there < wanted else None
    return "truncated" if cut and not short else f"truncated; {short}" if cut else short
