"""Cross-encoders: a history and a response read together, every head answered in one pass."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dialeval.errors import DataError
from dialeval.models.artefact import Artefact, load, resolve
from dialeval.models.batching import BATCH_TOKENS, batches, default_threads, padded, side_by_side
from dialeval.models.heads import Head, read_head_weights, read_heads, readable
from dialeval.models.network import Network
from dialeval.models.pair_input import PairInput, PairLayout, pair_input
from dialeval.models.shape import Shape, read_weights
from dialeval.models.tokens import Tokenizer

Pair = tuple[Sequence[str], str]


@dataclass(frozen=True)
class PairScores:
    """What each head says of each pair, and where something had to be left out."""

    values: dict[str, npt.NDArray[np.float64]]
    """By head: (pairs,) numbers or probabilities, or (pairs, classes) probabilities."""
    history_cut: list[bool]
    response_cut: list[bool]


class PairScorer:
    """A trained cross-encoder; the same pair gets the same numbers in any company."""

    def __init__(
        self, artefact: Artefact, *, threads: int | None = None, batch_tokens: int = BATCH_TOKENS
    ) -> None:
        config, place = artefact.config, artefact.folder / "config.json"
        self.sha, self.name = artefact.sha, str(config.get("name", artefact.folder.name))
        shape = Shape.of(config, str(place))
        self.heads: tuple[Head, ...] = read_heads(config, place)
        self.limit = _limit(config, shape, place)
        self._layout = PairLayout.read(config.get("layout"), shape.vocabulary, place)
        self._tokenizer = Tokenizer(artefact.path("tokenizer.json"), self.limit)
        weights = artefact.path("model.safetensors")
        self._network = Network(shape, read_weights(weights, shape), shape.layers)
        self._tops = read_head_weights(weights, self.heads, shape.width)
        self._threads, self._batch_tokens = threads or default_threads(), batch_tokens

    @classmethod
    def load(cls, name: str | Path) -> "PairScorer":
        """Load a scorer by folder, shipped name, pulled name or Hub id; one per process, shared by all."""
        return _loaded(str(resolve(name)))

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        """Score each response after its history; equal pairs are run once."""
        inputs = self._inputs(pairs)
        keys = [(tuple(one.ids), tuple(one.segments)) for one in inputs]
        different = list(dict(zip(keys, inputs, strict=True)).values())
        places = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        groups = batches([len(one.ids) for one in different], self._batch_tokens)

        def run(group: list[int]) -> npt.NDArray[np.float32]:
            ids, lengths = padded([different[place].ids for place in group])
            segments, _ = padded([different[place].segments for place in group])
            return self._network.states(ids, lengths, segments)[:, 0].copy()

        states = np.zeros((len(different), self._network.shape.width), np.float32)
        for group, found in side_by_side(run, groups, self._threads):
            states[group] = found
        rows = [places[key] for key in keys]
        values = {}
        for head in self.heads:
            weight, bias = self._tops[head.name]
            said = states[rows] @ weight.T + bias
            values[head.name] = readable(head, said if head.classes else said[:, 0])
        return PairScores(values, [one.history_cut for one in inputs], [one.response_cut for one in inputs])

    def _inputs(self, pairs: Sequence[Pair]) -> list[PairInput]:
        texts = list({text: None for history, response in pairs for text in (*history, response)})
        ids = dict(zip(texts, self._tokenizer.bare(texts), strict=True))
        return [
            pair_input([ids[text] for text in history], ids[response], self.limit, self._layout)
            for history, response in pairs
        ]


def _limit(config: dict[str, Any], shape: Shape, place: Path) -> int:
    limit = config.get("limit")
    if type(limit) is not int or not 4 < limit <= shape.positions:
        raise DataError(f"limit {limit!r} is not between 5 and {shape.positions}", file=place, field="limit")
    return limit


@functools.lru_cache(maxsize=8)
def _loaded(folder: str) -> PairScorer:
    return PairScorer(load(folder, "pair-scorer.v1"))
