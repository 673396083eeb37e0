"""The frozen encoder: each text is encoded once for all models that read it.

Results are cached by text. Other texts are sorted by length, split into batches of a bounded number of tokens
and run in parallel. Models read different outputs (`Reading`): the vector of the last layer, the mean of a
middle one, the states of all tokens. One pass computes all that are announced (`Encoder.prepare`,
`models.needs`). Order, batch size and number of threads change numbers by rounding only (1e-5).
"""

import functools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from dialeval.errors import DialevalError, UsageError
from dialeval.models.artefact import Artefact, Model, recorded
from dialeval.models.cache import Cache, DiskCache
from dialeval.models.network import EncoderNetwork, Floats
from dialeval.models.shape import EncoderShape, read_weights
from dialeval.models.tokenization import BATCH_TOKENS, Ints, Tokenizer, default_threads
from dialeval.models.untrusted import read_setting

Pooling = Literal["mean", "max", "first"]
DEFAULT = "dialeval-encoder-small"
_BLOCK = 4096  # texts tokenised and held at a time


@dataclass(frozen=True, order=True)
class Reading:
    """An output for a text: one vector, pooled over the tokens of a layer, or the states of all tokens.

    `unit` scales a vector to length one; `half` keeps token states in half precision.
    """

    layer: int
    form: Literal["mean", "max", "first", "tokens"]
    unit: bool = False
    half: bool = False

    @functools.cached_property
    def name(self) -> str:
        """Its name in the keys of the cache."""
        if self.form == "tokens":
            return f"{self.layer}|tokens|{'float16' if self.half else 'float32'}"
        return f"{self.layer}|{self.form}|{self.unit}"

    def of(self, states: Floats, lengths: Ints) -> list[Floats]:
        """Return this output for each text of a batch, from the states of its layer."""
        if self.form == "tokens":
            kind = np.float16 if self.half else np.float32
            return [
                text_states[:length].astype(kind, copy=False)
                for text_states, length in zip(states, lengths, strict=True)
            ]
        vectors = _pool(states, lengths, self.form)
        if self.unit:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return list(vectors)


Requested = Mapping[str, Collection[Reading]]


class Encoder(Model):
    """A frozen encoder that runs on onnxruntime.

    `DIALEVAL_THREADS` limits the number of cores (default: all), `DIALEVAL_CACHE` names a folder where
    vectors are cached between runs (default: none).

    >>> encoder = Encoder.load()
    >>> encoder.name, encoder.width, encoder.layers, encoder.limit
    ('dialeval-encoder-small', 384, 6, 512)
    >>> first, second = encoder.vectors(["Where is the station?", "How do I get to the station?"])
    >>> round(float(first @ second), 2)
    0.79
    """

    kinds: ClassVar[tuple[str, ...]] = ("encoder.v1",)
    default: ClassVar[str] = DEFAULT

    def __init__(
        self,
        artefact: Artefact,
        *,
        threads: int | None = None,
        cache: str | Path | None = None,
        memory: int = 512 << 20,
        batch_tokens: int = BATCH_TOKENS,
    ) -> None:
        super().__init__(artefact)
        config, place = artefact.config, artefact.folder / "config.json"
        self._shape = EncoderShape.of(config, place)
        self.width, self.layers, self.limit = self._shape.width, self._shape.layers, self._shape.positions
        self._pooling: Pooling = read_setting(config, "pooling", Pooling, place)
        self._unit = bool(config.get("unit"))
        self.tokenizer = Tokenizer(artefact.path("tokenizer.json"), self.limit, self._shape.vocabulary)
        self._weights = artefact.path("model.safetensors")
        self._threads = threads or default_threads()
        self._batch_tokens = batch_tokens
        self._memory = memory
        cache = cache or os.environ.get("DIALEVAL_CACHE")
        self._cache = Cache(memory, DiskCache(cache) if cache else None)
        self._networks: dict[int, EncoderNetwork] = {}

    def reading(self, layer: int | None = None, pooling: Pooling | None = None) -> Reading:
        """Return the `Reading` of `vectors` with these arguments, for `prepare`."""
        is_default = layer is None and pooling is None
        return Reading(self.layer(layer), pooling or self._pooling, is_default and self._unit)

    def vectors(
        self, texts: Sequence[str], *, layer: int | None = None, pooling: Pooling | None = None
    ) -> Floats:
        """Return one vector for each text, (texts, width).

        Without `layer` and `pooling` it is the model's own sentence vector, often scaled to length one.
        With either, the plain mean, maximum or first token of that layer,
        counted from 1; layer 0 is the embeddings.
        """
        rows = self._read(texts, self.reading(layer, pooling))
        return np.stack(rows) if rows else np.zeros((0, self.width), np.float32)

    def tokens(self, texts: Sequence[str], *, layer: int | None = None, half: bool = False) -> list[Floats]:
        """Return the states of every token of each text, special ones included: (tokens, width) each.

        `half` keeps them in half precision, in the answer as in the cache, for large corpora.
        """
        return self._read(texts, Reading(self.layer(layer), "tokens", half=half))

    def prepare(self, requests: Iterable[tuple[Iterable[str], Collection[Reading]]]) -> None:
        """Encode texts into the cache, all readings of a text in one pass.

        Cached results are not computed again. Token states that would take more than half of the cache are
        skipped, because they would be evicted before use.
        """
        requested: dict[str, list[Reading]] = {}
        for texts, readings in requests:
            distinct = list(dict.fromkeys(texts))
            for reading in readings:
                if reading.form == "tokens" and self._bytes(distinct) > self._memory // 2:
                    continue
                cached = self._cache.fetch(self._keys(reading, distinct))
                for text, value in zip(distinct, cached, strict=True):
                    if value is None:
                        requested.setdefault(text, []).append(reading)
        for _ in self._encode(requested):
            pass

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Return for each text whether it exceeds the encoder's limit, so that its end is cut off."""
        # A token covers at least a byte, so a short text needs no counting.
        candidates = [place for place, text in enumerate(texts) if 4 * len(text) + 8 > self.limit]
        flags = [False] * len(texts)
        for place, tokens in zip(
            candidates, self.tokenizer.encode([texts[place] for place in candidates]), strict=True
        ):
            flags[place] = tokens.cut
        return flags

    @property
    def shape(self) -> EncoderShape:
        """Its sizes."""
        return self._shape

    def weights(self) -> dict[str, Floats]:
        """Return its weights in full precision, for fine-tuning."""
        return read_weights(self._weights, self._shape)

    def _bytes(self, texts: Sequence[str]) -> int:
        """Return an upper estimate of what the token states of texts take: a token has three letters."""
        return 4 * self.width * sum(min(len(text) // 3 + 3, self.limit) for text in texts)

    @property
    def middle_and_last(self) -> tuple[int, int]:
        """The layers that heads read: a middle one, for words, and the last, for meaning.

        >>> Encoder.load().middle_and_last
        (3, 6)
        """
        return max(1, round(self.layers / 2)), self.layers

    def layer(self, layer: int | None) -> int:
        """Return the number of a layer, by default the last one; raises if it does not exist."""
        depth = self.layers if layer is None else layer
        if not 0 <= depth <= self.layers:
            raise UsageError(f"{self.name} has no layer {layer}; it has 0 to {self.layers}")
        return depth

    def _keys(self, reading: Reading, texts: Iterable[str]) -> list[tuple[str, str]]:
        namespace = f"{self.sha}|{reading.name}"
        return [(namespace, text) for text in texts]

    def _read(self, texts: Sequence[str], reading: Reading) -> list[Floats]:
        """Return the reading of each text, from the cache or computed."""
        stored = zip(texts, self._cache.fetch(self._keys(reading, texts)), strict=True)
        values: dict[str, Floats] = {text: value for text, value in stored if value is not None}
        missing = {text: (reading,) for text in texts if text not in values}
        values |= {text: value for text, _, value in self._encode(missing)}
        return [values[text] for text in texts]

    def _encode(self, requested: Requested) -> Iterator[tuple[str, Reading, Floats]]:
        """Encode texts, grouped by depth, store the readings in the cache and yield them."""
        by_depth: dict[int, list[str]] = {}
        for text, readings in requested.items():
            by_depth.setdefault(max(reading.layer for reading in readings), []).append(text)
        for _, texts in sorted(by_depth.items()):
            for start in range(0, len(texts), _BLOCK):
                by_reading = self._run({text: requested[text] for text in texts[start : start + _BLOCK]})
                for reading, values in by_reading.items():
                    self._cache.store(self._keys(reading, values), list(values.values()))
                    yield from ((text, reading, value) for text, value in values.items())

    def _run(self, requested: Requested) -> dict[Reading, dict[str, Floats]]:
        """Run texts with the same tokens once and return the requested readings of each."""
        same: dict[tuple[int, ...], list[str]] = {}
        for text, tokens in zip(requested, self.tokenizer.encode(list(requested)), strict=True):
            same.setdefault(tuple(tokens.ids), []).append(text)
        distinct = list(same)
        network = self._network({reading.layer for readings in requested.values() for reading in readings})

        def read(group: list[int], states: dict[int, Floats], lengths: Ints) -> list[dict[Reading, Floats]]:
            needed = {
                reading for place in group for text in same[distinct[place]] for reading in requested[text]
            }
            by_reading = {reading: reading.of(states[reading.layer], lengths) for reading in sorted(needed)}
            return [
                {reading: rows[number] for reading, rows in by_reading.items()}
                for number in range(len(group))
            ]

        inputs = [(ids, [0] * len(ids)) for ids in distinct]
        results: dict[Reading, dict[str, Floats]] = {}
        outputs = network.run_each(inputs, read, self._batch_tokens, self._threads)
        for ids, values in zip(distinct, outputs, strict=True):
            for text in same[ids]:
                for reading in requested[text]:
                    results.setdefault(reading, {})[text] = values[reading]
        return results

    def _network(self, layers: Collection[int]) -> EncoderNetwork:
        """Return the network of this depth; it is rebuilt when another output layer is needed."""
        depth, network = max(layers), self._networks.get(max(layers))
        if network is None or not set(layers) <= set(network.layers):
            outputs = {*layers, *(network.layers if network else ())}
            network = EncoderNetwork(
                self._shape, read_weights(self._weights, self._shape, depth), sorted(outputs)
            )
            self._networks[depth] = network
        return network


def recorded_encoder(config: Mapping[str, Any], file: Path) -> Encoder:
    """Load the encoder that an artefact was trained on, checked by hash."""
    return recorded(config, "encoder", file, Encoder.load)


def mark(name: str, load: Callable[[str], Any] = Encoder.load) -> str:
    """Return the mark of an encoder or other model in signatures: its content hash.

    A model that cannot be found keeps its name.

    >>> mark("dialeval-encoder-small")
    'daa42c3df4ef'
    """
    try:
        return str(load(name).sha)[:12]
    except DialevalError:
        return name


def _pool(states: Floats, lengths: Ints, pooling: Pooling) -> Floats:
    if pooling == "first":
        return np.array(states[:, 0])
    if int(lengths.min()) == states.shape[1]:  # no padding
        return np.asarray(states.max(axis=1) if pooling == "max" else states.mean(axis=1), np.float32)
    inside = np.arange(states.shape[1]) < lengths[:, None]
    if pooling == "max":
        return np.asarray(np.where(inside[:, :, None], states, -np.inf).max(axis=1), np.float32)
    total = np.einsum("ntw,nt->nw", states, inside.astype(np.float32))
    return np.asarray(total / lengths[:, None].astype(np.float32), np.float32)
