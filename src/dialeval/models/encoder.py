"""Text in, vectors out: each text once, whoever asks.

Texts are told apart by content. What a cache holds is not computed again; the rest is sorted by length,
cut into batches of a bounded number of tokens and run side by side, and the answers come back in the order
of the question. Neither the order, nor the size of a batch, nor the number of threads changes a number
beyond rounding (1e-5).
"""

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dialeval.errors import DataError, DialevalError, UsageError
from dialeval.models.artefact import Artefact, load, recorded, resolve
from dialeval.models.batching import BATCH_TOKENS, Ints, batches, default_threads, padded, side_by_side
from dialeval.models.cache import DiskCache, Layered, MemoryCache, key
from dialeval.models.network import Floats, Network
from dialeval.models.shape import Shape, read_weights
from dialeval.models.tokens import Tokenizer

Pooling = Literal["mean", "max", "first"]
Finish = Callable[[Floats, Ints], list[Floats]]
DEFAULT = "dialeval-encoder-small"
_BLOCK = 4096  # texts tokenised and held at a time


class Encoder:
    """A frozen encoder that runs on onnxruntime.

    >>> encoder = Encoder.load()
    >>> encoder.name, encoder.width, encoder.layers, encoder.limit
    ('dialeval-encoder-small', 384, 6, 512)
    >>> one, other = encoder.vectors(["Where is the station?", "How do I get to the station?"])
    >>> round(float(one @ other), 2)
    0.79
    """

    def __init__(
        self,
        artefact: Artefact,
        *,
        threads: int | None = None,
        cache: str | Path | None = None,
        memory: int = 512 << 20,
        batch_tokens: int = BATCH_TOKENS,
    ) -> None:
        config, place = artefact.config, str(artefact.folder / "config.json")
        self.sha, self.name = artefact.sha, str(config.get("name", artefact.folder.name))
        self._shape = Shape.of(config, place)
        self.width, self.layers, self.limit = self._shape.width, self._shape.layers, self._shape.positions
        if config.get("pooling") not in ("mean", "max", "first"):
            raise DataError(f"unknown pooling {config.get('pooling')!r}", file=place, field="pooling")
        self._pooling: Pooling = config["pooling"]
        self._unit = bool(config.get("unit"))
        self.tokenizer = Tokenizer(artefact.path("tokenizer.json"), self.limit)
        self._weights = artefact.path("model.safetensors")
        self._threads = threads or default_threads()
        self._batch_tokens = batch_tokens
        self._cache = Layered(MemoryCache(memory), DiskCache(cache) if cache else None)
        self._networks: dict[int, Network] = {}

    @classmethod
    def load(cls, name: str | Path = DEFAULT) -> "Encoder":
        """Load an encoder by folder, shipped name, pulled name or Hub id; one per process, shared by all.

        `DIALEVAL_THREADS` says how many cores it may use (all), `DIALEVAL_CACHE` names a folder where
        vectors are kept between runs (none).
        """
        return _loaded(str(resolve(name)))

    def vectors(
        self, texts: Sequence[str], *, layer: int | None = None, pooling: Pooling | None = None
    ) -> Floats:
        """Give one vector for each text, (texts, width).

        Without `layer` and `pooling` it is the vector the model was made to give: for sentence encoders
        often scaled to length one. With either, the plain mean, maximum or first token of that layer,
        counted from 1; layer 0 is the embeddings.
        """
        own = layer is None and pooling is None
        how, unit = pooling or self._pooling, own and self._unit
        depth = self._depth(layer)

        def pool(states: Floats, lengths: Ints) -> list[Floats]:
            return _pooled(states, lengths, how, unit)

        rows = self._each(texts, _vector_key(depth, how, unit), depth, pool)
        return np.stack(rows) if rows else np.zeros((0, self.width), np.float32)

    def tokens(self, texts: Sequence[str], *, layer: int | None = None, half: bool = False) -> list[Floats]:
        """Give the states of every token of each text, special ones included: (tokens, width) each.

        `half` keeps them in half precision, in the answer as in the cache, for large corpora. From the last
        layer the vector of each text comes at no cost and goes to the cache as well, for whoever asks next.
        """
        depth, kind = self._depth(layer), np.dtype(np.float16 if half else np.float32)

        def split(states: Floats, lengths: Ints) -> list[Floats]:
            return [one[:length].astype(kind) for one, length in zip(states, lengths, strict=True)]

        def pool(states: Floats, lengths: Ints) -> list[Floats]:
            return _pooled(states, lengths, self._pooling, self._unit)

        by_the_way = (_vector_key(depth, self._pooling, self._unit), pool) if depth == self.layers else None
        return self._each(texts, f"{depth}|tokens|{kind}", depth, split, by_the_way)

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Say of each text whether it is longer than the encoder can take, so that its end is not seen."""
        # A token covers at least a byte, so a short text needs no counting.
        long = [place for place, text in enumerate(texts) if 4 * len(text) + 8 > self.limit]
        found = [False] * len(texts)
        for place, tokens in zip(long, self.tokenizer.encode([texts[one] for one in long]), strict=True):
            found[place] = tokens.cut
        return found

    def _depth(self, layer: int | None) -> int:
        depth = self.layers if layer is None else layer
        if not 0 <= depth <= self.layers:
            raise UsageError(f"{self.name} has no layer {layer}; it has 0 to {self.layers}")
        return depth

    def _each(
        self,
        texts: Sequence[str],
        what: str,
        depth: int,
        finish: Finish,
        by_the_way: tuple[str, Finish] | None = None,
    ) -> list[Floats]:
        """Answer for every text from the cache, or else by running it once; keep what comes by the way."""
        keys = [key(f"{self.sha}|{what}", text) for text in texts]
        stored = zip(keys, self._cache.fetch(keys), strict=True)
        known: dict[bytes, Floats] = {one: value for one, value in stored if value is not None}
        missing = {one: text for one, text in zip(keys, texts, strict=True) if one not in known}
        names = list(missing)
        for start in range(0, len(names), _BLOCK):
            block = names[start : start + _BLOCK]
            said = [missing[one] for one in block]
            found, others = self._run(said, depth, [finish, *(by_the_way[1:] if by_the_way else ())])
            self._cache.store(block, found)
            if by_the_way:
                self._cache.store([key(f"{self.sha}|{by_the_way[0]}", text) for text in said], others)
            known.update(zip(block, found, strict=True))
        return [known[one] for one in keys]

    def _run(
        self, texts: Sequence[str], depth: int, finishes: Sequence[Finish]
    ) -> tuple[list[Floats], list[Floats]]:
        """Run texts, and finish their states in one way or in two."""
        tokens = self.tokenizer.encode(texts)
        network = self._network(depth)
        groups = batches([len(one.ids) for one in tokens], self._batch_tokens)

        def run(group: list[int]) -> list[list[Floats]]:
            ids, lengths = padded([tokens[place].ids for place in group])
            states = network.states(ids, lengths)
            return [finish(states, lengths) for finish in finishes]

        found = [[np.empty(0, np.float32)] * len(tokens) for _ in range(2)]
        for group, answers in side_by_side(run, groups, self._threads):
            for kept, each in zip(found, answers, strict=False):
                for place, answer in zip(group, each, strict=True):
                    kept[place] = answer
        return found[0], found[1]

    def _network(self, depth: int) -> Network:
        if depth not in self._networks:
            self._networks[depth] = Network(
                self._shape, read_weights(self._weights, self._shape, depth), depth
            )
        return self._networks[depth]


def recorded_encoder(config: Mapping[str, Any], file: Path) -> Encoder:
    """Load the encoder that an artefact was trained on; another one of the same name is refused."""
    return recorded(config, "encoder", file, Encoder.load)


def mark(name: str) -> str:
    """Name an encoder in signatures by what it computes, not by where it lies.

    What cannot be found keeps its name: nothing can be scored with it.

    >>> mark("dialeval-encoder-small")
    'daa42c3df4ef'
    """
    try:
        return Encoder.load(name).sha[:12]
    except DialevalError:
        return name


@functools.lru_cache(maxsize=8)
def _loaded(folder: str) -> Encoder:
    return Encoder(load(folder, "encoder.v1"), cache=os.environ.get("DIALEVAL_CACHE") or None)


if hasattr(os, "register_at_fork"):  # a runtime's threads do not survive a fork: the child loads its own
    os.register_at_fork(after_in_child=_loaded.cache_clear)


def _vector_key(depth: int, how: Pooling, unit: bool) -> str:
    return f"{depth}|{how}|{unit}"


def _pooled(states: Floats, lengths: Ints, how: Pooling, unit: bool) -> list[Floats]:
    found = _pool(states, lengths, how)
    if unit:
        found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
    return list(found)


def _pool(states: Floats, lengths: Ints, how: Pooling) -> Floats:
    if how == "first":
        return np.array(states[:, 0])
    if int(lengths.min()) == states.shape[1]:  # no padding
        return np.asarray(states.max(axis=1) if how == "max" else states.mean(axis=1), np.float32)
    inside = np.arange(states.shape[1]) < lengths[:, None]
    if how == "max":
        return np.asarray(np.where(inside[:, :, None], states, -np.inf).max(axis=1), np.float32)
    total = np.einsum("ntw,nt->nw", states, inside.astype(np.float32))
    return np.asarray(total / lengths[:, None].astype(np.float32), np.float32)
