"""A Llama-like language model in numpy: log-likelihoods of continuations at places of a text.

One pass computes everything: the text, and at every place the tree of continuations, which attends to the
text up to that place and to its own branch. Weights are expanded to fp32 when loaded; activations are fp32.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TypeAlias

import numpy as np

from dialeval.errors import DataError
from dialeval.models.gguf import Floats, Gguf
from dialeval.models.likelihood import Place, Tree

_ROWS = 64  # rows of the vocabulary's table looked at together
_QUERIES = 128  # tokens whose attention is computed together
_FORBIDDEN = np.float32(-1e30)
_Span: TypeAlias = tuple[Floats, Floats, int, Floats | None]  # keys, values, and what is hidden from where on


@dataclass(frozen=True)
class _Layer:
    norm: Floats
    attention: Floats  # queries, keys and values side by side
    out: Floats
    ffn_norm: Floats
    gate_up: Floats
    down: Floats


class Llama:
    """The weights of a GGUF file whose architecture is `llama`: Llama, SmolLM, TinyLlama and the like."""

    def __init__(self, file: Gguf) -> None:
        if (kind := file.fields.get("general.architecture")) != "llama":
            fix = "take a llama one, or ask the model through the Hub or an address"
            raise DataError(
                f"unsupported architecture {kind!r}: only llama runs here", file=file.path, fix=fix
            )
        self._sizes(file)
        self.embeddings = file.tensor("token_embd.weight", self.vocabulary, self.width)
        tied = "output.weight" not in file
        self._head = self.embeddings if tied else file.tensor("output.weight", self.vocabulary, self.width)
        self._norm = file.tensor("output_norm.weight", self.width)
        self._layers = [self._layer(file, number) for number in range(self._depth)]

    def _sizes(self, file: Gguf) -> None:
        def number(name: str) -> int:
            value = int(file.field(f"llama.{name}", int))
            if not 0 < value < 1 << 20:
                raise DataError(f"{value} is out of range", file=file.path, field=f"llama.{name}")
            return value

        self.vocabulary = len(file.field("tokenizer.ggml.tokens", list))
        self.limit, self.width, self._depth = map(
            number, ("context_length", "embedding_length", "block_count")
        )
        self._inner, self._heads = number("feed_forward_length"), number("attention.head_count")
        self._groups = file.fields.get("llama.attention.head_count_kv", self._heads)
        self._size = self.width // self._heads
        rotated = file.fields.get("llama.rope.dimension_count", self._size)
        scaled = file.fields.get("llama.rope.scaling.type", "none") != "none" or "rope_freqs.weight" in file
        fits = type(self._groups) is int and 0 < self._groups <= self._heads
        fits = fits and not self._heads % self._groups and not self.width % self._heads
        if not fits or rotated != self._size or self._size % 2 or scaled:
            raise DataError("its kind of attention is not supported", file=file.path)
        self._epsilon = np.float32(file.field("llama.attention.layer_norm_rms_epsilon", float))
        base = file.fields.get("llama.rope.freq_base", 10000.0)
        if type(base) is not float or not 1 <= base < 1e30:
            raise DataError("is out of range", file=file.path, field="llama.rope.freq_base")
        self._frequencies = base ** (-np.arange(0, self._size, 2) / self._size)

    def _layer(self, file: Gguf, number: int) -> _Layer:
        width, few = self.width, self._groups * self._size

        def weights(name: str, *shape: int) -> Floats:
            return file.tensor(f"blk.{number}.{name}.weight", *shape)

        attention = [weights("attn_q", width, width), weights("attn_k", few, width)]
        attention.append(weights("attn_v", few, width))
        gate_up = [weights(name, self._inner, width) for name in ("ffn_gate", "ffn_up")]
        return _Layer(
            weights("attn_norm", width),
            np.ascontiguousarray(np.concatenate(attention).T),
            np.ascontiguousarray(weights("attn_output", width, width).T),
            weights("ffn_norm", width),
            np.ascontiguousarray(np.concatenate(gate_up).T),
            np.ascontiguousarray(weights("ffn_down", width, self._inner).T),
        )

    def log_likelihoods(self, text: Sequence[int], places: Sequence[Place]) -> list[list[Floats]]:
        """Return the log-probability of every token of every continuation, for every place.

        Args:
            text: Tokens; at least one, at most `limit` with the deepest continuation.
            places: Numbers of tokens of the text, 1 or more, each with its tree of continuations.
        """
        with np.errstate(all="ignore"):  # absurd weights give NaN, which counts as no answer
            states, likelihoods = self._states(text, places), []
            for (place, tree), part in zip(places, _parts(len(text), places), strict=True):
                rows = np.concatenate([states[place - 1 : place], states[part]])
                likelihoods.append(self._target_likelihoods(_scaled(rows, self._norm, self._epsilon), tree))
        return likelihoods

    def _target_likelihoods(self, rows: Floats, tree: Tree) -> list[Floats]:
        logits, totals = self._logits(rows, sorted({token for steps in tree.targets for _, token in steps}))
        return [
            np.array([logits[token][row] - totals[row] for row, token in steps], np.float32)
            for steps in tree.targets
        ]

    def _logits(self, rows: Floats, tokens: list[int]) -> tuple[dict[int, Floats], Floats]:
        """Return the logits of some tokens, and the logarithm of the sum over all tokens."""
        logits, totals = np.empty((len(rows), len(tokens)), np.float32), np.empty(len(rows), np.float32)
        for start in range(0, len(rows), _ROWS):
            block = rows[start : start + _ROWS] @ self._head.T
            logits[start : start + _ROWS] = block[:, tokens]
            highest = block.max(axis=1, keepdims=True)
            block -= highest
            sums = np.exp(block, out=block).sum(axis=1, dtype=np.float64)
            totals[start : start + _ROWS] = np.log(sums) + highest[:, 0]
        return {token: logits[:, column] for column, token in enumerate(tokens)}, totals

    def _states(self, text: Sequence[int], places: Sequence[Place]) -> Floats:
        ids = np.concatenate([np.array(text, np.int64), *(tree.tokens for _, tree in places)])
        positions = [np.arange(len(text)), *(place + tree.depths for place, tree in places)]
        angles = np.concatenate(positions)[:, None] * self._frequencies
        turn = (np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32))
        states: Floats = self.embeddings[ids]
        for layer in self._layers:
            inner = _scaled(states, layer.norm, self._epsilon) @ layer.attention
            states += self._attend(inner, turn, len(text), places) @ layer.out
            inner = _scaled(states, layer.ffn_norm, self._epsilon) @ layer.gate_up
            states += _gated(inner) @ layer.down
        return states

    def _attend(
        self, inner: Floats, turn: tuple[Floats, Floats], length: int, places: Sequence[Place]
    ) -> Floats:
        """Return the attention of each token over the text before it and, in a tree, its ancestors."""
        count, few = len(inner), self._groups * self._size
        queries = _rotated(inner[:, : self.width].reshape(count, self._heads, self._size), *turn)
        keys = _rotated(
            inner[:, self.width : self.width + few].reshape(count, self._groups, self._size), *turn
        )
        values = inner[:, self.width + few :].reshape(count, self._groups, self._size).transpose(1, 0, 2)
        keys = np.ascontiguousarray(keys.transpose(1, 2, 0))
        out = np.empty((count, self.width), np.float32)
        for start in range(0, length, _QUERIES):
            end = min(start + _QUERIES, length)
            hidden = np.triu(np.full((end - start, end - start), _FORBIDDEN, np.float32), 1)
            out[start:end] = self._look(
                queries[start:end], [(keys[:, :, :end], values[:, :end], start, hidden)]
            )
        for (place, tree), part in zip(places, _parts(length, places), strict=True):
            if len(tree.tokens):
                hidden = np.where(tree.above, np.float32(0), _FORBIDDEN)
                spans: list[_Span] = [
                    (keys[:, :, :place], values[:, :place], place, None),
                    (keys[:, :, part], values[:, part], 0, hidden),
                ]
                out[part] = self._look(queries[part], spans)
        return out

    def _look(self, queries: Floats, spans: Sequence[_Span]) -> Floats:
        """Return softmax attention over spans; each span's mask is added from its start column on."""
        count, shared = len(queries), self._heads // self._groups
        grouped = queries.reshape(count, self._groups, shared, self._size).transpose(1, 2, 0, 3)
        rows: Floats = np.ascontiguousarray(grouped).reshape(self._groups, shared * count, self._size)
        weights = []
        for keys, _, start, hidden in spans:
            scores = rows @ keys
            scores *= np.float32(self._size**-0.5)
            if hidden is not None:
                scores.reshape(self._groups, shared, count, -1)[..., start:] += hidden
            weights.append(scores)
        attention = weights[0] if len(weights) == 1 else np.concatenate(weights, axis=2)
        attention -= attention.max(axis=2, keepdims=True)
        np.exp(attention, out=attention)
        total, at, weighted = attention.sum(axis=2, keepdims=True), 0, np.float32(0)
        for _, values, _, _ in spans:
            weighted = weighted + attention[:, :, at : at + values.shape[1]] @ values
            at += values.shape[1]
        mixed = np.asarray(weighted / total).reshape(self._groups, shared, count, self._size)
        return mixed.transpose(2, 0, 1, 3).reshape(count, self.width)


def _parts(length: int, places: Sequence[Place]) -> list[slice]:
    """Return the rows of each place's tree; they follow the text in order."""
    ends = list(accumulate((len(tree.tokens) for _, tree in places), initial=length))
    return [slice(start, end) for start, end in pairwise(ends)]


def _scaled(states: Floats, weights: Floats, epsilon: np.float32) -> Floats:
    """Return RMS-normalised rows times weights."""
    squares = np.einsum("tw,tw->t", states, states) / np.float32(states.shape[1])
    return np.asarray(states * (1 / np.sqrt(squares + epsilon))[:, None] * weights, np.float32)


def _gated(inner: Floats) -> Floats:
    half = inner.shape[1] // 2
    gate, up = inner[:, :half], inner[:, half:]
    with np.errstate(over="ignore"):  # exp of a large number is infinite, and the gate is shut
        return np.asarray(gate / (1 + np.exp(-gate)) * up, np.float32)


def _rotated(heads: Floats, cosines: Floats, sines: Floats) -> Floats:
    """Apply rotary position embeddings to neighbouring pairs."""
    even, odd = heads[..., ::2], heads[..., 1::2]
    cosines, sines = cosines[:, None], sines[:, None]
    rotated = np.empty_like(heads)
    rotated[..., ::2] = even * cosines - odd * sines
    rotated[..., 1::2] = even * sines + odd * cosines
    return rotated
