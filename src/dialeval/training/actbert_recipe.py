"""The recipe `actbert`: a masked language model over segment acts, as in FlowEval's Appendix D.

Examples are flows of acts with some of them masked; up to four masked ones are predicted in one pass.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dialeval.dialogues import Dialogue, in_blocks
from dialeval.dialogues.acts import ACTS
from dialeval.errors import UsageError
from dialeval.models.act_flows import BEGIN, END, FIRST, HEAD, MASK, PADDING, flow_of, numbered
from dialeval.models.heads import Head
from dialeval.models.segment_acts import SegmentActs
from dialeval.models.tensors import Storage
from dialeval.training.checkpoint import module_arrays
from dialeval.training.examples import Targets
from dialeval.training.export import ArtefactParts, encoder_parts
from dialeval.training.networks import Lengths, Places
from dialeval.training.recipe import Recipe
from dialeval.training.settings import TrainingSettings

if TYPE_CHECKING:
    import torch

LAYERS, HEADS, WIDTH = 4, 4, 256  # of the FlowEval paper, Appendix D
MASKED = 0.15  # share of a flow's acts that are masked
TIMES = 6  # examples of a flow, each with other acts masked
_LONGEST = 250  # acts of a flow that are read at once
_LEAST = 3  # acts of a flow
_AT_ONCE = 500  # dialogues labelled together
_SETTINGS = TrainingSettings(
    batch=64, learning_rate=5e-4, epochs=4, warmup=0.08, weight_decay=0.01, max_length=256
)
ASKED = tuple(Head(f"act{number}", "classes", ACTS) for number in range(1, 5))
"""One head, which may be asked several times about a flow: more is learned from each pass."""


@dataclass(frozen=True)
class FlowExample:
    """A flow with some acts masked; `asked` are the places whose acts are predicted, at most four."""

    acts: tuple[int, ...]
    """Numbers of the acts (`act_flows.numbered`), `MASK` where masked."""
    speakers: tuple[int, ...]
    asked: tuple[int, ...]
    targets: Targets
    weight: float = 1.0

    def digest(self) -> bytes:
        """Return bytes that differ whenever examples do."""
        text = repr((self.acts, self.speakers, self.asked, dict(self.targets), self.weight))
        return hashlib.blake2b(text.encode(), digest_size=16).digest()


class ActNetwork:
    """An encoder of RoBERTa's design over acts, speakers as token types; predicts `asked` acts of a flow."""

    def __init__(self, settings: TrainingSettings, asked: int = len(ASKED)) -> None:
        import torch
        from transformers import RobertaConfig, RobertaModel

        dropout = 0.1 if settings.dropout is None else settings.dropout
        config = RobertaConfig(
            vocab_size=FIRST + len(ACTS),
            hidden_size=WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            intermediate_size=4 * WIDTH,
            max_position_embeddings=settings.max_length + PADDING + 1,
            type_vocab_size=2,
            pad_token_id=PADDING,
            bos_token_id=BEGIN,
            eos_token_id=END,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
        )
        self.heads, self.limit = ASKED[:asked], settings.max_length
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            build: Any = RobertaModel  # its constructor has no types
            self.model = build(config, add_pooling_layer=False)
            self.tops = torch.nn.ModuleList([torch.nn.Linear(WIDTH, HEAD.outputs)])
        self.config: dict[str, Any] = config.to_dict()
        self.module = torch.nn.ModuleDict({"encoder": self.model, "heads": self.tops})

    def prepare(self, examples: Sequence[FlowExample]) -> "PreparedFlows":
        """Put marks around each flow."""
        return PreparedFlows(examples, self.limit)

    def outputs(self, batch: "Mapping[str, torch.Tensor]") -> "dict[str, torch.Tensor]":
        """Return a number for each act at each asked place of each flow; without one, at its beginning."""
        import torch

        places = torch.arange(batch["acts"].shape[1], device=batch["acts"].device) + PADDING + 1
        states = self.model(
            input_ids=batch["acts"],
            token_type_ids=batch["speakers"],
            attention_mask=batch["mask"],
            position_ids=places.expand_as(batch["acts"]),
        ).last_hidden_state
        rows = torch.arange(len(states), device=states.device)
        asked = enumerate(self.heads)
        return {head.name: self.tops[0](states[rows, batch["asked"][:, number]]) for number, head in asked}

    def parts(self, storage: Storage) -> ArtefactParts:
        """Return what its artefact, which `ActBert` reads, is made of."""
        shape, weights = encoder_parts(self.config, module_arrays(self.module), (HEAD,))
        config = {"shape": shape, "acts": list(ACTS), "storage": storage}
        return ArtefactParts("act-bert.v1", config, weights)


class PreparedFlows:
    """Flows as numbers, with marks at their ends."""

    def __init__(self, examples: Sequence[FlowExample], limit: int) -> None:
        self._examples = examples
        self.lengths: Lengths = np.array([len(example.acts) + 2 for example in examples], np.int64)
        if len(examples) and int(self.lengths.max()) > limit:
            raise UsageError(f"a flow of {self.lengths.max() - 2} acts does not fit into max_length={limit}")

    def tensors(self, places: Places) -> "dict[str, torch.Tensor]":
        """Return the flows at these places, padded to the longest."""
        import torch

        rows = [self._examples[place] for place in places]
        longest = max(len(example.acts) for example in rows) + 2
        table = np.zeros((3, len(rows), longest), np.int64)
        asked = np.zeros((len(rows), len(ASKED)), np.int64)
        for number, example in enumerate(rows):
            end = len(example.acts) + 2
            table[0, number, :end] = [BEGIN, *example.acts, END]
            table[1, number, 1 : end - 1] = example.speakers
            table[2, number, :end] = 1
            asked[number, : len(example.asked)] = np.array(example.asked) + 1
        acts, speakers, mask = torch.from_numpy(table)
        return {"acts": acts, "speakers": speakers, "mask": mask, "asked": torch.from_numpy(asked)}


def mask_acts(
    acts: Sequence[int], speakers: Sequence[int], share: float, room: int, chance: np.random.Generator
) -> FlowExample:
    """Mask a share of a flow's acts, at least one, and choose up to four to predict; a long flow is cut.

    >>> example = mask_acts([4, 5, 4, 4], [0, 0, 1, 0], 0.15, 250, np.random.default_rng(1))
    >>> example.acts, example.asked, example.targets
    ((4, 3, 4, 4), (1,), {'act1': 1})
    """
    start = int(chance.integers(0, max(1, len(acts) - room + 1)))
    window, window_speakers = list(acts[start : start + room]), tuple(speakers[start : start + room])
    hidden = chance.choice(len(window), size=max(1, round(share * len(window))), replace=False)
    asked = tuple(int(place) for place in hidden[: len(ASKED)])
    targets = {head.name: window[place] - FIRST for head, place in zip(ASKED, asked, strict=False)}
    for place in hidden:
        window[int(place)] = MASK
    return FlowExample(tuple(window), window_speakers, asked, targets)


def recipe(encoder: str | None = None) -> Recipe:
    """ActBERT: masked language model over sequences of segment acts."""
    if encoder is not None:
        raise UsageError("actbert reads acts, not text: it has no encoder to choose")

    def network(examples: Sequence[FlowExample], settings: TrainingSettings) -> ActNetwork:
        return ActNetwork(settings, max((len(example.asked) for example in examples), default=1))

    about = "A masked language model over segment acts; its states describe how a dialogue flows."
    return Recipe("actbert", _examples, network, "accuracy", _SETTINGS, about)


def _examples(dialogues: Iterable[Dialogue]) -> Iterator[FlowExample]:
    """Label segments that have no act, then mask some acts of each flow, several times over."""
    for block in in_blocks(dialogues, _AT_ONCE):
        for dialogue in SegmentActs.load().label(block):
            flow = flow_of(dialogue)
            if len(flow.acts) >= _LEAST:
                seed = int.from_bytes(hashlib.blake2b(dialogue.id.encode(), digest_size=8).digest(), "little")
                chance = np.random.default_rng(seed)
                for _ in range(TIMES):
                    yield mask_acts(numbered(flow), flow.speakers, MASKED, _LONGEST, chance)
