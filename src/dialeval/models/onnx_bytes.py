"""Writing an ONNX model: the few messages of the format that a graph of ours needs.

The runtime takes a serialised protobuf. Its `onnx` package would be one more dependency of every user for
a dozen message types, so they are written here; the tests read the result back with that package.
Weights stay outside the bytes: they are handed to the runtime as arrays, under their names.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

FLOAT, INT32 = 1, 6  # ONNX's numbers for element types
Attribute = int | float | str | list[int]


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
        """Declare an output, made by a node of the same name."""
        self.outputs.append(_value(name, kind, shape))

    def weight(self, name: str, shape: Sequence[int], kind: int = FLOAT) -> str:
        """Declare an array that the caller hands to the runtime under this name."""
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
        """Add an operation; an empty string stands for an optional input that is left out."""
        name = output or f"{operation}_{len(self.nodes)}"
        names = [name, *(f"{name}.{number}" for number in range(1, outputs))]
        parts = [_text(1, one) for one in inputs] + [_text(2, one) for one in names]
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
