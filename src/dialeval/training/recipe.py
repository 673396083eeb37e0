"""Recipes: how examples are made from dialogues, the network, and the dev figure that selects weights.

A recipe is data and two functions. `train` does the rest: it leaves out dialogues whose text is in test data,
makes examples, trains, resumes and exports.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from dialeval.dialogues import Dialogue, in_blocks, scored_turns
from dialeval.dialogues.splits import DEV_BUCKET, Fingerprints, bucket
from dialeval.errors import DataError, UsageError
from dialeval.models.artefact import Artefact
from dialeval.models.auxiliary_features import AuxiliaryModels
from dialeval.models.dialogue_scorer import feature_sizes, turn_features
from dialeval.models.encoder import DEFAULT, Encoder
from dialeval.models.heads import Head
from dialeval.models.tensors import Storage
from dialeval.models.turn_vectors import turn_vectors
from dialeval.training.checkpoint import Trained
from dialeval.training.examples import PairExample, Targets, TrainingExample, VectorExample
from dialeval.training.export import card_of, export
from dialeval.training.figures import Figure
from dialeval.training.loop import OnStep, fit
from dialeval.training.networks import Activation, PairNetwork, VectorNetwork
from dialeval.training.ridge import RidgeHeads, evaluate_ridge, fit_ridge
from dialeval.training.settings import TrainingSettings

FINE_TUNING = TrainingSettings()
SMALL_HEAD = TrainingSettings(batch=64, learning_rate=1e-3, epochs=20, patience=3)
AT_ONCE = 256  # dialogues encoded together
Watch = Callable[[str, int], None]
Label = Callable[[Dialogue, int], Targets | None]


@dataclass(frozen=True)
class Recipe:
    """How one model is trained; `pair_recipe`, `vector_recipe` and `turn_recipe` return the usual kinds.

    `network` makes an untrained network for examples: one that the loop trains (`networks.Trainable`), or
    fitted heads (`RidgeHeads`). Both have `parts` for the export.
    """

    name: str
    examples: Callable[[Iterable[Dialogue]], Iterable[Any]]
    network: Callable[[Sequence[Any], TrainingSettings], Any]
    dev_figure: str | Figure
    """The figure on the dev set that selects weights."""
    settings: TrainingSettings
    """Hyperparameters, usually those of a paper."""
    about: str = ""
    """Description of the scorer, for its card."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the artefact's configuration, for the metric that reads it."""
    kind: str | None = None
    """The class of the artefact; None: the network's own."""
    ridge: bool = False
    """True if the heads are fitted without torch, unless the settings have epochs."""
    sets: tuple[str, ...] = ()
    """Public sets behind the targets, such as those that a teacher was trained on."""
    dev_examples: Callable[[Iterable[Dialogue]], Iterable[Any]] | None = None
    """How the examples of the dev set are made, if differently."""


def pair_recipe(
    name: str,
    heads: Sequence[Head],
    examples: Callable[[Iterable[Dialogue]], Iterable[PairExample]],
    dev_figure: str | Figure,
    settings: TrainingSettings = FINE_TUNING,
    encoder: str | Path = "bert-base-uncased",
    **more: Any,
) -> Recipe:
    """Return the recipe of a cross-encoder that scores a response after its history.

    The losses follow from the kinds of the heads. `more` are other fields of the `Recipe`.
    """

    def network(_: Sequence[PairExample], settings: TrainingSettings) -> PairNetwork:
        return PairNetwork(encoder, heads, settings)

    return Recipe(name, examples, network, dev_figure, settings, **more)


def vector_recipe(
    name: str,
    heads: Sequence[Head],
    examples: Callable[[Iterable[Dialogue]], Iterable[VectorExample]],
    dev_figure: str | Figure,
    settings: TrainingSettings = SMALL_HEAD,
    *,
    hidden: Sequence[int] = (64,),
    activation: Activation = "relu",
    emphasis: Sequence[float] = (),
    ridge: bool = False,
    **more: Any,
) -> Recipe:
    """Return the recipe of a small network over features from a frozen encoder's vectors.

    With `ridge` the heads are linear and fitted by ridge regression, with the settings' `weight_decay` as
    penalty; that needs no torch unless `epochs` is above 0. `emphasis` is a factor for each standardised
    feature; features with a large one are penalised less. `more` are other fields of the `Recipe`; its
    `fields` must name encoder and features, so that scoring computes the same ones.
    """

    def network(examples: Sequence[VectorExample], settings: TrainingSettings) -> VectorNetwork | RidgeHeads:
        if ridge:
            fitted = fit_ridge(examples, heads, settings.weight_decay, emphasis)
            return VectorNetwork.of_ridge(fitted, settings) if settings.epochs else fitted
        layers = VectorNetwork.fitting(examples, heads, settings, hidden=hidden, activation=activation)
        if emphasis:
            layers.scale.div_(layers.scale.new_tensor(emphasis))
        return layers

    if ridge and hidden:
        raise UsageError(f"{name}: ridge regression has no hidden layers")
    return Recipe(name, examples, network, dev_figure, settings, ridge=ridge, **more)


def encoder_recipe(
    name: str,
    head: Head,
    examples: Callable[[Iterable[Dialogue], Encoder], Iterable[VectorExample]],
    dev_figure: str,
    settings: TrainingSettings,
    *,
    kind: str,
    hidden: int,
    about: str,
    encoder: str | None = None,
) -> Recipe:
    """Return the recipe of an `EncoderHead`: one hidden layer over a frozen encoder's features of texts."""
    frozen = Encoder.load(encoder or DEFAULT)
    return vector_recipe(
        name,
        (head,),
        lambda dialogues: examples(dialogues, frozen),
        dev_figure,
        settings,
        hidden=(hidden,),
        activation="gelu",
        about=about,
        fields={"encoder": frozen.origin},
        kind=kind,
    )


@dataclass(frozen=True)
class Provenance:
    """Facts for the card that are not part of the run.

    `data` is name, licence and a note for each set; `command` reproduces the artefact; `sets` are the public
    sets among the data (`NAME/portion`; None: unknown), for `dialeval benchmark`.
    """

    licence: str
    command: str
    data: Sequence[tuple[str, str, str]] = ()
    limits: Sequence[str] = ()
    sets: Sequence[str] | None = None
    filtered: Sequence[str] = ()


@dataclass(frozen=True)
class Result:
    """The artefact and the record of its run; `dropped` dialogues were left out as test data."""

    artefact: Artefact
    trained: Trained
    dropped: int


def train(
    recipe: Recipe,
    dialogues: Iterable[Dialogue],
    target: str | Path,
    provenance: Provenance,
    *,
    dev: Iterable[Dialogue] | None = None,
    unseen: Iterable[Dialogue] | Fingerprints = (),
    settings: TrainingSettings | None = None,
    storage: Storage = "fp32",
    on_step: OnStep | None = None,
    resume: bool = True,
    device: str | None = None,
    watch: Watch | None = None,
) -> Result:
    """Train by a recipe and write an artefact; the same call resumes after a kill.

    Checkpoints stay in `<target>.training` after the run; delete the folder when it is no longer needed.

    Args:
        provenance: Licence and data, for the card.
        dev: The dev set; None: a tenth of `dialogues` is held out, by a hash of their ids.
        unseen: Test dialogues; dialogues that share their text are left out of the training and the dev set.
        settings: Hyperparameters instead of the recipe's.
        resume: False starts again.
        device: A torch device; None: a GPU if there is one.
        watch: Called with a stage and a number of dialogues while examples are made, which may take longer
            than training; an empty stage ends it.
    """
    settings, target = settings or recipe.settings, Path(target)
    _check_target(target)
    train_set, dev_set, dropped = _parts(dialogues, dev, unseen)
    n_read = len(train_set) + len(dev_set) + dropped
    examples = _examples_of(recipe.examples, train_set, watch)
    dev_examples = _examples_of(recipe.dev_examples or recipe.examples, dev_set, watch)
    _check_examples(recipe.name, "training", train_set, examples, n_read)
    _check_examples(recipe.name, "dev", dev_set, dev_examples, n_read)
    _check_varies(recipe.name, examples)
    if watch:
        watch("", 0)
    network = recipe.network(examples, settings)
    if isinstance(network, RidgeHeads):
        trained = evaluate_ridge(network, examples, dev_examples, settings, recipe.dev_figure)
    else:
        trained = fit(
            network,
            examples,
            dev_examples,
            settings,
            folder=target.with_name(f"{target.name}.training"),
            figure=recipe.dev_figure,
            on_step=on_step,
            resume=resume,
            device=device,
        )
    sets = None if provenance.sets is None else tuple(provenance.sets)
    trained = replace(trained, sets=sets, filtered=tuple(provenance.filtered))
    counts = {"dialogues": len(train_set), "dev dialogues": len(dev_set), "left out as test data": dropped}
    card = card_of(
        trained,
        recipe.name,
        recipe.about,
        licence=provenance.licence,
        command=provenance.command,
        data=provenance.data,
        limits=provenance.limits,
        extra=[(part, f"{count:,}") for part, count in counts.items()],
    )
    written = export(
        network,
        target,
        card,
        name=recipe.name,
        kind=recipe.kind,
        storage=storage,
        trained=trained,
        fields=recipe.fields,
    )
    return Result(written, trained, dropped)


def _check_target(target: Path) -> None:
    """Raise a DataError if the target is neither free nor an artefact, before anything is trained."""
    occupied = target.exists() and not all(
        (target / name).is_file() for name in ("SHA256SUMS", "config.json")
    )
    if occupied and (not target.is_dir() or any(target.iterdir())):
        raise DataError("the target exists and is not an artefact", file=target, fix="choose another folder")


def _examples_of(
    make: Callable[[Iterable[Dialogue]], Iterable[Any]], dialogues: Sequence[Dialogue], watch: Watch | None
) -> list[Any]:
    def counted() -> Iterator[Dialogue]:
        for dialogue in dialogues:
            yield dialogue
            if watch:
                watch("dialogues made into examples", 1)

    return list(make(counted())) if dialogues else []


def _check_examples(
    name: str, part: str, dialogues: Sequence[Dialogue], examples: Sequence[object], read: int
) -> None:
    if not dialogues:
        raise DataError(
            f"of {read} dialogues none is left for the {part} set: dialogues that share text with test data "
            "are left out, and without a dev set one in ten is held out",
            fix="use more dialogues, or others",
        )
    if not examples:
        raise DataError(
            f"{name} finds no examples in the {part} dialogues", fix="use more dialogues, or others"
        )


def _check_varies(name: str, examples: Sequence[TrainingExample]) -> None:
    """Raise a DataError if all examples have the same target."""
    targets = {
        (head, value) for example in examples for head, value in example.targets.items() if value is not None
    }
    if len(targets) == len({head for head, _ in targets}):
        values = ", ".join(f"{head} {value:g}" for head, value in sorted(targets)) or "no target"
        raise DataError(
            f"{name}: all {len(examples):,} training examples have {values}: there is nothing to learn from",
            fix="use dialogues in which it varies",
        )


def _parts(
    dialogues: Iterable[Dialogue], dev: Iterable[Dialogue] | None, unseen: Iterable[Dialogue] | Fingerprints
) -> tuple[list[Dialogue], list[Dialogue], int]:
    """Return the training set, the dev set, and how many dialogues were left out as test data."""
    test_texts, dropped = unseen if isinstance(unseen, Fingerprints) else Fingerprints.of(unseen), 0
    train_set: list[Dialogue] = []
    dev_set: list[Dialogue] = []
    streams = [(dialogues, dev is None, train_set), (dev or (), False, dev_set)]
    for stream, divided, part in streams:
        for dialogue in stream:
            if test_texts.match(dialogue):
                dropped += 1
            elif divided and bucket(dialogue.id) == DEV_BUCKET:
                dev_set.append(dialogue)
            else:
                part.append(dialogue)
    return train_set, dev_set, dropped


def turn_recipe(
    name: str,
    heads: Sequence[Head],
    label: Label,
    features: Sequence[str],
    dev_figure: str | Figure,
    settings: TrainingSettings = SMALL_HEAD,
    *,
    encoder: str = DEFAULT,
    speaker: str | None = None,
    emphasis: Mapping[str, float] | None = None,
    judges: Literal["turns", "dialogues"] = "turns",
    **more: Any,
) -> Recipe:
    """Return the recipe of a dialogue scorer.

    Args:
        label: Returns the targets of a turn, by its number; None leaves the turn out.
        features: Blocks by name, see `dialogue_scorer.FEATURES`; scoring computes the same ones.
        encoder: A shipped or pulled encoder; the artefact records its name and hash.
        speaker: The speaker whose turns are used; None: the turns that metrics score.
        emphasis: A factor for a block of standardised features, where it is not 1.
        judges: Whether labels rate turns, or dialogues up to them.
        **more: As for `vector_recipe`: layers, ridge regression, and other fields of the `Recipe`.
    """
    frozen = Encoder.load(encoder)
    auxiliary = AuxiliaryModels.shipped(features)
    sizes = feature_sizes(frozen.width, features)
    factors = [emphasis.get(name, 1.0) for name in features for _ in range(sizes[name])] if emphasis else []

    def examples(dialogues: Iterable[Dialogue]) -> Iterator[VectorExample]:
        for block in in_blocks(dialogues, AT_ONCE):
            pairs = zip(turn_vectors(frozen, block), auxiliary.read(block, speaker), strict=True)
            for vectors, aided in pairs:
                chat = vectors.dialogue
                labels = {turn: label(chat, turn) for turn in scored_turns(chat, speaker)}
                labelled = {turn: targets for turn, targets in labels.items() if targets is not None}
                rows = turn_features(vectors, list(labelled), features, aided)
                for row, targets in zip(rows, labelled.values(), strict=True):
                    yield VectorExample(row, targets)

    fields: dict[str, Any] = {
        "features": list(features),
        "encoder": frozen.origin,
        **auxiliary.fields(),
        **({"judges": judges} if judges != "turns" else {}),
    }
    return vector_recipe(name, heads, examples, dev_figure, settings, emphasis=factors, fields=fields, **more)


Signals = dict[tuple[str, int], float]
"""Targets of replies, by the dialogue's id and the turn."""


def signal_recipe(
    name: str,
    head: Head,
    signals: Callable[[list[Dialogue]], tuple[Iterable[Dialogue], Signals]],
    features: Sequence[str],
    settings: TrainingSettings,
    *,
    at_once: int = AT_ONCE,
    **more: Any,
) -> Recipe:
    """Return the recipe of a dialogue scorer whose targets are computed for many dialogues together.

    The head is linear and fitted by ridge regression; a binary one is trained by the loop.

    Args:
        signals: Returns, for a block of dialogues, those to read and the targets of their replies.
        features: As for `turn_recipe`.
        **more: As for `turn_recipe`.
    """
    current = Signals()

    def label(dialogue: Dialogue, turn: int) -> Targets | None:
        value = current.get((dialogue.id, turn))
        return None if value is None else {head.name: value}

    def examples(dialogues: Iterable[Dialogue]) -> Iterator[VectorExample]:
        for block in in_blocks(dialogues, at_once):
            augmented, targets = signals(block)
            current.clear()
            current.update(targets)
            yield from base.examples(augmented)

    ridge = head.kind == "regression"
    figure = "spearman" if ridge else "accuracy"
    base = turn_recipe(name, (head,), label, features, figure, settings, hidden=(), ridge=ridge, **more)
    return replace(base, examples=examples)
