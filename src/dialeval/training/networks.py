"""The two networks that the loop trains: a cross-encoder over pairs, and a small one over feature vectors.

Each has a torch module and methods that turn examples into its input and its input into one output for each
head (`Trainable`). The loop needs nothing else, so a recipe may define its own network.
"""

import json
import tempfile
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from dialeval.errors import DataError, UsageError
from dialeval.manifests import SUMS
from dialeval.models import artefact
from dialeval.models.conversion import as_bert, canonical, reading_by_transformers
from dialeval.models.heads import Head
from dialeval.models.pairs import PairLayout, pair_input
from dialeval.models.shape import EncoderShape, read_weights
from dialeval.models.tensors import Storage
from dialeval.models.tokenization import Tokenizer
from dialeval.training.checkpoint import module_arrays
from dialeval.training.examples import PairExample, VectorExample, stack
from dialeval.training.export import ArtefactParts, encoder_parts, vector_parts
from dialeval.training.ridge import RidgeHeads, standardisation
from dialeval.training.settings import TrainingSettings

if TYPE_CHECKING:
    import torch

Activation = Literal["relu", "gelu", "tanh"]
Places = npt.NDArray[np.intp]
Lengths = npt.NDArray[np.int64]
_DROPOUTS = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "dropout",  # the names of DistilBERT
    "attention_dropout",
)
_SPREAD = 0.02  # standard deviation of the heads' initial weights, as in the encoders
HEAD_DROPOUT = 0.1


class Prepared(Protocol):
    """Examples in the form a network reads."""

    lengths: Lengths
    """Length of each example; batches hold examples of similar length."""

    def tensors(self, places: Places) -> "dict[str, torch.Tensor]":
        """Return the input of the examples at these places."""


class Trainable(Protocol):
    """A network that the loop can train: its outputs for an example (`heads`) and its weights (`module`)."""

    heads: tuple[Head, ...]
    module: "torch.nn.Module"

    def prepare(self, examples: Sequence[Any]) -> Prepared:
        """Bring examples into the form that `outputs` reads."""

    def outputs(self, batch: "Mapping[str, torch.Tensor]") -> "dict[str, torch.Tensor]":
        """Return for each head one number a row (a logit where it is binary), or one for each class."""


class PreparedVectors:
    """Stacked features; all are equally long."""

    def __init__(self, examples: Sequence[VectorExample], inputs: int | None = None) -> None:
        self._features = stack(examples, inputs)
        self.lengths: Lengths = np.ones(len(examples), np.int64)

    def features(self, places: Places | slice) -> npt.NDArray[np.float32]:
        """Return the features of the examples at these places."""
        return self._features[places]

    def tensors(self, places: Places) -> "dict[str, torch.Tensor]":
        """Return the features of the examples at these places as tensors."""
        import torch

        return {"features": torch.from_numpy(self.features(places))}


class VectorNetwork:
    """A feed-forward network over standardised features, with linear heads.

    Mean and scale of the features are part of the weights: the first operation is `(x - mean) / scale`.
    `read` returns the features of examples, given their size if it is known.
    """

    def __init__(
        self,
        inputs: int,
        heads: Sequence[Head],
        settings: TrainingSettings,
        *,
        hidden: Sequence[int] = (64,),
        activation: Activation = "relu",
        read: Any = PreparedVectors,
    ) -> None:
        import torch

        if activation not in ("relu", "gelu", "tanh"):
            raise UsageError(f"no activation {activation!r}; known: relu, gelu, tanh")
        if inputs < 1 or any(size < 1 for size in hidden):
            raise UsageError(f"sizes must be at least 1, not {[inputs, *hidden]}")
        self.heads, self.hidden, self.read = tuple(heads), tuple(hidden), read
        self.activation: Activation = activation
        self.dropout = HEAD_DROPOUT if settings.dropout is None else settings.dropout
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            sizes = [inputs, *hidden]
            self.layers = torch.nn.ModuleList(map(torch.nn.Linear, sizes, sizes[1:]))
            self.tops = torch.nn.ModuleList(torch.nn.Linear(sizes[-1], head.outputs) for head in heads)
        self.module = torch.nn.Module()
        self.module.register_buffer("mean", torch.zeros(inputs))
        self.module.register_buffer("scale", torch.ones(inputs))
        self.module.add_module("layers", self.layers)
        self.module.add_module("heads", self.tops)

    @classmethod
    def fitting(
        cls, examples: Sequence[Any], heads: Sequence[Head], settings: TrainingSettings, **shape: Any
    ) -> "VectorNetwork":
        """Return a network with the size, mean and scale of the examples' features."""
        import torch

        features = shape.get("read", PreparedVectors)(examples).features(slice(None))
        network = cls(features.shape[1], heads, settings, **shape)
        with torch.no_grad():
            for place, values in zip((network.mean, network.scale), standardisation(features), strict=True):
                place.copy_(torch.from_numpy(values))
        return network

    @classmethod
    def of_ridge(cls, fitted: RidgeHeads, settings: TrainingSettings) -> "VectorNetwork":
        """Return a network without hidden layers that begins with fitted weights."""
        import torch

        network = cls(len(fitted.mean), fitted.heads, settings, hidden=())
        with torch.no_grad():
            for name, values in network.module.state_dict().items():
                values.copy_(torch.from_numpy(fitted.arrays()[name]))
        return network

    def parts(self, _: Storage) -> ArtefactParts:
        """Return the parts of the artefact."""
        return vector_parts(module_arrays(self.module), self.heads, self.hidden, self.activation)

    @property
    def mean(self) -> "torch.Tensor":
        """Mean of the features."""
        return self.module.get_buffer("mean")

    @property
    def scale(self) -> "torch.Tensor":
        """Scale of the features."""
        return self.module.get_buffer("scale")

    def prepare(self, examples: Sequence[Any]) -> Prepared:
        """Return the features of examples; they must have the size of the network."""
        prepared: Prepared = self.read(examples, len(self.mean))
        return prepared

    def outputs(self, batch: "Mapping[str, torch.Tensor]") -> "dict[str, torch.Tensor]":
        """Return for each head one number a row, or one for each class."""
        from torch.nn import functional

        values = (batch["features"] - self.mean) / self.scale
        for layer in self.layers:
            values = getattr(functional, self.activation)(layer(values))
            values = functional.dropout(values, self.dropout, self.module.training)
        return head_outputs(self.heads, self.tops, values)


def head_outputs(heads: Sequence[Head], tops: Any, states: "torch.Tensor") -> "dict[str, torch.Tensor]":
    """Return the output of each head's linear layer: one number a row, or one for each class."""
    outputs = {}
    for head, top in zip(heads, tops, strict=True):
        output = top(states)
        outputs[head.name] = output if head.kind == "classes" else output.squeeze(-1)
    return outputs


class PairNetwork:
    """An encoder of a family that `conversion` supports, from the Hub or a folder, with linear heads.

    A shipped or pulled encoder, or a trained cross-encoder, starts with its weights. Weights are read from
    safetensors only, and code that comes with a model is never run.
    """

    def __init__(self, encoder: str | Path, heads: Sequence[Head], settings: TrainingSettings) -> None:
        import torch

        self.encoder, self.heads = str(encoder), tuple(heads)
        model, self.tokenizer_json = _load_artefact(self.encoder, settings) or _load(self.encoder, settings)
        self.config: dict[str, Any] = model.config.to_dict()
        self.shape = self._shape(model)
        self.limit = min(settings.max_length, self.shape.positions)
        self.tokenizer = _tokenizer(self.tokenizer_json, self.limit)
        self.layout = PairLayout.of(*self.tokenizer.special(), segments=self.shape.segments)
        if self.limit <= 4:  # the most special tokens that a family has
            raise UsageError(f"max_length is {self.limit}: too short for a pair")
        self.dropout = HEAD_DROPOUT if settings.dropout is None else settings.dropout
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(settings.seed)
            tops = [torch.nn.Linear(self.shape.width, head.outputs) for head in heads]
            for top in tops:
                top.weight.normal_(0.0, _SPREAD)
                top.bias.zero_()
        self.model, self.tops = model, torch.nn.ModuleList(tops)
        self.module = torch.nn.ModuleDict({"encoder": model, "heads": self.tops})
        self._first_position = _first_position(model)

    def _shape(self, model: Any) -> EncoderShape:
        """Return the encoder's shape; converting the weights first makes an unknown family fail early."""
        place = Path(self.encoder) / "config.json" if Path(self.encoder).is_dir() else self.encoder
        weights = {name: value.numpy() for name, value in model.state_dict().items()}
        return canonical(self.config, weights, place)[0]

    def parts(self, storage: Storage) -> ArtefactParts:
        """Return the parts of the artefact: the encoder and its linear heads."""
        shape, weights = encoder_parts(self.config, module_arrays(self.module), self.heads)
        config = {
            "shape": shape,
            "limit": self.limit,
            "layout": self.layout.fields(),
            "heads": [head.fields() for head in self.heads],
            "storage": storage,
            "encoder": Path(self.encoder).name if Path(self.encoder).is_dir() else self.encoder,
        }
        return ArtefactParts("pair-scorer.v1", config, weights, {"tokenizer.json": self.tokenizer_json})

    def prepare(self, examples: Sequence[PairExample]) -> "Pairs":
        """Return the pairs as tokens; each distinct text is tokenised once."""
        return Pairs(examples, self.tokenizer, self.layout, self.limit)

    def outputs(self, batch: "Mapping[str, torch.Tensor]") -> "dict[str, torch.Tensor]":
        """Return for each head one number a row, or one for each class."""
        import torch
        from torch.nn import functional

        places = torch.arange(batch["ids"].shape[1], device=batch["ids"].device) + self._first_position
        inputs = {
            "input_ids": batch["ids"],
            "attention_mask": batch["mask"],
            "position_ids": places.expand_as(batch["ids"]),
        }
        if self.layout.segments:
            inputs["token_type_ids"] = batch["segments"]
        first = self.model(**inputs).last_hidden_state[:, 0]
        first = functional.dropout(first, self.dropout, self.module.training)
        return head_outputs(self.heads, self.tops, first)


class Pairs:
    """Pairs as tokens. A turn is stored once, however many histories it is part of."""

    def __init__(
        self, examples: Sequence[PairExample], tokenizer: Tokenizer, layout: PairLayout, limit: int
    ) -> None:
        self.layout, self.limit = layout, limit
        numbers: dict[str, int] = {}
        for example in examples:
            for text in (*example.history, example.response):
                numbers.setdefault(text, len(numbers))
        self._texts = [array("i", ids) for ids in tokenizer.bare(list(numbers))]
        self._rows = [self._row(example, numbers) for example in examples]
        sizes = [
            layout.special - 2 + sum(len(self._texts[number]) + 1 for number in row) for row in self._rows
        ]
        self.lengths: Lengths = np.minimum(np.array(sizes, np.int64), limit)

    def _row(self, example: PairExample, numbers: Mapping[str, int]) -> "array[int]":
        """Return the numbers of a pair's texts, response last; turns beyond the limit are left out."""
        row, used = [numbers[example.response]], 0
        for text in reversed(example.history):
            if used >= self.limit:
                break
            row.append(numbers[text])
            used += len(self._texts[row[-1]]) + 1
        return array("i", reversed(row))

    def tensors(self, places: Places) -> "dict[str, torch.Tensor]":
        """Return token numbers, segments and mask of the pairs at these places, padded to the longest."""
        import torch

        inputs = []
        for place in places:
            *history, response = (self._texts[text] for text in self._rows[place])
            inputs.append(pair_input(history, response, self.limit, self.layout))
        width = max((len(pair.ids) for pair in inputs), default=0)
        batch = np.zeros((3, len(inputs), width), np.int64)
        for number, pair in enumerate(inputs):
            batch[0, number, : len(pair.ids)] = pair.ids
            batch[1, number, : len(pair.ids)] = pair.segments
            batch[2, number, : len(pair.ids)] = 1
        ids, segments, mask = torch.from_numpy(batch)
        return {"ids": ids, "segments": segments, "mask": mask}


def _load_artefact(encoder: str, settings: TrainingSettings) -> tuple[Any, bytes] | None:
    """Return an artefact's encoder as a BERT model, and its tokenizer; None if it is not an artefact."""
    named = {called: place for called, _, place in artefact.names()}
    folder = Path(encoder) if (Path(encoder) / SUMS).is_file() else named.get(encoder)
    if folder is None:
        return None
    import torch
    from transformers import BertConfig, BertModel

    loaded = artefact.load(folder)
    shape = EncoderShape.of(loaded.config, folder / "config.json")
    config, weights = as_bert(shape, read_weights(loaded.path("model.safetensors"), shape))
    dropouts = {} if settings.dropout is None else dict.fromkeys(_DROPOUTS[:2], settings.dropout)
    with torch.random.fork_rng(devices=[]):
        model = BertModel(BertConfig(**(config | dropouts)), add_pooling_layer=False)
    tensors = {name: torch.tensor(value) for name, value in weights.items()}
    model.load_state_dict(tensors)
    return model, loaded.path("tokenizer.json").read_bytes()


def _load(encoder: str, settings: TrainingSettings) -> tuple[Any, bytes]:
    """Return model and tokenizer by transformers, in fp32; all weights must be there."""
    import torch
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    with reading_by_transformers(encoder, "an encoder", "an encoder"):
        config = AutoConfig.from_pretrained(encoder, trust_remote_code=False)
        for name in _DROPOUTS if settings.dropout is not None else ():
            if isinstance(getattr(config, name, None), float | int):
                setattr(config, name, settings.dropout)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            model, info = AutoModel.from_pretrained(
                encoder,
                config=config,
                dtype=torch.float32,
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
        tokenizer = AutoTokenizer.from_pretrained(encoder, trust_remote_code=False)
    if getattr(model, "pooler", None) is not None:
        model.pooler = None  # the heads read the first state itself
    missing = sorted(name for name in info["missing_keys"] if not name.startswith("pooler."))
    if missing:
        raise DataError(f"{len(missing)} weights are missing, such as {missing[0]}", file=encoder)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise DataError("its tokenizer has no tokenizer.json", file=encoder, fix="use a fast tokenizer")
    content = json.loads(backend.to_str()) | {"truncation": None, "padding": None}
    return model, json.dumps(content, ensure_ascii=False).encode()


def _tokenizer(content: bytes, limit: int) -> Tokenizer:
    """Return the tokenizer as the runtime reads it from the exported file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer.json"
        path.write_bytes(content)
        return Tokenizer(path, limit)


def _first_position(model: Any) -> int:
    """Return the number of the first position: RoBERTa counts on from its padding token."""
    if model.config.model_type in ("bert", "electra", "distilbert"):
        return 0
    first = int(model.embeddings.padding_idx) + 1
    if first != 2:
        raise DataError(f"positions start at {first}; only 0 and 2 are supported", field="pad_token_id")
    return first
