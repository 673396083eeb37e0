"""Reads a reply together with earlier turns, a passage, or the turn it answers, from token states.

Each text is encoded by the lower layers of the frozen encoder, once for all models of a run. Here the reply's
tokens pass a few more layers, which attend to the reply and to the states of the other texts, the memory. So
a pair costs a third of an encoder pass over the reply alone. The kind of a memory (`KINDS`) is part of the
input.
"""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dialeval.errors import DataError
from dialeval.models.artefact import Artefact, load, resolve
from dialeval.models.encoder import Reading, recorded_encoder
from dialeval.models.fault_weights import read_weights as read_fault_weights
from dialeval.models.heads import Head, read_head_weights, read_heads
from dialeval.models.network import FLOAT, INT32, Floats, Graph, add_layer, open_session
from dialeval.models.shape import EncoderShape
from dialeval.models.tensors import expand, read_tensors
from dialeval.models.tokenization import batches, default_threads, side_by_side

KIND = "fault-reader.v1"
KINDS = ("own", "user", "evidence", "before", "last")
"""Kinds of memory: turns of the same speaker and of the other, evidence, the turn that the reply answers
(`last`), and the one before that (`before`)."""
HEADS = tuple(
    Head(name, "binary")
    for name in ("contradicts", "repeats", "supported", "ignores", "off-topic", "nonsense", "unkind")
)
LAYER = 3  # of the encoder, after which texts are read together
LONGEST_REPLY, LONGEST_MEMORY = 64, 128  # tokens; a longer reply is read in parts
_BUDGET = 1024  # tokens of replies and memories that are run together


class Memory(NamedTuple):
    """A text that is read with a reply, and its kind."""

    kind: str
    text: str


class Part(NamedTuple):
    """A range of tokens of a text, special tokens included."""

    text: str
    start: int
    end: int


class Question(NamedTuple):
    """A part of a reply, and the memory to read with it."""

    reply: Part
    memory: tuple[Memory, ...]


class FaultReader:
    """The trained layers and heads, and the encoder whose states they read."""

    def __init__(self, artefact: Artefact) -> None:
        config, place = artefact.config, artefact.folder / "config.json"
        self.sha, self.name = artefact.sha, str(config.get("name", artefact.folder.name))
        self.encoder = recorded_encoder(config, place)
        self.heads = read_heads(config, place)
        if [head.name for head in self.heads] != [head.name for head in HEADS]:
            raise DataError(
                f"needs the heads {', '.join(head.name for head in HEADS)}", file=place, field="heads"
            )
        path = artefact.path("model.safetensors")
        shape = self.encoder.shape
        weights = _weights(path, shape)
        self._kinds = weights.pop("kinds.weight")
        self._tops = read_head_weights(path, self.heads, 3 * shape.width)
        self._session, self._threads = _open(weights, shape), default_threads()
        self.weights = read_fault_weights(config, place)

    @classmethod
    def load(cls, name: str | Path) -> "FaultReader":
        """Load a reader by folder, shipped name, pulled name or Hub id; one per process, shared by all."""
        return _loaded(str(resolve(name)))

    def readings(self) -> tuple[Reading, ...]:
        """Return the readings of a text: its vector, and the token states after `LAYER`."""
        return (self.encoder.reading(), Reading(LAYER, "tokens", half=True))

    def read(self, questions: Sequence[Question]) -> dict[str, npt.NDArray[np.float64]]:
        """Return each head's logit for each question; equal questions are run once."""
        different = list(dict.fromkeys(questions))
        places = {question: number for number, question in enumerate(different)}
        pooled = self._pooled(different)
        rows = [places[question] for question in questions]
        logits = {}
        for head in self.heads:
            weight, bias = self._tops[head.name]
            logits[head.name] = np.asarray(pooled[rows] @ weight[0] + bias[0], np.float64)
        return logits

    def _pooled(self, questions: Sequence[Question]) -> Floats:
        texts = list({t: None for q in questions for t in (q.reply.text, *(m.text for m in q.memory))})
        states = dict(zip(texts, self.encoder.tokens(texts, layer=LAYER, half=True), strict=True))
        sizes = [
            (
                part_size(question.reply, states[question.reply.text]),
                sum(min(len(states[m.text]), LONGEST_MEMORY) for m in question.memory),
            )
            for question in questions
        ]
        pooled = np.zeros((len(questions), 3 * self.encoder.width), np.float32)

        def run(group: list[int]) -> Floats:
            return self._run([questions[place] for place in group], [sizes[place] for place in group], states)

        groups = batches([3 * reply + memory for reply, memory in sizes], _BUDGET)
        for group, rows in side_by_side(run, groups, self._threads):
            pooled[group] = rows
        return pooled

    def _run(
        self, questions: Sequence[Question], sizes: Sequence[tuple[int, int]], states: Mapping[str, Floats]
    ) -> Floats:
        wide, deep = max(size for size, _ in sizes), max(1, *(size for _, size in sizes))
        reply = np.zeros((len(questions), wide, self.encoder.width), np.float32)
        memory = np.zeros((len(questions), deep, self.encoder.width), np.float32)
        inside = np.zeros((len(questions), deep + wide), np.int32)
        for row, (question, (size, _)) in enumerate(zip(questions, sizes, strict=True)):
            reply[row, :size] = part_states(question.reply, states[question.reply.text])
            inside[row, deep : deep + size] = 1
            at = 0
            for kind, text in question.memory:
                inner = states[text][:LONGEST_MEMORY]
                memory[row, at : at + len(inner)] = inner + self._kinds[KINDS.index(kind)]
                at += len(inner)
            inside[row, :at] = 1
        output: Any = self._session.run(["states"], {"reply": reply, "memory": memory, "inside": inside})[0]
        mask = (inside[:, deep:] == 1)[:, :, None]
        mean = (output * mask).sum(1) / mask.sum(1)
        return np.concatenate([output[:, 0], mean, np.where(mask, output, -1e4).max(1)], axis=1)


def part_size(part: Part, states: Floats) -> int:
    """Return the number of states of a part; `states` are those of its text."""
    return min(len(states), part.end) - part.start + (part.start > 0)


def part_states(part: Part, states: Floats) -> Floats:
    """Return the states of a part after the first state of its text."""
    inner = states[part.start : part.end]
    return np.concatenate([states[:1], inner]) if part.start else inner


def _weights(path: Path, shape: EncoderShape) -> dict[str, Floats]:
    stored = {name: value for name, value in read_tensors(path).items() if not name.startswith("heads.")}
    weights = expand(stored, file=path)
    expected: dict[str, tuple[int, ...]] = {"kinds.weight": (len(KINDS), shape.width)}
    first = f"layer.{LAYER}."
    sizes = {name: size for name, size in shape.weights().items() if name.startswith("layer.")}
    expected |= {name: size for name, size in sizes.items() if name >= first}
    for name, size in expected.items():
        if name not in weights or weights[name].shape != size or not np.isfinite(weights[name]).all():
            raise DataError(f"{name} must have the sizes {size}", file=path)
    return {name: np.asarray(weights[name], np.float32) for name in expected}


def _open(weights: Mapping[str, Floats], shape: EncoderShape) -> Any:
    graph, kept = Graph(), dict[str, Floats]()
    graph.input("reply", FLOAT, ["rows", "wide", shape.width])
    graph.input("memory", FLOAT, ["rows", "deep", shape.width])
    graph.input("inside", INT32, ["rows", "all"])
    states = "reply"
    for number in range(LAYER, shape.layers):
        states = add_layer(graph, kept, weights, shape, number, states, memory=("memory", "inside"))
    graph.node("Identity", [states], output="states")
    graph.output("states", FLOAT, ["rows", "wide", shape.width])
    return open_session(graph.model(), kept)


@functools.lru_cache(maxsize=4)
def _loaded(folder: str) -> FaultReader:
    return FaultReader(load(folder, KIND))
