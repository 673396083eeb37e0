"""Why this score: the dialogues at the ends of each source that can say, beside what they were held against.

Explanations may come as a stream of any length: it is read once, and only what is shown is kept.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from dialeval.metrics.explanation import AlignedCell, AlignedLine, Explanation, side_by_side
from dialeval.reports.table import figure
from dialeval.scores import Scores
from dialeval.scores.signature import better

EACH = 3  # dialogues shown at either end
MOST_SOURCES = 6
MOST_LINES = 80
MOST_CHARACTERS = 600
TINTS = 8  # of the style sheet; a label that is rarer than the first eight is grey
_KEPT = 64


@dataclass(frozen=True, slots=True)
class Reason:
    """An explanation as the page shows it."""

    found: Explanation
    system: str | None
    rank: str
    good: bool
    value: str
    parts: list[tuple[str, str]]
    lines: list[AlignedLine]
    left_out: int
    shared: int

    def cut(self, cell: AlignedCell) -> tuple[str, int]:
        """Return what is shown of a piece, and how many characters are not."""
        text = "" if cell.piece is None else cell.piece.text
        return text[:MOST_CHARACTERS], max(0, len(text) - MOST_CHARACTERS)


@dataclass(frozen=True, slots=True)
class Reasons:
    """The explanations of one source, of its highest and lowest scores."""

    source: str
    shown: list[Reason]
    explained: int
    unscored: int


@dataclass(frozen=True, slots=True)
class Why:
    """Everything the section shows, and the tint of each label: the more frequent, the lower its number."""

    sources: list[Reasons] = field(default_factory=list)
    left_out: int = 0
    tints: Mapping[str, int] = field(default_factory=dict)


_Ranked = tuple[float, int, Explanation]


@dataclass(slots=True)
class _Kept:
    """The explanations of one source that may yet be shown, by value and order of arrival."""

    ranked: list[_Ranked] = field(default_factory=list)
    explained: int = 0
    unscored: int = 0

    def take(self, found: Explanation) -> None:
        self.explained += 1
        if found.value is None:
            self.unscored += 1
            return
        self.ranked.append((found.value, self.explained, found))
        if len(self.ranked) > _KEPT:
            self.ranked = self.ends()

    def ends(self) -> list[_Ranked]:
        ranked = sorted(self.ranked, key=lambda one: one[:2])
        return ranked if len(ranked) <= 2 * EACH else ranked[:EACH] + ranked[-EACH:]


def explain(explanations: Iterable[Explanation], scores: Scores) -> Why:
    """Choose what to show: at either end of each source, the dialogues with the lowest and highest values."""
    kept: dict[str, _Kept] = defaultdict(_Kept)
    for found in explanations:
        kept[found.source].take(found)
    chosen = {source: own.ends() for source, own in list(kept.items())[:MOST_SOURCES]}
    systems = _systems(scores, {one.dialogue_id for ends in chosen.values() for _, _, one in ends})
    sources = [
        Reasons(
            source,
            _reasons(ends, kept[source], scores, systems),
            kept[source].explained,
            kept[source].unscored,
        )
        for source, ends in chosen.items()
    ]
    return Why(sources, len(kept) - len(chosen), _tints(sources))


def _reasons(
    ends: list[_Ranked], kept: _Kept, scores: Scores, systems: Mapping[str, str | None]
) -> list[Reason]:
    """Put the worst first, which are the lowest unless lower is better."""
    if not ends:
        return []
    last, scored = ends[-1][2], kept.explained - kept.unscored
    way = better(scores.signatures, last.source, last.dimension or last.source)
    names = ("lowest", "highest") if way == "neither" else ("worst", "best")
    sized, made = max(abs(value) for value, _, _ in ends), []
    for place, (_, _, found) in enumerate(ends[::-1] if way == "lower" else ends):
        good = 2 * place >= len(ends)
        rank = len(ends) - place if good else scored - place
        words = (
            f"among the {names[good]}: rank {rank:,} of {scored:,}" if scored > 1 else "the only one scored"
        )
        made.append(_reason(found, systems.get(found.dialogue_id), words, good, sized))
    return made


def _reason(found: Explanation, system: str | None, rank: str, good: bool, sized: float) -> Reason:
    lines = side_by_side(found)
    parts = [(name, figure(value)) for name, value in found.parts.items()]
    return Reason(
        found,
        system,
        rank,
        good,
        figure(found.value, sized),
        parts,
        lines[:MOST_LINES],
        max(0, len(lines) - MOST_LINES),
        sum(line.same for line in lines),
    )


def _systems(scores: Scores, ids: set[str]) -> dict[str, str | None]:
    """Return the system of each of these dialogues; nothing where several answered the same one."""
    table = scores.table.select(["dialogue_id", "system"])
    part = table.filter(pc.is_in(table["dialogue_id"], pa.array(sorted(ids), pa.string())))
    found: dict[str, set[str]] = defaultdict(set)
    for row in part.drop_null().to_pylist():
        found[row["dialogue_id"]].add(row["system"])
    return {name: systems.pop() for name, systems in found.items() if len(systems) == 1}


def _tints(sources: list[Reasons]) -> dict[str, int]:
    """Return a tint for each of the most frequent labels of the page."""
    shown = (line for reasons in sources for reason in reasons.shown for line in reason.lines)
    cells = (cell for line in shown for cell in (line.own, line.reference) if cell and cell.piece)
    counts = Counter(cell.piece.label for cell in cells if cell.piece and cell.piece.label is not None)
    order = sorted(counts, key=lambda label: (-counts[label], label))
    return {label: tint for tint, label in enumerate(order[:TINTS])}
