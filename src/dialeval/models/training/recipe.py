"""A recipe: how examples are made from dialogues, which heads learn from them, and which figure decides.

A recipe is data and one function; it lives beside the metric that uses what it makes. `train` does the rest:
keeps test dialogues out, makes examples, trains, resumes, exports.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from dialeval.dialogues import Dialogue
from dialeval.dialogues.splits import Fingerprints, bucket
from dialeval.errors import DataError, UsageError
from dialeval.models.artefact import Artefact
from dialeval.models.card import Card
from dialeval.models.heads import Head
from dialeval.models.tensors import Storage
from dialeval.models.training.examples import Example, PairExample, VectorExample
from dialeval.models.training.export import card_of, export_pair, export_vectors
from dialeval.models.training.figures import Figure
from dialeval.models.training.least_squares import solve_heads
from dialeval.models.training.loop import Trained, fit
from dialeval.models.training.networks import Activation, Network, VectorNetwork
from dialeval.models.training.pair_network import PairNetwork
from dialeval.models.training.progress import OnStep
from dialeval.models.training.settings import Settings

FINE_TUNING = Settings()
SMALL_HEAD = Settings(batch=64, learning_rate=1e-3, epochs=20, patience=3)
_DEV_BUCKET = 0  # one dialogue in ten, by a hash of its id
X = TypeVar("X", bound=Example)
N = TypeVar("N", bound=Network[Any])


class Recipe(Protocol[X, N]):
    """What `train` needs to know; `PairRecipe` and `VectorRecipe` are enough for most."""

    @property
    def name(self) -> str:
        """What the scorer is called."""

    @property
    def about(self) -> str:
        """What the scorer does, for its card."""

    @property
    def settings(self) -> Settings:
        """The numbers to train with, usually those of a paper."""

    @property
    def dev_figure(self) -> str | Figure:
        """What decides which weights are kept."""

    @property
    def examples(self) -> Callable[[Iterable[Dialogue]], Iterable[X]]:
        """How examples are made from dialogues."""

    def network(self, examples: Sequence[X], settings: Settings, encoder: str | Path | None) -> N:
        """Make the network that learns from these examples, untrained."""

    def export(self, network: N, target: Path, card: Card, trained: Trained, storage: Storage) -> Artefact:
        """Write the trained network as an artefact."""


@dataclass(frozen=True)
class PairRecipe:
    """How to train a cross-encoder that judges a response after its history.

    The losses follow from the kinds of the heads. `fields` is written to the artefact for the metric.
    """

    name: str
    heads: tuple[Head, ...]
    examples: Callable[[Iterable[Dialogue]], Iterable[PairExample]]
    dev_figure: str | Figure
    settings: Settings = FINE_TUNING
    encoder: str = "bert-base-uncased"
    about: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)

    def network(
        self, _: Sequence[PairExample], settings: Settings, encoder: str | Path | None = None
    ) -> PairNetwork:
        """Load the encoder and put the heads on it."""
        return PairNetwork(encoder or self.encoder, self.heads, settings)

    def export(
        self, network: PairNetwork, target: Path, card: Card, trained: Trained, storage: Storage
    ) -> Artefact:
        """Write a pair scorer."""
        return export_pair(
            network, target, card, name=self.name, storage=storage, trained=trained, fields=self.fields
        )


@dataclass(frozen=True)
class VectorRecipe:
    """How to train a small network over features that were made of a frozen encoder's vectors.

    `fields` says which encoder and which features, so that scoring makes the same ones; `kind` is the class
    of the artefact. A network without layers can be `solved` for, with the settings' `weight_decay` as the
    penalty. `emphasis`, a number for each feature, says how loud it is beside the others once all are
    standardised: a penalty spares what is loud.
    """

    name: str
    heads: tuple[Head, ...]
    examples: Callable[[Iterable[Dialogue]], Iterable[VectorExample]]
    dev_figure: str | Figure
    settings: Settings = SMALL_HEAD
    hidden: tuple[int, ...] = (64,)
    activation: Activation = "relu"
    about: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "dialogue-scorer.v1"
    emphasis: tuple[float, ...] = ()
    solved: bool = False

    def network(
        self, examples: Sequence[VectorExample], settings: Settings, encoder: str | Path | None = None
    ) -> VectorNetwork:
        """Make layers of the right size, with the mean and scale of the examples."""
        if encoder is not None:
            raise UsageError(f"{self.name} reads the vectors of one encoder; another needs another recipe")
        made = VectorNetwork.fitting(
            examples, self.heads, settings, hidden=self.hidden, activation=self.activation
        )
        if self.emphasis:
            made.scale.div_(made.scale.new_tensor(self.emphasis))
        if self.solved:
            solve_heads(made, examples, settings.weight_decay)
        return made

    def export(
        self, network: VectorNetwork, target: Path, card: Card, trained: Trained, _: Storage
    ) -> Artefact:
        """Write the head; it is small, so it is stored as it is."""
        return export_vectors(
            network, target, card, name=self.name, kind=self.kind, trained=trained, fields=self.fields
        )


@dataclass(frozen=True)
class Provenance:
    """What a card must say and no run knows.

    `data` is name, licence and a note for each set; `command` is what makes the artefact again.
    """

    licence: str
    command: str
    data: Sequence[tuple[str, str, str]] = ()
    limits: Sequence[str] = ()


@dataclass(frozen=True)
class Result:
    """What `train` made; `dropped` dialogues were left out because test data hold their text."""

    artefact: Artefact
    trained: Trained
    dropped: int


def train(
    recipe: Recipe[X, N],
    dialogues: Iterable[Dialogue],
    target: str | Path,
    provenance: Provenance,
    *,
    dev: Iterable[Dialogue] | None = None,
    unseen: Iterable[Dialogue] = (),
    settings: Settings | None = None,
    encoder: str | Path | None = None,
    storage: Storage = "fp32",
    on_step: OnStep | None = None,
    resume: bool = True,
    device: str | None = None,
) -> Result:
    """Train by a recipe and write an artefact; call it again after a kill and it goes on.

    Checkpoints are kept in `<target>.training`, also when all is done: delete it when you are content.

    Args:
        recipe: What to train.
        dialogues: What to learn from.
        target: The artefact's folder.
        provenance: What the card says about licence and data.
        dev: What to choose by; None: a tenth of `dialogues`, by a hash of their ids.
        unseen: Test dialogues: whatever shares their text is left out of training and of choosing.
        settings: In place of the recipe's.
        encoder: In place of the recipe's, for pairs.
        storage: How the artefact keeps its weights.
        on_step: Called after each step.
        resume: False begins afresh.
        device: A name that torch knows; None: a GPU if there is one.
    """
    settings, target = settings or recipe.settings, Path(target)
    _check_target(target)
    learned, chosen, dropped = _parts(dialogues, dev, unseen)
    examples, held = list(recipe.examples(learned)), list(recipe.examples(chosen))
    for some, what in ((examples, "training"), (held, "dev")):
        if not some:
            raise DataError(
                f"{recipe.name} makes no examples of the {what} dialogues",
                fix="give more dialogues, or others",
            )
    _check_varies(recipe.name, examples)
    network = recipe.network(examples, settings, encoder)
    trained = fit(
        network,
        examples,
        held,
        settings,
        folder=target.with_name(f"{target.name}.training"),
        figure=recipe.dev_figure,
        on_step=on_step,
        resume=resume,
        device=device,
    )
    counts = {"dialogues": len(learned), "dev dialogues": len(chosen), "left out as test data": dropped}
    card = card_of(
        trained,
        recipe.name,
        recipe.about,
        licence=provenance.licence,
        command=provenance.command,
        data=provenance.data,
        limits=provenance.limits,
        extra=[(what, f"{count:,}") for what, count in counts.items()],
    )
    return Result(recipe.export(network, target, card, trained, storage), trained, dropped)


def _check_target(target: Path) -> None:
    """Refuse now what could not be written in three days."""
    held = target.exists() and not (target / "SHA256SUMS").is_file()
    if held and (not target.is_dir() or any(target.iterdir())):
        raise DataError(
            "there is something here, and it is no artefact", file=target, fix="choose another folder"
        )


def _check_varies(name: str, examples: Sequence[Example]) -> None:
    """Refuse examples that all say the same: whatever came out would be called trained."""
    given = {(head, value) for one in examples for head, value in one.targets.items() if value is not None}
    if len(given) == len({head for head, _ in given}):
        told = ", ".join(f"{head} {value:g}" for head, value in sorted(given)) or "no target"
        raise DataError(
            f"{name}: all {len(examples):,} training examples have {told}: there is nothing to learn from",
            fix="give dialogues in which it varies",
        )


def _parts(
    dialogues: Iterable[Dialogue], dev: Iterable[Dialogue] | None, unseen: Iterable[Dialogue]
) -> tuple[list[Dialogue], list[Dialogue], int]:
    """Return what to learn from, what to choose by, and how many of either were known test data."""
    known, dropped = Fingerprints.of(unseen), 0
    learned: list[Dialogue] = []
    chosen: list[Dialogue] = []
    streams = [(dialogues, dev is None, learned), (dev or (), False, chosen)]
    for stream, divided, kept in streams:
        for dialogue in stream:
            if known.match(dialogue):
                dropped += 1
            elif divided and bucket(dialogue.id) == _DEV_BUCKET:
                chosen.append(dialogue)
            else:
                kept.append(dialogue)
    return learned, chosen, dropped
