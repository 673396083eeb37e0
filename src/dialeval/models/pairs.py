"""Cross-encoders: a history and a response as one sequence of tokens, for training and scoring.

BERT reads `[CLS] h1 [SEP] h2 [SEP] response [SEP]`, with segment 1 for the response; RoBERTa reads
`<s> h1 </s> h2 </s></s> response </s>` without segments. A long history is truncated from the left, so that
the response is kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from dialeval.errors import DataError, UsageError
from dialeval.models.artefact import Artefact, Model
from dialeval.models.heads import Head, read_head_weights, read_heads, readable
from dialeval.models.network import EncoderNetwork, Floats
from dialeval.models.shape import EncoderShape, read_weights
from dialeval.models.tokenization import BATCH_TOKENS, Ints, Tokenizer
from dialeval.models.untrusted import read_setting


class PairLayout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The special tokens of a family, by number.

    `sep` stands between turns of the history and at the end, `pair_separator` between history and response;
    `segments` is whether the encoder has token types.

    >>> PairLayout.of([101, 102], [101, 102, 102], segments=2)
    PairLayout(cls=101, sep=102, pair_separator=(102,), segments=True)
    >>> PairLayout.of([0, 2], [0, 2, 2, 2], segments=1).pair_separator
    (2, 2)
    """

    cls: Annotated[int, msgspec.Meta(ge=0)]
    sep: Annotated[int, msgspec.Meta(ge=0)]
    pair_separator: tuple[Annotated[int, msgspec.Meta(ge=0)], ...]
    segments: bool

    @classmethod
    def of(cls, single: Sequence[int], pair: Sequence[int], segments: int) -> "PairLayout":
        """Return the layout from the special tokens around one empty text and around two.

        `segments` is the encoder's number of token types.
        """
        if len(single) != 2 or len(pair) < 3 or pair[0] != single[0] or pair[-1] != single[1]:
            raise DataError(
                f"a tokenizer that marks one text by {list(single)} and two by {list(pair)} takes no pairs",
                fix="use an encoder of the families bert, distilbert, electra or roberta",
            )
        return cls(single[0], single[1], tuple(pair[1:-1]), segments > 1)

    @classmethod
    def read(cls, config: Mapping[str, Any], vocabulary: int, file: str | Path) -> "PairLayout":
        """Return the layout in an artefact's configuration; raises if it is invalid."""
        layout: PairLayout = read_setting(config, "layout", cls, file)
        if max(layout.cls, layout.sep, *layout.pair_separator) >= vocabulary:
            raise DataError("names tokens that are not in the vocabulary", file=file, field="layout")
        return layout

    def fields(self) -> dict[str, Any]:
        """Return the layout for an artefact's configuration."""
        return dict(msgspec.to_builtins(self))

    @property
    def special(self) -> int:
        """The number of special tokens of a pair of one turn and a response."""
        return 2 + len(self.pair_separator)


class PairInput(NamedTuple):
    """The input of the encoder, and whether history or response were truncated."""

    ids: list[int]
    segments: list[int]
    history_cut: bool
    response_cut: bool


def pair_input(
    history: Sequence[Sequence[int]], response: Sequence[int], limit: int, layout: PairLayout
) -> PairInput:
    """Return the input for a pair, given tokens without special ones, in at most `limit` tokens.

    The history is truncated from the left, also within a turn; empty turns are skipped. The response is
    truncated at its end only if it does not fit alone.

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
    response_ids = list(response[: limit - layout.special])
    history_ids, cut = _newest(history, limit - layout.special - len(response_ids), layout.sep)
    ids = [layout.cls, *history_ids, *layout.pair_separator, *response_ids, layout.sep]
    second = len(response_ids) + 1 if layout.segments else 0
    return PairInput(ids, [0] * (len(ids) - second) + [1] * second, cut, len(response_ids) < len(response))


def _newest(history: Sequence[Sequence[int]], room: int, sep: int) -> tuple[list[int], bool]:
    """Return the newest tokens of a history that fit into `room`, and whether any were left out."""
    parts: list[list[int]] = []
    used = 0
    for turn in reversed(history):
        if not turn:
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


Pair = tuple[Sequence[str], str]


@dataclass(frozen=True)
class PairScores:
    """The predictions of each head for each pair, and which pairs were truncated."""

    values: dict[str, npt.NDArray[np.float64]]
    """By head: (pairs,) numbers or probabilities, or (pairs, classes) probabilities."""
    history_cut: list[bool]
    response_cut: list[bool]


class PairScorer(Model):
    """A trained cross-encoder; the score of a pair does not depend on other pairs."""

    kinds: ClassVar[tuple[str, ...]] = ("pair-scorer.v1",)

    def __init__(
        self, artefact: Artefact, *, threads: int | None = None, batch_tokens: int = BATCH_TOKENS
    ) -> None:
        super().__init__(artefact)
        config, place = artefact.config, artefact.folder / "config.json"
        shape = EncoderShape.of(config, place)
        self.heads: tuple[Head, ...] = read_heads(config, place)
        most = Annotated[int, msgspec.Meta(ge=5, le=shape.positions)]
        self.limit: int = read_setting(config, "limit", most, place)
        self._layout = PairLayout.read(config, shape.vocabulary, place)
        self._tokenizer = Tokenizer(artefact.path("tokenizer.json"), self.limit, shape.vocabulary)
        weights = artefact.path("model.safetensors")
        self._network = EncoderNetwork(shape, read_weights(weights, shape), [shape.layers])
        self._tops = read_head_weights(weights, self.heads, shape.width)
        self._threads, self._batch_tokens = threads, batch_tokens

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        """Score each response after its history; equal pairs are run once."""
        texts = list({text: None for history, response in pairs for text in (*history, response)})
        ids = dict(zip(texts, self._tokenizer.bare(texts), strict=True))
        inputs = [
            pair_input([ids[text] for text in history], ids[response], self.limit, self._layout)
            for history, response in pairs
        ]
        keys = [(tuple(encoded.ids), tuple(encoded.segments)) for encoded in inputs]
        different = list(dict.fromkeys(keys))

        def read(_: list[int], states: dict[int, Floats], __: Ints) -> list[Floats]:
            return list(states[self._network.layers[-1]][:, 0].copy())

        outputs = self._network.run_each(different, read, self._batch_tokens, self._threads)
        by_key = dict(zip(different, outputs, strict=True))
        states = np.array([by_key[key] for key in keys], np.float32).reshape(-1, self._network.shape.width)
        values = {}
        for head in self.heads:
            weight, bias = self._tops[head.name]
            logits = states @ weight.T + bias
            values[head.name] = readable(head, logits if head.classes else logits[:, 0])
        return PairScores(
            values, [encoded.history_cut for encoded in inputs], [encoded.response_cut for encoded in inputs]
        )
