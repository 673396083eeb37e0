"""The recipe `faults`: a reader of a reply together with one earlier turn, passage or what it answers.

The lower layers of the frozen encoder read every text by itself, once, as for all other models. The upper
ones are trained: the reply's tokens go through them and look at their own and at the memory's token states.
The memory's tokens stay as they are, so that reading a reply with one more earlier turn costs little. Which
text of the memory is what to the reply (`KINDS`) is a vector that is added to its states.
"""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dialeval.dialogues import Dialogue
from dialeval.models.artefact import Artefact, load, resolve, save
from dialeval.models.card import Card
from dialeval.models.encoder import DEFAULT, Encoder
from dialeval.models.evidence_windows import content_words
from dialeval.models.fault_features import reply_parts
from dialeval.models.fault_reader import (
    HEADS,
    KIND,
    KINDS,
    LAYER,
    LONGEST_MEMORY,
    FaultReader,
    Memory,
    Part,
    part_size,
    part_states,
)
from dialeval.models.fault_weights import plain_weights, weight_fields
from dialeval.models.tensors import Storage, expand, read_tensors, shrink, write_tensors
from dialeval.training.checkpoint import module_arrays
from dialeval.training.examples import FaultExample
from dialeval.training.export import ArtefactParts
from dialeval.training.fault_examples import fault_examples
from dialeval.training.fault_weighing import weigh
from dialeval.training.networks import Lengths, Places, head_outputs
from dialeval.training.recipe import Recipe
from dialeval.training.settings import TrainingSettings

if TYPE_CHECKING:
    import torch

SETTINGS = TrainingSettings(
    batch=64,
    learning_rate=1.5e-4,
    epochs=1,
    warmup=0.06,
    weight_decay=0.01,
    dropout=0.1,
    evaluate_every=800,
)


class FaultNetwork:
    """The upper layers of an encoder, reading a reply with a memory, and a linear head for each question."""

    def __init__(self, encoder: str, settings: TrainingSettings, held: Sequence[Dialogue] = ()) -> None:
        """Take the upper layers of an encoder; features are weighed on `held`, which it has not seen."""
        import torch

        self.encoder, self.heads, self.dropout = Encoder.load(encoder), HEADS, settings.dropout or 0.0
        self._held = held
        shape = self.encoder.shape
        wide = shape.width
        self.module = torch.nn.Module()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            self.tops = torch.nn.ModuleList(torch.nn.Linear(3 * wide, 1) for _ in HEADS)
        self.kinds = torch.nn.Embedding(len(KINDS), wide)
        torch.nn.init.zeros_(self.kinds.weight)
        self.layers = torch.nn.ModuleList(
            _layer(self.encoder.weights(), number, shape, self.dropout)
            for number in range(LAYER, shape.layers)
        )
        for name, part in (("kinds", self.kinds), ("layers", self.layers), ("heads", self.tops)):
            self.module.add_module(name, part)

    def prepare(self, examples: Sequence[FaultExample]) -> "PreparedReadings":
        """Encode every different text once, up to the layer where the memory is read."""
        return PreparedReadings(examples, self.encoder)

    def outputs(self, batch: "Mapping[str, torch.Tensor]") -> "dict[str, torch.Tensor]":
        """Return one logit a row for each head."""
        import torch
        from torch.nn import functional

        reply, memory = batch["reply"].float(), batch["memory"].float()
        memory = memory + self.kinds(batch["kinds"])
        inside = torch.cat([batch["memory_mask"], batch["reply_mask"]], 1)
        for layer in self.layers:
            reply = layer(reply, memory, inside)
        mask = batch["reply_mask"].unsqueeze(-1)
        mean = (reply * mask).sum(1) / mask.sum(1)
        most = reply.masked_fill(~mask, -1e4).amax(1)
        pooled = torch.cat([reply[:, 0], mean, most], 1).float()
        pooled = functional.dropout(pooled, self.dropout, self.module.training)
        return head_outputs(self.heads, self.tops, pooled)

    def parts(self, storage: Storage) -> ArtefactParts:
        """Return what its artefact is made of; features are weighed as the stored weights give them."""
        weights = {_canonical(name, self): value for name, value in module_arrays(self.module).items()}
        config = {
            "encoder": {"name": self.encoder.name, "sha": self.encoder.sha},
            "heads": [head.fields() for head in self.heads],
            "storage": storage,
            "weights": weight_fields(plain_weights()),
        }
        small, card = shrink(weights, storage), Card("reader", "To weigh.", licence="none", command="none")
        with tempfile.TemporaryDirectory() as folder:
            files = {"model.safetensors": lambda path: write_tensors(path, small)}
            reader = FaultReader(save(Path(folder) / "reader", KIND, config, files, card))
            config["weights"] = weight_fields(weigh(reader, self._held))
        return ArtefactParts(KIND, config, weights)


def _layer(weights: Mapping[str, Any], number: int, shape: Any, dropout: float) -> "torch.nn.Module":
    """Make a layer of the encoder whose queries are the reply's and whose keys are the memory's as well."""
    import torch
    from torch.nn import functional

    wide, heads = shape.width, shape.heads

    class Layer(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            sizes = {"attention": (wide, 3 * wide), "attended": (wide, wide), "inner": (wide, shape.inner)}
            for name, (one, other) in (*sizes.items(), ("outer", (shape.inner, wide))):
                self.add_module(name, torch.nn.Linear(one, other))
            for name in ("attended_norm", "outer_norm"):
                self.add_module(name, torch.nn.LayerNorm(wide, eps=shape.epsilon))
            with torch.no_grad():
                for name, value in self.named_parameters():
                    value.copy_(
                        torch.from_numpy(
                            np.array(weights[f"layer.{number}.{name.replace('_norm', '.norm')}"])
                        )
                    )

        def forward(self, reply: Any, memory: Any, inside: Any) -> Any:
            rows = len(reply)
            weight, bias = self.attention.weight, self.attention.bias
            query = functional.linear(reply, weight[:wide], bias[:wide])
            both = functional.linear(torch.cat([memory, reply], 1), weight[wide:], bias[wide:])
            parts = [query, *both.split(wide, -1)]
            query, key, value = (one.view(rows, -1, heads, wide // heads).transpose(1, 2) for one in parts)
            seen = functional.scaled_dot_product_attention(query, key, value, inside[:, None, None, :])
            seen = self.attended(seen.transpose(1, 2).reshape(rows, -1, wide))
            middle = self.attended_norm(reply + functional.dropout(seen, dropout, self.training))
            outer = self.outer(functional.gelu(self.inner(middle)))
            return self.outer_norm(middle + functional.dropout(outer, dropout, self.training))

    return Layer()


class PreparedReadings:
    """Token states of all texts in one array, and for each example where its texts stand."""

    def __init__(self, examples: Sequence[FaultExample], encoder: Encoder) -> None:
        texts = {text: None for one in examples for text in (one.reply, *(part.text for part in one.memory))}
        self._states = np.zeros((0, encoder.width), np.float16)
        self._spans: dict[str, tuple[int, int]] = {}
        parts, start, listed = [], 0, list(texts)
        for at in range(0, len(listed), 2048):
            some = listed[at : at + 2048]
            for text, states in zip(some, encoder.tokens(some, layer=LAYER, half=True), strict=True):
                parts.append(states)
                self._spans[text] = (start, start + len(states))
                start += len(states)
        self._states = np.concatenate([self._states, *parts])
        self._rows = [(one.memory, _focused(one, encoder)) for one in examples]
        self._width = encoder.width
        sizes = (self._sizes(*row) for row in self._rows)
        self.lengths: Lengths = np.array([3 * reply + sum(memory) for reply, memory in sizes], np.int64)

    def _of(self, text: str) -> Any:
        return self._states[slice(*self._spans[text])]

    def _sizes(self, memory: Sequence[Memory], part: Part) -> tuple[int, list[int]]:
        spans = [self._spans[one.text] for one in memory]
        return part_size(part, self._of(part.text)), [min(e - s, LONGEST_MEMORY) for s, e in spans]

    def tensors(self, places: Places) -> "dict[str, torch.Tensor]":
        """Return states, masks and kinds of the readings at these places, padded to the longest."""
        import torch

        rows = [(*self._rows[place], *self._sizes(*self._rows[place])) for place in places]
        wide, deep = max(size for *_, size, _ in rows), max(1, *(sum(sizes) for *_, sizes in rows))
        found = {
            "reply": np.zeros((len(rows), wide, self._width), np.float16),
            "reply_mask": np.zeros((len(rows), wide), bool),
            "memory": np.zeros((len(rows), deep, self._width), np.float16),
            "memory_mask": np.zeros((len(rows), deep), bool),
            "kinds": np.zeros((len(rows), deep), np.int64),
        }
        for number, (memory, part, size, sizes) in enumerate(rows):
            found["reply"][number, :size] = part_states(part, self._of(part.text))
            found["reply_mask"][number, :size] = True
            at = 0
            for one, long in zip(memory, sizes, strict=True):
                found["memory"][number, at : at + long] = self._of(one.text)[:long]
                found["memory_mask"][number, at : at + long] = True
                found["kinds"][number, at : at + long] = KINDS.index(one.kind)
                at += long
        return {name: torch.from_numpy(values) for name, values in found.items()}


def _focused(example: FaultExample, encoder: Encoder) -> Part:
    """Return the part of a reply that an example is about: the one with most words of its focus."""
    parts, wanted = reply_parts(example.reply, encoder), set(content_words(example.focus))
    return max(parts, key=lambda one: len(wanted & set(content_words(one[1]))))[0]


def _begin(network: FaultNetwork, artefact: Artefact) -> None:
    """Put the weights of an earlier reader into a network."""
    import torch

    stored = expand(read_tensors(artefact.path("model.safetensors")))
    with torch.no_grad():
        for name, value in network.module.state_dict().items():
            value.copy_(torch.from_numpy(np.array(stored[_canonical(name, network)])))


def _canonical(name: str, network: FaultNetwork) -> str:
    """Return the name that an artefact has for a weight of the network.

    Layers and heads are numbered in the network; the artefact numbers layers as the encoder does, and names
    heads.
    """
    part, _, rest = name.partition(".")
    number, _, what = rest.partition(".")
    if part == "layers":
        return f"layer.{LAYER + int(number)}.{what.replace('_norm', '.norm')}"
    return f"heads.{network.heads[int(number)].name}.{what}" if part == "heads" else name


def recipe(encoder: str | None = None, start: str | None = None) -> Recipe:
    """Reader of named faults of replies; `start` continues from a trained one."""
    seen: list[list[Dialogue]] = []  # training dialogues, then dev dialogues, on which features are weighed

    def examples(dialogues: Iterable[Dialogue]) -> Iterable[FaultExample]:
        seen.append(list(dialogues))
        return fault_examples(seen[-1])

    def network(_: Sequence[FaultExample], settings: TrainingSettings) -> FaultNetwork:
        made = FaultNetwork(encoder or DEFAULT, settings, seen[-1])
        if start:
            _begin(made, load(resolve(start), KIND))
        return made

    about = (
        "Reads a reply together with earlier turns, evidence, or what it answers, and says whether it "
        "contradicts, repeats, ignores, leaves the topic, is unsupported, makes no sense or is unkind."
    )
    return Recipe("dialeval-fault-reader", examples, network, "negative_loss", SETTINGS, about)
