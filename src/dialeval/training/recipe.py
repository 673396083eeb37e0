"""A recipe: how examples are made from dialogues, which network learns from them, which dev figure decides.

A recipe is data and two functions. `train` does the rest: it leaves out dialogues whose text is in test data,
makes examples, trains, resumes and exports.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from dialeval.dialogues import Dialogue, scored_turns
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
    """How one model is trained; `pair_recipe`, `vector_recipe` and `turn_recipe` make the usual kinds.

    `network` makes an untrained network for examples: one that the loop trains (`networks.Trainable`), or
    heads that are fitted already (`RidgeHeads`). Both know how to export themselves.
    """

    name: str
    examples: Callable[[Iterable[Dialogue]], Iterable[Any]]
    network: Callable[[Sequence[Any], TrainingSettings], Any]
    dev_figure: str | Figure
    """The figure on the dev set by which weights are kept."""
    settings: TrainingSettings
    """The numbers to train with, usually those of a paper."""
    about: str = ""
    """Description of the scorer, for its card."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Written to the artefact, for the metric that will read it."""
    kind: str | None = None
    """The class of the artefact; None: the network's own."""
    ridge: bool = False
    """Whether the heads are fitted without torch, unless the settings have epochs."""
    sets: tuple[str, ...] = ()
    """Public sets behind the targets, such as those that a teacher was trained on."""
    dev_examples: Callable[[Iterable[Dialogue]], Iterable[Any]] | None = None
    """How the examples of the dev set are made, where it is otherwise."""


def pair_recipe(
    name: str,
    heads: Sequence[Head],
    examples: Callable[[Iterable[Dialogue]], Iterable[PairExample]],
    dev_figure: str | Figure,
    settings: TrainingSettings = FINE_TUNING,
    encoder: str | Path = "bert-base-uncased",
    **more: Any,
) -> Recipe:
    """Make the recipe of a cross-encoder that judges a response after its history.

    The losses follow from the kinds of the heads. What else a `Recipe` has is given by name.
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
    """Make the recipe of a small network over features that were made of a frozen encoder's vectors.

    With `ridge` the heads are linear and fitted by ridge regression, the settings' `weight_decay` being the
    penalty; that needs no torch unless `epochs` is above 0. `emphasis` is a factor for each standardised
    feature: a penalty spares what is large. What else a `Recipe` has is given by name; its `fields` say which
    encoder and which features, so that scoring makes the same ones.
    """

    def network(examples: Sequence[VectorExample], settings: TrainingSettings) -> VectorNetwork | RidgeHeads:
        if ridge:
            fitted = fit_ridge(examples, heads, settings.weight_decay, emphasis)
            return VectorNetwork.of_ridge(fitted, settings) if settings.epochs else fitted
        made = VectorNetwork.fitting(examples, heads, settings, hidden=hidden, activation=activation)
        if emphasis:
            made.scale.div_(made.scale.new_tensor(emphasis))
        return made

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
    """Make the recipe of an `EncoderHead`: one hidden layer over what a frozen encoder says of texts."""
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
    """Facts for the card that a run does not know.

    `data` is name, licence and a note for each set; `command` is what makes the artefact again; `sets` are
    the public sets among the data (`NAME/portion`; None: not known), for `dialeval benchmark`.
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

    Checkpoints are kept in `<target>.training`, also when all is done: delete it when you are done.

    Args:
        recipe: The recipe.
        dialogues: The training set.
        target: The artefact's folder.
        provenance: What the card says about licence and data.
        dev: The dev set; None: a tenth of `dialogues` is held out, by a hash of their ids.
        unseen: Test dialogues: what shares their text is left out of the training and the dev set.
        settings: In place of the recipe's.
        storage: How the artefact keeps its weights.
        on_step: Called after each step.
        resume: False begins afresh.
        device: A name that torch knows; None: a GPU if there is one.
        watch: Called with a stage and a number of dialogues while examples are made, which may take longer
            than training; an empty stage ends it.
    """
    settings, target = settings or recipe.settings, Path(target)
    _check_target(target)
    learned, chosen, dropped = _parts(dialogues, dev, unseen)
    makers = recipe.examples, recipe.dev_examples or recipe.examples
    examples, held = (
        _examples_of(make, some, watch) for make, some in zip(makers, (learned, chosen), strict=True)
    )
    for some, made, what in ((learned, examples, "training"), (chosen, held, "dev")):
        _check_examples(recipe.name, what, some, made, len(learned) + len(chosen) + dropped)
    _check_varies(recipe.name, examples)
    if watch:
        watch("", 0)
    network = recipe.network(examples, settings)
    if isinstance(network, RidgeHeads):
        trained = evaluate_ridge(network, examples, held, settings, recipe.dev_figure)
    else:
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
    sets = None if provenance.sets is None else tuple(provenance.sets)
    trained = replace(trained, sets=sets, filtered=tuple(provenance.filtered))
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
    """Refuse a folder that the artefact could not be written to, before anything is trained."""
    held = target.exists() and not all((target / name).is_file() for name in ("SHA256SUMS", "config.json"))
    if held and (not target.is_dir() or any(target.iterdir())):
        raise DataError(
            "there is something here, and it is no artefact", file=target, fix="choose another folder"
        )


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
    name: str, what: str, dialogues: Sequence[Dialogue], examples: Sequence[object], read: int
) -> None:
    if not dialogues:
        raise DataError(
            f"of {read} dialogues none is left for the {what} set: what shares its text with test data is "
            "left out, and without a dev set one in ten is held out",
            fix="give more dialogues, or others",
        )
    if not examples:
        raise DataError(
            f"{name} makes no examples of the {what} dialogues", fix="give more dialogues, or others"
        )


def _check_varies(name: str, examples: Sequence[TrainingExample]) -> None:
    """Refuse examples that all have the same target."""
    given = {(head, value) for one in examples for head, value in one.targets.items() if value is not None}
    if len(given) == len({head for head, _ in given}):
        told = ", ".join(f"{head} {value:g}" for head, value in sorted(given)) or "no target"
        raise DataError(
            f"{name}: all {len(examples):,} training examples have {told}: there is nothing to learn from",
            fix="give dialogues in which it varies",
        )


def _parts(
    dialogues: Iterable[Dialogue], dev: Iterable[Dialogue] | None, unseen: Iterable[Dialogue] | Fingerprints
) -> tuple[list[Dialogue], list[Dialogue], int]:
    """Return the training set, the dev set, and how many dialogues were left out as test data."""
    known, dropped = unseen if isinstance(unseen, Fingerprints) else Fingerprints.of(unseen), 0
    learned: list[Dialogue] = []
    chosen: list[Dialogue] = []
    streams = [(dialogues, dev is None, learned), (dev or (), False, chosen)]
    for stream, divided, kept in streams:
        for dialogue in stream:
            if known.match(dialogue):
                dropped += 1
            elif divided and bucket(dialogue.id) == DEV_BUCKET:
                chosen.append(dialogue)
            else:
                kept.append(dialogue)
    return learned, chosen, dropped


def in_blocks(dialogues: Iterable[Dialogue], size: int = AT_ONCE) -> Iterator[list[Dialogue]]:
    """Yield dialogues as lists of at most `size`."""
    stream = iter(dialogues)
    while block := list(islice(stream, size)):
        yield block


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
    """Make the recipe of a dialogue scorer.

    Args:
        name: Name of the scorer.
        heads: Its outputs for a turn.
        label: The targets of a turn, by its number; None leaves the turn out.
        features: Blocks by name, see `dialogue_scorer.FEATURES`; scoring will make the same ones.
        dev_figure: The figure on the dev set by which weights are kept.
        settings: The numbers to train with.
        encoder: A shipped or pulled encoder; the artefact remembers its name and hash.
        speaker: Whose turns; None: those that metrics score.
        emphasis: A factor for a block of standardised features, where it is not 1.
        judges: Whether labels rate turns, or dialogues up to them.
        **more: As for `vector_recipe`: layers, ridge regression, and what else a `Recipe` has.
    """
    found = Encoder.load(encoder)
    aids = AuxiliaryModels.shipped(features)
    sizes = feature_sizes(found.width, features)
    loud = [emphasis.get(name, 1.0) for name in features for _ in range(sizes[name])] if emphasis else []

    def examples(dialogues: Iterable[Dialogue]) -> Iterator[VectorExample]:
        for block in in_blocks(dialogues):
            pairs = zip(turn_vectors(found, block), aids.read(block, speaker), strict=True)
            for vectors, aided in pairs:
                chat = vectors.dialogue
                given = {turn: label(chat, turn) for turn in scored_turns(chat, speaker)}
                wanted = {turn: targets for turn, targets in given.items() if targets is not None}
                rows = turn_features(vectors, list(wanted), features, aided)
                for row, targets in zip(rows, wanted.values(), strict=True):
                    yield VectorExample(row, targets)

    fields: dict[str, Any] = {
        "features": list(features),
        "encoder": found.origin,
        **aids.fields(),
        **({"judges": judges} if judges != "turns" else {}),
    }
    return vector_recipe(name, heads, examples, dev_figure, settings, emphasis=loud, fields=fields, **more)


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
    """Make the recipe of a dialogue scorer whose targets are computed for many dialogues together.

    The head is linear and fitted by ridge regression; a binary one is trained as any other.

    Args:
        name: Name of the scorer.
        head: Its output.
        signals: Returns, for a block of dialogues, those to read and the targets of their replies.
        features: As for `turn_recipe`.
        settings: The numbers to train with.
        at_once: Dialogues of a block.
        **more: As for `turn_recipe`.
    """
    known = Signals()

    def label(dialogue: Dialogue, turn: int) -> Targets | None:
        value = known.get((dialogue.id, turn))
        return None if value is None else {head.name: value}

    def examples(dialogues: Iterable[Dialogue]) -> Iterator[VectorExample]:
        for block in in_blocks(dialogues, at_once):
            shown, found = signals(block)
            known.clear()
            known.update(found)
            yield from made.examples(shown)

    ridge = head.kind == "regression"
    figure = "spearman" if ridge else "accuracy"
    made = turn_recipe(name, (head,), label, features, figure, settings, hidden=(), ridge=ridge, **more)
    return replace(made, examples=examples)
