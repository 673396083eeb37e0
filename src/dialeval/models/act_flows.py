"""ActBERT: a masked language model whose words are segment acts.

A dialogue's *flow* is the sequence of its acts, and who performed each. A small encoder of RoBERTa's design
is trained to predict masked acts. Its hidden states describe how the speakers behave, whatever they talk
about.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dialeval.dialogues import Dialogue
from dialeval.dialogues.acts import ACTS
from dialeval.dialogues.segments import segments_of
from dialeval.errors import DataError, UsageError
from dialeval.models.artefact import Artefact, Model
from dialeval.models.heads import Head, read_head_weights, readable
from dialeval.models.network import EncoderNetwork, Floats
from dialeval.models.shape import EncoderShape, read_weights
from dialeval.models.tokenization import Ints

DEFAULT = "dialeval-actbert"
HEAD = Head("act", "classes", ACTS)
PADDING, BEGIN, END, MASK = range(4)
FIRST = 4  # the number of the first act; those before are special tokens
_FLOW_TOKENS = 2048  # acts in a batch


@dataclass(frozen=True, slots=True)
class Flow:
    """Acts in their order; `speakers` is 0 for whoever began and 1 for everybody else."""

    acts: tuple[str, ...]
    speakers: tuple[int, ...]


def flow_of(dialogue: Dialogue) -> Flow:
    """Return the flow of a dialogue whose segments have acts; segments without one are skipped.

    >>> from dialeval.dialogues import Turn, dialogue
    >>> hello = Turn("A", "Hi", {"segments": [{"text": "Hi", "act": "greeting"}]})
    >>> flow_of(dialogue([hello]))
    Flow(acts=('greeting',), speakers=(0,))
    """
    labelled = [
        (segment.act, segment.speaker) for segment in segments_of(dialogue) if segment.act is not None
    ]
    return Flow(
        tuple(act for act, _ in labelled), tuple(int(speaker != labelled[0][1]) for _, speaker in labelled)
    )


def numbered(flow: Flow) -> list[int]:
    """Return the token number of each act, without special tokens at the ends.

    >>> numbered(Flow(("inform", "question"), (0, 1)))
    [4, 5]
    """
    return [FIRST + ACTS.index(act) for act in flow.acts]


class ActBert(Model):
    """A trained model of flows that runs without torch."""

    kinds: ClassVar[tuple[str, ...]] = ("act-bert.v1",)
    default: ClassVar[str] = DEFAULT

    def __init__(self, artefact: Artefact) -> None:
        super().__init__(artefact)
        config, place = artefact.config, artefact.folder / "config.json"
        self._shape = EncoderShape.of(config, place)
        self.width, self.layers = self._shape.width, self._shape.layers
        if config.get("acts") != list(ACTS) or self._shape.vocabulary != FIRST + len(ACTS):
            raise DataError(f"not made for the acts {', '.join(ACTS)}", file=place, field="acts")
        self._weights = artefact.path("model.safetensors")
        self._room = self._shape.positions - 2
        self._networks: dict[int, EncoderNetwork] = {}

    def vectors(self, flows: Sequence[Flow], layer: int | None = None) -> Floats:
        """Return the max-pooled hidden states of each flow at a layer, (flows, width).

        A flow that is longer than the model's limit is read in windows; one without acts is all zeros.
        """
        windows = [
            (number, start)
            for number, flow in enumerate(flows)
            for start in range(0, len(flow.acts), self._room)
        ]
        cut = [self._window(flows[number], start) for number, start in windows]
        vectors = np.full((len(flows), self.width), -np.inf, np.float32)
        for place, states in self._states(cut, self._depth(layer)):
            number = windows[place][0]
            vectors[number] = np.maximum(vectors[number], states[1:-1].max(axis=0))
        vectors[[not flow.acts for flow in flows]] = 0.0
        return vectors

    def shares(self, flows: Sequence[Flow], hidden: Sequence[int]) -> Floats:
        """Mask one act of each flow and return the probability of each act there, a row per flow."""
        if len(flows) != len(hidden):
            raise UsageError(f"{len(flows)} flows, but {len(hidden)} places")
        cut = []
        for flow, place in zip(flows, hidden, strict=True):
            start = max(0, min(place - self._room // 2, len(flow.acts) - self._room))
            ids, speakers = self._window(flow, start)
            ids[1 + place - start] = MASK
            cut.append((ids, speakers))
        weight, bias = read_head_weights(self._weights, (HEAD,), self.width)[HEAD.name]
        logits = np.zeros((len(flows), len(ACTS)), np.float32)
        for number, states in self._states(cut, self.layers):
            logits[number] = states[cut[number][0].index(MASK)] @ weight.T + bias
        return np.asarray(readable(HEAD, logits), np.float32) if len(logits) else logits

    def _window(self, flow: Flow, start: int) -> tuple[list[int], list[int]]:
        part = slice(start, start + self._room)
        acts, speakers = numbered(flow)[part], list(flow.speakers[part])
        return [BEGIN, *acts, END], [0, *speakers, 0]

    def _states(self, cut: Sequence[tuple[list[int], list[int]]], depth: int) -> list[tuple[int, Floats]]:
        """Run windows in batches, equal ones once; return (number of the window, states) pairs."""
        keys = [(tuple(ids), tuple(speakers)) for ids, speakers in cut]
        different = list(dict.fromkeys(keys))

        def read(_: list[int], states: dict[int, Floats], lengths: Ints) -> list[Floats]:
            return [window[:length] for window, length in zip(states[depth], lengths, strict=True)]

        outputs = self._network(depth).run_each(different, read, _FLOW_TOKENS)
        by_key = dict(zip(different, outputs, strict=True))
        return [(number, by_key[key]) for number, key in enumerate(keys)]

    def _depth(self, layer: int | None) -> int:
        depth = self.layers if layer is None else layer
        if not 0 <= depth <= self.layers:
            raise UsageError(f"{self.name} has no layer {layer}; it has 0 to {self.layers}")
        return depth

    def _network(self, depth: int) -> EncoderNetwork:
        if depth not in self._networks:
            weights = read_weights(self._weights, self._shape, depth)
            self._networks[depth] = EncoderNetwork(self._shape, weights, [depth])
        return self._networks[depth]
