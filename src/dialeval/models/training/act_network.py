"""Training ActBERT: flows of acts, some of them hidden, up to four of the hidden ones asked for."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dialeval.dialogues.acts import ACTS
from dialeval.errors import UsageError
from dialeval.models.act_flows import BEGIN, END, FIRST, HEAD, MASK, PADDING
from dialeval.models.artefact import Artefact, save
from dialeval.models.card import Card
from dialeval.models.conversion import canonical
from dialeval.models.heads import Head
from dialeval.models.tensors import Storage, shrink, write_tensors
from dialeval.models.training.checkpoint import module_arrays
from dialeval.models.training.examples import Targets
from dialeval.models.training.export import head_arrays, run_fields
from dialeval.models.training.loop import Trained
from dialeval.models.training.networks import Lengths, Places
from dialeval.models.training.settings import Settings

if TYPE_CHECKING:
    import torch

LAYERS, HEADS, WIDTH = 4, 4, 256  # of the FlowEval paper, Appendix D
ASKED = tuple(Head(f"act{number}", "classes", ACTS) for number in range(1, 5))
"""One head, which may be asked several times about a flow: more is learned from each pass."""


@dataclass(frozen=True)
class FlowExample:
    """A flow with some acts hidden; `asked` are places that are to be guessed, at most four."""

    acts: tuple[int, ...]
    """Numbers of the acts (`act_flows.numbered`), `MASK` where hidden."""
    speakers: tuple[int, ...]
    asked: tuple[int, ...]
    targets: Targets
    weight: float = 1.0

    def digest(self) -> bytes:
        """Return bytes that differ whenever examples do."""
        text = repr((self.acts, self.speakers, self.asked, dict(self.targets), self.weight))
        return hashlib.blake2b(text.encode(), digest_size=16).digest()


class ActNetwork:
    """An encoder of RoBERTa's design over acts; speakers are its token types; a flow is `asked` so often."""

    def __init__(self, settings: Settings, asked: int = len(ASKED)) -> None:
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
            made: Any = RobertaModel  # its constructor has no types
            self.model = made(config, add_pooling_layer=False)
            self.tops = torch.nn.ModuleList([torch.nn.Linear(WIDTH, HEAD.outputs)])
        self.config: dict[str, Any] = config.to_dict()
        self.module = torch.nn.ModuleDict({"encoder": self.model, "heads": self.tops})

    def prepare(self, examples: Sequence[FlowExample]) -> "Flows":
        """Put marks around each flow."""
        return Flows(examples, self.limit)

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

    def export(self, target: Path, card: Card, trained: Trained, storage: Storage, name: str) -> Artefact:
        """Write an artefact that `ActBert` reads."""
        arrays = module_arrays(self.module)
        prefix = "encoder."
        hub = {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}
        shape, weights = canonical(self.config, hub)
        small = shrink(weights | head_arrays(arrays, (HEAD,)), storage)
        config = {
            "name": name,
            "shape": shape.fields(),
            "acts": list(ACTS),
            "storage": storage,
            **run_fields(trained),
        }
        files = {"model.safetensors": lambda path: write_tensors(path, small)}
        return save(target, "act-bert.v1", config, files, card)


class Flows:
    """Flows as numbers, with marks at their ends."""

    def __init__(self, examples: Sequence[FlowExample], limit: int) -> None:
        self._examples = examples
        self.lengths: Lengths = np.array([len(one.acts) + 2 for one in examples], np.int64)
        if len(examples) and int(self.lengths.max()) > limit:
            raise UsageError(f"a flow of {self.lengths.max() - 2} acts does not fit into max_length={limit}")

    def tensors(self, places: Places) -> "dict[str, torch.Tensor]":
        """Return the flows at these places, padded to the longest."""
        import torch

        rows = [self._examples[place] for place in places]
        longest = max(len(one.acts) for one in rows) + 2
        table = np.zeros((3, len(rows), longest), np.int64)
        asked = np.zeros((len(rows), len(ASKED)), np.int64)
        for number, one in enumerate(rows):
            end = len(one.acts) + 2
            table[0, number, :end] = [BEGIN, *one.acts, END]
            table[1, number, 1 : end - 1] = one.speakers
            table[2, number, :end] = 1
            asked[number, : len(one.asked)] = np.array(one.asked) + 1
        acts, speakers, mask = torch.from_numpy(table)
        return {"acts": acts, "speakers": speakers, "mask": mask, "asked": torch.from_numpy(asked)}


def hide(
    acts: Sequence[int], speakers: Sequence[int], share: float, room: int, chance: np.random.Generator
) -> FlowExample:
    """Hide a share of a flow's acts, at least one, and ask for some of them; of a long flow take a stretch.

    >>> example = hide([4, 5, 4, 4], [0, 0, 1, 0], 0.15, 250, np.random.default_rng(1))
    >>> example.acts, example.asked, example.targets
    ((4, 3, 4, 4), (1,), {'act1': 1})
    """
    start = int(chance.integers(0, max(1, len(acts) - room + 1)))
    shown, who = list(acts[start : start + room]), tuple(speakers[start : start + room])
    hidden = chance.choice(len(shown), size=max(1, round(share * len(shown))), replace=False)
    asked = tuple(int(place) for place in hidden[: len(ASKED)])
    targets = {head.name: shown[place] - FIRST for head, place in zip(ASKED, asked, strict=False)}
    for place in hidden:
        shown[int(place)] = MASK
    return FlowExample(tuple(shown), who, asked, targets)
