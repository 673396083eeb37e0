"""Explanations of scores: the highest and lowest dialogues of each source, beside their references.

Explanations may be a stream of any length: it is read once, and only what is shown is stored.
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

EACH = 3  # dialogues shown at either end of a source
MOST_SOURCES = 6
MOST_LINES = 80
MOST_CHARACTERS = 600
TINTS = 8  # of the style sheet; a label that is rarer than the first eight is grey
_KEPT = 64


@dataclass(frozen=True, slots=True)
class Reason:
    """An explanation as the page shows it."""

    explanation: Explanation
    system: str | None
    rank: str
    good: bool
    value: str
    parts: list[tuple[str, str]]
    lines: list[AlignedLine]
    left_out: int
    shared: int

    def cut(self, cell: AlignedCell) -> tuple[str, int]:
        """Return the shown text of a piece, and the number of characters left out."""
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
    """The content of the section, and the tint of each label: the more frequent, the lower its number."""

    sources: list[Reasons] = field(default_factory=list)
    left_out: int = 0
    tints: Mapping[str, int] = field(default_factory=dict)


_Ranked = tuple[float, int, Explanation]


@dataclass(slots=True)
class _Candidates:
    """The explanations of one source with extreme values so far, by value and order of arrival."""

    ranked: list[_Ranked] = field(default_factory=list)
    explained: int = 0
    unscored: int = 0

    def add(self, explanation: Explanation) -> None:
        self.explained += 1
        if explanation.value is None:
            self.unscored += 1
            return
        self.ranked.append((explanation.value, self.explained, explanation))
        if len(self.ranked) > _KEPT:
            self.ranked = self.ends()

    def ends(self) -> list[_Ranked]:
        ranked = sorted(self.ranked, key=lambda entry: entry[:2])
        return ranked if len(ranked) <= 2 * EACH else ranked[:EACH] + ranked[-EACH:]


def explain(explanations: Iterable[Explanation], scores: Scores) -> Why:
    """Return the explanations to show: of the lowest and highest values of each source."""
    by_source: dict[str, _Candidates] = defaultdict(_Candidates)
    for explanation in explanations:
        by_source[explanation.source].add(explanation)
    chosen = {source: candidates.ends() for source, candidates in list(by_source.items())[:MOST_SOURCES]}
    systems = _systems(scores, {shown.dialogue_id for ends in chosen.values() for _, _, shown in ends})
    sources = []
    for source, ends in chosen.items():
        candidates = by_source[source]
        sources.append(
            Reasons(
                source, _reasons(ends, candidates, scores, systems), candidates.explained, candidates.unscored
            )
        )
    return Why(sources, len(by_source) - len(chosen), _tints(sources))


def _reasons(
    ends: list[_Ranked], candidates: _Candidates, scores: Scores, systems: Mapping[str, str | None]
) -> list[Reason]:
    """Return the explanations with the worst first, which are the lowest unless lower is better."""
    if not ends:
        return []
    last, scored = ends[-1][2], candidates.explained - candidates.unscored
    direction = better(scores.signatures, last.source, last.dimension or last.source)
    names = ("lowest", "highest") if direction == "neither" else ("worst", "best")
    sized, reasons = max(abs(value) for value, _, _ in ends), []
    for index, (_, _, explanation) in enumerate(ends[::-1] if direction == "lower" else ends):
        good = 2 * index >= len(ends)
        rank = len(ends) - index if good else scored - index
        description = (
            f"among the {names[good]}: rank {rank:,} of {scored:,}" if scored > 1 else "the only one scored"
        )
        reasons.append(_reason(explanation, systems.get(explanation.dialogue_id), description, good, sized))
    return reasons


def _reason(explanation: Explanation, system: str | None, rank: str, good: bool, sized: float) -> Reason:
    lines = side_by_side(explanation)
    parts = [(name, figure(value)) for name, value in explanation.parts.items()]
    return Reason(
        explanation,
        system,
        rank,
        good,
        figure(explanation.value, sized),
        parts,
        lines[:MOST_LINES],
        max(0, len(lines) - MOST_LINES),
        sum(line.same for line in lines),
    )


def _systems(scores: Scores, ids: set[str]) -> dict[str, str | None]:
    """Return the system of each of these dialogues, without those that have several."""
    table = scores.table.select(["dialogue_id", "system"])
    part = table.filter(pc.is_in(table["dialogue_id"], pa.array(sorted(ids), pa.string())))
    systems_of: dict[str, set[str]] = defaultdict(set)
    for row in part.drop_null().to_pylist():
        systems_of[row["dialogue_id"]].add(row["system"])
    return {name: systems.pop() for name, systems in systems_of.items() if len(systems) == 1}


def _tints(sources: list[Reasons]) -> dict[str, int]:
    """Return the tints of the most frequent labels of the page."""
    shown = (line for reasons in sources for reason in reasons.shown for line in reason.lines)
    cells = (cell for line in shown for cell in (line.own, line.reference) if cell and cell.piece)
    counts = Counter(cell.piece.label for cell in cells if cell.piece and cell.piece.label is not None)
    order = sorted(counts, key=lambda label: (-counts[label], label))
    return {label: tint for tint, label in enumerate(order[:TINTS])}
