"""The encoder as a graph of onnxruntime's fused operators.

Attention is limited to the length of each text, so padding changes no number. Only the requested layers are
built, and one run returns the states of all of them.

The runtime needs a serialised protobuf. `Graph` writes the dozen message types itself, because the `onnx`
package would be one more dependency of every user; the tests read the result with that package. Weights are
passed to the runtime as arrays.
"""

import functools
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dialeval.models.shape import EncoderShape
from dialeval.models.tokenization import Ints, Result, batches, default_threads, padded, side_by_side

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

FLOAT, UINT8, INT8, INT32 = 1, 2, 3, 6  # ONNX's numbers for element types
Attribute = int | float | str | list[int]
Tokens = tuple[Sequence[int], Sequence[int]]
"""Token ids, and the segment of each."""


@dataclass
class Graph:
    """A graph under construction; `node` adds an operation and returns the name of its first output.

    >>> graph = Graph()
    >>> graph.input("x", FLOAT, ["rows", 4])
    >>> _ = graph.node("Relu", ["x"], output="y")
    >>> graph.output("y", FLOAT, ["rows", 4])
    >>> len(graph.model())
    104
    """

    nodes: list[bytes] = field(default_factory=list)
    weights: list[bytes] = field(default_factory=list)
    inputs: list[bytes] = field(default_factory=list)
    outputs: list[bytes] = field(default_factory=list)

    def input(self, name: str, kind: int, shape: Sequence[int | str]) -> None:
        """Declare an input; a dimension given as a string is free."""
        self.inputs.append(_value(name, kind, shape))

    def output(self, name: str, kind: int, shape: Sequence[int | str]) -> None:
        """Declare an output, computed by a node of the same name."""
        self.outputs.append(_value(name, kind, shape))

    def weight(self, name: str, shape: Sequence[int], kind: int = FLOAT) -> str:
        """Declare an array that is passed to the runtime by name."""
        place = _text(1, "location") + _text(2, "in-memory")
        self.weights.append(
            b"".join(_number(1, size) for size in shape)
            + _number(2, kind)
            + _text(8, name)
            + _block(13, place)
            + _number(14, 1)  # the data lies outside
        )
        return name

    def node(
        self,
        operation: str,
        inputs: Sequence[str],
        *,
        output: str | None = None,
        outputs: int = 1,
        domain: str = "",
        **attributes: Attribute,
    ) -> str:
        """Add an operation; an empty string is an omitted optional input."""
        name = output or f"{operation}_{len(self.nodes)}"
        names = [name, *(f"{name}.{number}" for number in range(1, outputs))]
        parts = [_text(1, tensor) for tensor in inputs] + [_text(2, tensor) for tensor in names]
        parts += [_text(3, name), _text(4, operation)]
        parts += [_block(5, _attribute(key, value)) for key, value in attributes.items()]
        if domain:
            parts.append(_text(7, domain))
        self.nodes.append(b"".join(parts))
        return name

    def model(self, opset: int = 17, domains: Sequence[str] = ("com.microsoft",)) -> bytes:
        """Return the serialised model."""
        graph = b"".join(
            [
                *(_block(1, node) for node in self.nodes),
                _text(2, "dialeval"),
                *(_block(5, weight) for weight in self.weights),
                *(_block(11, value) for value in self.inputs),
                *(_block(12, value) for value in self.outputs),
            ]
        )
        versions = [_number(2, opset), *(_text(1, domain) + _number(2, 1) for domain in domains)]
        return _number(1, 8) + _block(7, graph) + b"".join(_block(8, version) for version in versions)


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _number(tag: int, value: int) -> bytes:
    return _varint(tag << 3) + _varint(value)


def _block(tag: int, content: bytes) -> bytes:
    return _varint(tag << 3 | 2) + _varint(len(content)) + content


def _text(tag: int, content: str) -> bytes:
    return _block(tag, content.encode())


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, float):
        return _text(1, name) + _varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, 1)
    if isinstance(value, int):
        return _text(1, name) + _number(3, value) + _number(20, 2)
    if isinstance(value, str):
        return _text(1, name) + _text(4, value) + _number(20, 3)
    return _text(1, name) + b"".join(_number(8, item) for item in value) + _number(20, 7)


def _value(name: str, kind: int, shape: Sequence[int | str]) -> bytes:
    sizes = [_text(2, size) if isinstance(size, str) else _number(1, size) for size in shape]
    tensor = _number(1, kind) + _block(2, b"".join(_block(1, size) for size in sizes))
    return _text(1, name) + _block(2, _block(1, tensor))


Floats = npt.NDArray[np.float32]
_FUSED = "com.microsoft"
MOST_LEFT = 63
_ZERO = MOST_LEFT + 1


class EncoderNetwork:
    """An encoder up to some layer; thread-safe.

    One call runs on one core, and batches run in parallel, so that results do not depend on the number of
    threads.
    """

    def __init__(self, shape: EncoderShape, tensors: Mapping[str, Floats], layers: Sequence[int]) -> None:
        """Build the graph up to the last of `layers`; the states after each of them are its outputs."""
        self.shape, self.layers = shape, tuple(sorted(set(layers)))
        graph = Graph()
        self._weights: dict[str, Floats] = {}
        for name, kind, sizes in (
            ("ids", INT32, ["texts", "tokens"]),
            ("segments", INT32, ["texts", "tokens"]),
            ("lengths", INT32, ["texts"]),
        ):
            graph.input(name, kind, sizes)
        states = self._embed(graph, tensors)
        self._output(graph, 0, states)
        for number in range(self.layers[-1]):
            states = add_layer(graph, self._weights, tensors, shape, number, states)
            self._output(graph, number + 1, states)
        self._session = open_session(graph.model(), self._weights)

    def states(self, ids: Ints, lengths: Ints, segments: Ints | None = None) -> dict[int, Floats]:
        """Return the token states of a batch by layer, (texts, tokens, width); padding is undefined."""
        feed = {
            "ids": ids,
            "lengths": lengths,
            "segments": np.zeros_like(ids) if segments is None else segments,
        }
        outputs: list[Any] = self._session.run([f"states.{layer}" for layer in self.layers], feed)
        return {
            layer: np.asarray(output, np.float32) for layer, output in zip(self.layers, outputs, strict=True)
        }

    def run_each(
        self,
        inputs: Sequence[Tokens],
        read: Callable[[list[int], dict[int, Floats], Ints], Sequence[Result]],
        budget: int,
        threads: int | None = None,
    ) -> list[Result]:
        """Run inputs in batches of similar length and return a result for each.

        Args:
            inputs: The tokens of each input, and their segments.
            read: Computes the results of a batch from its indices among the inputs, states by layer and
                lengths.
            budget: Maximum number of tokens in a batch.
            threads: Number of parallel batches; by default one per core.
        """

        def run(group: list[int]) -> Sequence[Result]:
            ids, lengths = padded([inputs[place][0] for place in group])
            segments, _ = padded([inputs[place][1] for place in group])
            return read(group, self.states(ids, lengths, segments), lengths)

        by_place: dict[int, Result] = {}
        groups = batches([len(ids) for ids, _ in inputs], budget)
        for group, results in side_by_side(run, groups, threads or default_threads()):
            by_place.update(zip(group, results, strict=True))
        return [by_place[place] for place in range(len(inputs))]

    def _output(self, graph: Graph, layer: int, states: str) -> None:
        if layer in self.layers:
            graph.node("Identity", [states], output=f"states.{layer}")
            graph.output(f"states.{layer}", FLOAT, ["texts", "tokens", self.shape.width])

    def _weight(self, graph: Graph, name: str, value: Floats) -> str:
        self._weights[name] = np.ascontiguousarray(value, np.float32)
        return graph.weight(name, value.shape)

    def _embed(self, graph: Graph, tensors: Mapping[str, Floats]) -> str:
        names = ["tokens", "positions", "segments", "norm.weight", "norm.bias"]
        weights = [self._weight(graph, f"embeddings.{name}", tensors[f"embeddings.{name}"]) for name in names]
        return graph.node(
            "EmbedLayerNormalization",
            ["ids", "segments", *weights],
            outputs=2,
            domain=_FUSED,
            epsilon=self.shape.epsilon,
        )


def add_layer(
    graph: Graph,
    weights: dict[str, Floats],
    tensors: Mapping[str, Floats],
    shape: EncoderShape,
    number: int,
    states: str,
    memory: tuple[str, str] | None = None,
) -> str:
    """Add a layer to a graph, its arrays to `weights`; return the name of its output.

    With `memory`, the names of other states and of a mask over both, the layer also attends to those states.
    """

    def named(name: str, value: Floats) -> str:
        name = f"layer.{number}.{name}"
        weights[name] = np.ascontiguousarray(value, np.float32)
        return graph.weight(name, value.shape)

    def weight(name: str, turned: bool = False) -> str:
        value = tensors[f"layer.{number}.{name}"]
        return named(name, value.T if turned else value)

    def add_and_norm(block: str, values: str, beside: str) -> str:
        parts = [weight(f"{block}.norm.weight"), weight(f"{block}.norm.bias"), weight(f"{block}.bias")]
        return graph.node(
            "SkipLayerNormalization", [values, beside, *parts], domain=_FUSED, epsilon=shape.epsilon
        )

    if memory is None:
        attended = graph.node(
            "Attention",
            [states, weight("attention.weight", True), weight("attention.bias"), "lengths"],
            domain=_FUSED,
            num_heads=shape.heads,
        )
    else:
        together = graph.node("Concat", [memory[0], states], axis=1)
        parts = zip(
            ("query", "key", "value"), np.split(tensors[f"layer.{number}.attention.weight"], 3), strict=True
        )
        projections = [
            graph.node("MatMul", [states if name == "query" else together, named(name, part.T)])
            for name, part in parts
        ]
        attended = graph.node(
            "MultiHeadAttention",
            [*projections, weight("attention.bias"), memory[1]],
            domain=_FUSED,
            num_heads=shape.heads,
        )
    attended = graph.node("MatMul", [attended, weight("attended.weight", True)])
    middle = add_and_norm("attended", attended, states)
    inner = graph.node("MatMul", [middle, weight("inner.weight", True)])
    if shape.activation == "relu":
        inner = graph.node("Relu", [graph.node("Add", [inner, weight("inner.bias")])])
    else:
        gelu = "BiasGelu" if shape.activation == "gelu" else "FastGelu"
        inner = graph.node(gelu, [inner, weight("inner.bias")], domain=_FUSED)
    outer = graph.node("MatMul", [inner, weight("outer.weight", True)])
    return add_and_norm("outer", outer, middle)


def open_session(model: bytes, weights: Mapping[str, Floats]) -> "InferenceSession":
    """Return an onnxruntime session: full precision, single-threaded."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(value) for value in weights.values()]
    options.add_external_initializers(list(weights), values)
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def multiply(left: Floats, right: Floats) -> Floats:
    """Return `left @ right.T`, computed on one core.

    numpy's own product uses all cores; on a busy machine it was measured five times slower.

    >>> multiply(np.ones((1, 2), np.float32), np.eye(3, 2, dtype=np.float32))
    array([[1., 1., 0.]], dtype=float32)
    """
    if not len(left) or not len(right):
        return np.zeros((len(left), len(right)), np.float32)
    product: Any = _product().run(["table"], {"left": left, "right": right})[0]
    return np.asarray(product, np.float32)


def multiply_bytes(left: npt.NDArray[np.int8], right: npt.NDArray[np.int8], scales: Floats) -> Floats:
    """Return `left @ right.T * scales`, computed on one core in half the time of `multiply`.

    Numbers of `left` are at most `MOST_LEFT`: some processors add up two products in 16 bits.

    >>> multiply_bytes(np.array([[1, 2]], np.int8), np.eye(2, dtype=np.int8), np.array([1, 0.5], np.float32))
    array([[1., 1.]], dtype=float32)
    """
    shifted = (left + np.int8(_ZERO)).astype(np.uint8)
    numbers = {"left": shifted, "right": right, "scale": np.ones((), np.float32), "scales": scales}
    product: Any = _product_of_bytes().run(["table"], {**numbers, "zero": np.array(_ZERO, np.uint8)})[0]
    return np.asarray(product, np.float32)


def unit(vectors: Floats) -> Floats:
    """Scale vectors, a row each, to length one; zeros stay zeros."""
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12), np.float32)


@functools.cache
def _product() -> "InferenceSession":
    graph = Graph()
    graph.input("left", FLOAT, ["rows", "width"])
    graph.input("right", FLOAT, ["columns", "width"])
    graph.node("Gemm", ["left", "right"], output="table", transB=1)
    graph.output("table", FLOAT, ["rows", "columns"])
    return open_session(graph.model(), {})


@functools.cache
def _product_of_bytes() -> "InferenceSession":
    graph = Graph()
    graph.input("left", UINT8, ["rows", "width"])
    graph.input("right", INT8, ["columns", "width"])
    graph.input("scale", FLOAT, [])
    graph.input("scales", FLOAT, ["columns"])
    graph.input("zero", UINT8, [])
    inputs = ["left", graph.node("Transpose", ["right"], perm=[1, 0]), "scale", "scales", "zero"]
    graph.node("MatMulIntegerToFloat", inputs, output="table", domain=_FUSED)
    graph.output("table", FLOAT, ["rows", "columns"])
    return open_session(graph.model(), {})


if hasattr(os, "register_at_fork"):  # a runtime's threads do not survive a fork: the child opens its own
    os.register_at_fork(after_in_child=_product.cache_clear)
    os.register_at_fork(after_in_child=_product_of_bytes.cache_clear)
