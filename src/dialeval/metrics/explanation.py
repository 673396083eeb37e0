"""Why a dialogue got its score, in a form that a terminal and a page can show.

A metric may have a second method, `explain(dialogues) -> list[Explanation]`: what it saw in each dialogue,
piece by piece; the parts its score is made of; and, where it measured against another dialogue, that one
beside it, with the pieces that correspond. Whoever asks for scores never pays for explanations.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import msgspec

from dialeval import files
from dialeval.dialogues import Dialogue
from dialeval.dialogues.dialogue import takes_part
from dialeval.errors import DataError

LONGEST = 20_000  # labels of a side that `align` looks at: the table it keeps is at most 50 MB


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a turn, and what the metric took it for; None where it has no label."""

    text: str
    label: str | None = None


@dataclass(frozen=True, slots=True)
class ExplainedTurn:
    """A turn in pieces, and its number among the dialogue's messages where that is known."""

    speaker: str
    pieces: tuple[Piece, ...]
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """A dialogue as the metric saw it."""

    id: str
    turns: tuple[ExplainedTurn, ...]

    @classmethod
    def of(cls, dialogue: Dialogue) -> "Side":
        """Take the pieces from the `segments` in each turn's meta; a turn without any is one piece.

        Turns that are no part of the conversation (a system prompt, a tool's answer) are left out.

        >>> from dialeval.dialogues import Turn
        >>> hello = Turn("user", "Hi. You?", {"segments": [{"text": "Hi.", "act": "greeting"},
        ...     {"text": "You?", "act": "question"}]})
        >>> Side.of(Dialogue("d1", (hello, Turn("assistant", "Fine")))).labels
        ('greeting', 'question', None)
        """
        turns = [
            ExplainedTurn(turn.speaker, _pieces(turn.text, turn.meta.get("segments")), number)
            for number, turn in enumerate(dialogue.turns)
            if takes_part(turn)
        ]
        return cls(dialogue.id, tuple(turns))

    @property
    def labels(self) -> tuple[str | None, ...]:
        """The labels of all pieces, in order: what `align` takes."""
        return tuple(piece.label for turn in self.turns for piece in turn.pieces)


def _pieces(text: str, segments: Any) -> tuple[Piece, ...]:
    """Read segments as `dialogues.segments` leaves them; what another tool calls so is not taken for them."""
    if not isinstance(segments, list) or not all(isinstance(segment, dict) for segment in segments):
        return (Piece(text),) if text.strip() else ()
    return tuple(Piece(segment.get("text") or "", segment.get("act")) for segment in segments)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one dialogue got its score from one metric.

    Attributes:
        source: The metric's name; a run puts the name there that the metric was asked for under.
        value: The score; what is not finite becomes None.
        parts: What the score is made of, by name.
        own: The dialogue.
        reference: The dialogue it was measured against, if there is one.
        aligned: Pairs of pieces that correspond, counted through all turns of each side: (own, reference).
        note: What else a reader should know, in a sentence.
        dimension: What `value` is a value of; None where the metric has one dimension.

    Raises:
        ValueError: If `aligned` names pieces that are not there, or does not go forward on both sides.
    """

    dialogue_id: str
    source: str
    value: float | None
    parts: Mapping[str, float | None]
    own: Side
    reference: Side | None = None
    aligned: tuple[tuple[int, int], ...] = ()
    note: str | None = None
    dimension: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", _finite(self.value))
        object.__setattr__(self, "parts", {name: _finite(value) for name, value in self.parts.items()})
        ends = (len(self.own.labels), 0 if self.reference is None else len(self.reference.labels))
        steps = pairwise([(-1, -1), *self.aligned, ends])
        if any(before[0] >= after[0] or before[1] >= after[1] for before, after in steps if self.aligned):
            raise ValueError(f"aligned must go forward on both sides, of {ends[0]} and {ends[1]} pieces")


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


@runtime_checkable
class Explains(Protocol):
    """A metric that can explain its scores."""

    def explain(self, dialogues: Sequence[Dialogue]) -> list[Explanation]:
        """Return one explanation for each dialogue that has one."""
        ...


def explaining_names() -> list[str]:
    """Name the metrics that can explain their scores; this imports every metric."""
    from dialeval.metrics.registry import metric_class, metric_names

    return [name for name in metric_names() if hasattr(metric_class(name), "explain")]


def align(own: Sequence[str | None], reference: Sequence[str | None]) -> tuple[tuple[int, int], ...]:
    """Pair the labels of two sequences: as many equal pairs as can be had in order, the earliest first.

    A longest common subsequence, exact. A row of its table is one integer with a bit for each label of
    `reference`, so two sequences of 10,000 take a fraction of a second. Labels beyond `LONGEST` stay
    alone, and so does None.

    >>> align(["greeting", "question", "inform"], ["greeting", "inform", "question", "inform"])
    ((0, 0), (1, 2), (2, 3))
    >>> align(["inform", None], ["thanking", None])
    ()
    """
    own, reference = own[:LONGEST], reference[:LONGEST]
    rows = _lengths(own[::-1], reference[::-1])
    pairs, i, j = [], 0, 0
    while i < len(own) and j < len(reference):
        if own[i] is not None and own[i] == reference[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif rows[len(own) - i - 1] >> (len(reference) - j - 1) & 1:
            j += 1  # without reference[j], what is left has as many pairs
        else:
            i += 1
    return tuple(pairs)


def _lengths(own: Sequence[str | None], reference: Sequence[str | None]) -> list[int]:
    """Return a row for each label of `own`; a bit is 0 where a label of `reference` adds to the match."""
    places: dict[str | None, int] = {}
    for place, label in enumerate(reference):
        places[label] = places.get(label, 0) | 1 << place
    places[None] = 0
    everything = (1 << len(reference)) - 1
    rows, row = [], everything
    for label in own:
        met = row & places.get(label, 0)
        row = ((row + met) | (row - met)) & everything
        rows.append(row)
    return rows


class AlignedCell(NamedTuple):
    """A piece in its place; None for a turn in which nothing was said."""

    turn: ExplainedTurn
    opens: bool
    piece: Piece | None


class AlignedLine(NamedTuple):
    """Two cells that stand beside each other; `same` where the two correspond."""

    own: AlignedCell | None
    reference: AlignedCell | None
    same: bool

    @property
    def opens(self) -> bool:
        """Whether a turn begins here, on either side."""
        return any(cell is not None and cell.opens for cell in (self.own, self.reference))


def side_by_side(explanation: Explanation) -> list[AlignedLine]:
    """Lay both sides out in lines: aligned pieces on one line, what lies between them from the top.

    >>> hello, ask = Piece("Hi", "greeting"), Piece("You?", "question")
    >>> sides = [Side(name, (ExplainedTurn("user", pieces),)) for name, pieces in
    ...     (("d1", (hello, ask)), ("r1", (ask,)))]
    >>> lines = side_by_side(Explanation("d1", "flow", 0.5, {}, *sides, aligned=((1, 0),)))
    >>> [(line.own.piece.text, line.reference and line.reference.piece.text, line.same) for line in lines]
    [('Hi', None, False), ('You?', 'You?', True)]
    """
    own, own_places = _cells(explanation.own)
    reference, reference_places = ([], []) if explanation.reference is None else _cells(explanation.reference)
    lines, i, j = [], 0, 0
    ends = [(own_places[n], reference_places[m]) for n, m in explanation.aligned]
    for end, other_end in [*ends, (len(own), len(reference))]:
        for step in range(max(end - i, other_end - j)):
            left = own[i + step] if i + step < end else None
            lines.append(AlignedLine(left, reference[j + step] if j + step < other_end else None, False))
        if end < len(own) and other_end < len(reference):
            lines.append(AlignedLine(own[end], reference[other_end], True))
        i, j = end + 1, other_end + 1
    return lines


def _cells(side: Side) -> tuple[list[AlignedCell], list[int]]:
    """Return the cells of a side, and where among them each piece is: turns without pieces have cells too."""
    cells: list[AlignedCell] = []
    places = []
    for turn in side.turns:
        if not turn.pieces:
            cells.append(AlignedCell(turn, True, None))
        for number, piece in enumerate(turn.pieces):
            places.append(len(cells))
            cells.append(AlignedCell(turn, number == 0, piece))
    return cells, places


def to_json(explanation: Explanation) -> bytes:
    r"""Write an explanation as one line of JSON, without its end.

    >>> to_json(Explanation("d1", "flow", 0.5, {"acts": 0.25}, Side("d1", ())))[:58]
    b'{"dialogue_id":"d1","source":"flow","value":0.5,"parts":{"'
    """
    return msgspec.json.encode(explanation)


def read_explanations(path: str | Path) -> Iterator[Explanation]:
    """Yield the explanations of a file, one a line.

    Raises:
        DataError: With file and line, where a line is not an explanation.
    """
    decode = msgspec.json.Decoder(Explanation).decode
    with files.open_binary(path) as file:
        for number, line in enumerate(file, 1):
            try:
                yield decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise DataError(
                    f"not an explanation: {error}", file=path, line=number, fix="score again"
                ) from None
