"""The graph an encoder runs as, in the fused operations of onnxruntime.

Padding costs nothing in meaning: each text brings its length, and attention looks no further. Only as many
layers are built as are asked for, so a metric that reads layer 4 does not pay for layer 12.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dialeval.models.batching import Ints
from dialeval.models.onnx_bytes import FLOAT, INT32, Graph
from dialeval.models.shape import Shape

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Floats = npt.NDArray[np.float32]
_FUSED = "com.microsoft"


class Network:
    """An encoder cut off after some layer, ready to run; safe to call from several threads at once.

    One call runs on one core: batches are run side by side instead, which also makes a text's numbers
    the same for any number of threads.
    """

    def __init__(self, shape: Shape, tensors: Mapping[str, Floats], layers: int) -> None:
        self.shape, self.layers = shape, layers
        graph = Graph()
        self._weights: dict[str, Floats] = {}
        for name, kind, sizes in (
            ("ids", INT32, ["texts", "tokens"]),
            ("segments", INT32, ["texts", "tokens"]),
            ("lengths", INT32, ["texts"]),
        ):
            graph.input(name, kind, sizes)
        states = self._embed(graph, tensors)
        for number in range(layers):
            states = self._layer(graph, tensors, number, states)
        graph.node("Identity", [states], output="states")
        graph.output("states", FLOAT, ["texts", "tokens", shape.width])
        self._session = open_session(graph.model(), self._weights)

    def states(self, ids: Ints, lengths: Ints, segments: Ints | None = None) -> Floats:
        """Run a batch: the states of every token, (texts, tokens, width); beyond a text's length, noise."""
        feed = {
            "ids": ids,
            "lengths": lengths,
            "segments": np.zeros_like(ids) if segments is None else segments,
        }
        found: list[Any] = self._session.run(["states"], feed)
        return np.asarray(found[0], np.float32)

    def _weight(self, graph: Graph, name: str, value: Floats) -> str:
        self._weights[name] = np.ascontiguousarray(value, np.float32)
        return graph.weight(name, value.shape)

    def _embed(self, graph: Graph, tensors: Mapping[str, Floats]) -> str:
        names = ["tokens", "positions", "segments", "norm.weight", "norm.bias"]
        weights = [self._weight(graph, f"embeddings.{one}", tensors[f"embeddings.{one}"]) for one in names]
        return graph.node(
            "EmbedLayerNormalization",
            ["ids", "segments", *weights],
            outputs=2,
            domain=_FUSED,
            epsilon=self.shape.epsilon,
        )

    def _layer(self, graph: Graph, tensors: Mapping[str, Floats], number: int, states: str) -> str:
        def weight(name: str, turned: bool = False) -> str:
            value = tensors[f"layer.{number}.{name}"]
            return self._weight(graph, f"layer.{number}.{name}", value.T if turned else value)

        def add_and_norm(what: str, values: str, beside: str) -> str:
            parts = [weight(f"{what}.norm.weight"), weight(f"{what}.norm.bias"), weight(f"{what}.bias")]
            return graph.node(
                "SkipLayerNormalization",
                [values, beside, *parts],
                domain=_FUSED,
                epsilon=self.shape.epsilon,
            )

        attended = graph.node(
            "Attention",
            [states, weight("attention.weight", True), weight("attention.bias"), "lengths"],
            domain=_FUSED,
            num_heads=self.shape.heads,
        )
        attended = graph.node("MatMul", [attended, weight("attended.weight", True)])
        middle = add_and_norm("attended", attended, states)
        inner = graph.node("MatMul", [middle, weight("inner.weight", True)])
        if self.shape.activation == "relu":
            inner = graph.node("Relu", [graph.node("Add", [inner, weight("inner.bias")])])
        else:
            gelu = "BiasGelu" if self.shape.activation == "gelu" else "FastGelu"
            inner = graph.node(gelu, [inner, weight("inner.bias")], domain=_FUSED)
        outer = graph.node("MatMul", [inner, weight("outer.weight", True)])
        return add_and_norm("outer", outer, middle)


def open_session(model: bytes, weights: Mapping[str, Floats]) -> "InferenceSession":
    """Hand a model and its weights to the runtime: full precision, on the core that calls."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(value) for value in weights.values()]
    options.add_external_initializers(list(weights), values)
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
