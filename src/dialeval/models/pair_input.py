"""How a history and a response become one sequence of tokens, when training and when scoring.

BERT reads `[CLS] h1 [SEP] h2 [SEP] response [SEP]`, the response marked by segment 1; RoBERTa reads
`<s> h1 </s> h2 </s></s> response </s>` without segments. What does not fit is taken from the left of the
history, oldest words first: a scorer may forget how a dialogue began, never what it is asked to judge.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from dialeval.errors import DataError, UsageError


@dataclass(frozen=True)
class PairLayout:
    """The special tokens of a family, by number.

    `sep` stands between turns of the history and at the end, `pair_separator` between history and response;
    `segments` says whether the encoder tells the two parts apart.

    >>> PairLayout.of([101, 102], [101, 102, 102], segments=2)
    PairLayout(cls=101, sep=102, pair_separator=(102,), segments=True)
    >>> PairLayout.of([0, 2], [0, 2, 2, 2], segments=1).pair_separator
    (2, 2)
    """

    cls: int
    sep: int
    pair_separator: tuple[int, ...]
    segments: bool

    @classmethod
    def of(cls, single: Sequence[int], pair: Sequence[int], segments: int) -> "PairLayout":
        """Find the layout from what a tokenizer puts around one empty text and around two.

        `segments` is how many kinds of text the encoder tells apart.
        """
        if len(single) != 2 or len(pair) < 3 or pair[0] != single[0] or pair[-1] != single[1]:
            raise DataError(
                f"a tokenizer that marks one text by {list(single)} and two by {list(pair)} takes no pairs",
                fix="use an encoder of the families bert, distilbert, electra or roberta",
            )
        return cls(single[0], single[1], tuple(pair[1:-1]), segments > 1)

    @classmethod
    def read(cls, fields: Any, vocabulary: int, file: object = None) -> "PairLayout":
        """Read what `fields` gave, refusing anything else; `file` is named in the error."""
        if not isinstance(fields, Mapping) or set(fields) != {"cls", "sep", "pair_separator", "segments"}:
            raise DataError("needs exactly: cls, pair_separator, segments, sep", file=file, field="layout")
        between = fields["pair_separator"]
        numbers = [fields["cls"], fields["sep"], *(between if isinstance(between, list | tuple) else [None])]
        known = all(type(one) is int and 0 <= one < vocabulary for one in numbers)
        if not known or type(fields["segments"]) is not bool:
            raise DataError(f"cannot be understood: {dict(fields)}", file=file, field="layout")
        return cls(fields["cls"], fields["sep"], tuple(between), fields["segments"])

    def fields(self) -> dict[str, Any]:
        """Return the layout as it is written to a configuration."""
        return asdict(self) | {"pair_separator": list(self.pair_separator)}

    @property
    def special(self) -> int:
        """How many tokens stand around a pair of one turn and a response."""
        return 2 + len(self.pair_separator)


class PairInput(NamedTuple):
    """What the encoder reads, and what had to be left out of it."""

    ids: list[int]
    segments: list[int]
    history_cut: bool
    response_cut: bool


def pair_input(
    history: Sequence[Sequence[int]], response: Sequence[int], limit: int, layout: PairLayout
) -> PairInput:
    """Lay out tokens, none of them special yet, in at most `limit` places.

    The history loses tokens from its left until all fits; a turn may be cut in the middle, and turns without
    a token are passed over. The response is cut, at its end, only if it does not fit alone.

    >>> layout = PairLayout(cls=1, sep=2, pair_separator=(2,), segments=True)
    >>> pair_input([[11, 12], [13, 14]], [21], limit=20, layout=layout).ids
    [1, 11, 12, 2, 13, 14, 2, 21, 2]
    >>> pair_input([[11, 12], [13, 14]], [21], limit=6, layout=layout)
    PairInput(ids=[1, 13, 14, 2, 21, 2], segments=[0, 0, 0, 0, 1, 1], history_cut=True, response_cut=False)
    >>> pair_input([[11, 12]], [21, 22, 23], limit=5, layout=layout)
    PairInput(ids=[1, 2, 21, 22, 2], segments=[0, 0, 1, 1, 1], history_cut=True, response_cut=True)
    """
    if limit <= layout.special:
        raise UsageError(f"{limit} tokens are too few for a pair: {layout.special} of them are special")
    kept = list(response[: limit - layout.special])
    said, cut = _newest(history, limit - layout.special - len(kept), layout.sep)
    ids = [layout.cls, *said, *layout.pair_separator, *kept, layout.sep]
    second = len(kept) + 1 if layout.segments else 0
    return PairInput(ids, [0] * (len(ids) - second) + [1] * second, cut, len(kept) < len(response))


def _newest(history: Sequence[Sequence[int]], room: int, sep: int) -> tuple[list[int], bool]:
    """Join the turns, newest first in importance, into at most `room` tokens; say whether any were lost."""
    parts: list[list[int]] = []
    used = 0
    for turn in reversed(history):
        if not turn:  # nothing said, nothing to mark off
            continue
        between = 1 if parts else 0
        fits = room - used - between
        if fits < len(turn):
            if fits > 0:
                parts.append([*turn[len(turn) - fits :], *[sep] * between])
            return [token for part in reversed(parts) for token in part], True
        parts.append([*turn, *[sep] * between])
        used += len(turn) + between
    return [token for part in reversed(parts) for token in part], False
