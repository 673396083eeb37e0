"""Recipes for heads over turn vectors: a frozen encoder reads each turn once; only labels are missing."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal

from dialeval.dialogues import Dialogue, scored_turns
from dialeval.models.aids import Aids
from dialeval.models.dialogue_scorer import feature_sizes, turn_features
from dialeval.models.encoder import DEFAULT, Encoder
from dialeval.models.heads import Head
from dialeval.models.training.examples import Targets, VectorExample
from dialeval.models.training.figures import Figure
from dialeval.models.training.networks import Activation
from dialeval.models.training.recipe import SMALL_HEAD, VectorRecipe
from dialeval.models.training.settings import Settings
from dialeval.models.turn_vectors import turn_vectors

_TOGETHER = 256  # dialogues encoded at a time
Label = Callable[[Dialogue, int], Targets | None]


def turn_recipe(
    name: str,
    heads: Sequence[Head],
    label: Label,
    features: Sequence[str],
    dev_figure: str | Figure,
    *,
    settings: Settings = SMALL_HEAD,
    hidden: Sequence[int] = (64,),
    activation: Activation = "relu",
    encoder: str = DEFAULT,
    speaker: str | None = None,
    about: str = "",
    emphasis: Mapping[str, float] | None = None,
    solved: bool = False,
    judges: Literal["turns", "dialogues"] = "turns",
) -> VectorRecipe:
    """Make the recipe of a dialogue scorer.

    Args:
        name: What the scorer is called.
        heads: What it says of a turn.
        label: The targets of a turn, by its number; None leaves the turn out.
        features: Blocks by name, see `dialogue_scorer.FEATURES`; scoring will make the same ones.
        dev_figure: What decides which weights are kept.
        settings: The numbers to train with.
        hidden: Sizes of the layers below the heads.
        activation: Between them.
        encoder: A shipped or pulled encoder; the artefact remembers its name and hash.
        speaker: Whose turns; None: those that metrics score.
        about: What it does, for the card.
        emphasis: How loud a block of features is beside the others, where it is not 1.
        solved: Whether the heads are solved for, see `VectorRecipe`.
        judges: Whether labels are of turns, or of dialogues up to them.
    """
    found = Encoder.load(encoder)
    aids = Aids.shipped(features)
    sizes = feature_sizes(found.width, features)
    loud = [emphasis.get(name, 1.0) for name in features for _ in range(sizes[name])] if emphasis else []

    def examples(dialogues: Iterable[Dialogue]) -> Iterator[VectorExample]:
        stream = iter(dialogues)
        while some := list(islice(stream, _TOGETHER)):
            yield from _examples(found, aids, some, label, features, speaker)

    fields: dict[str, Any] = {
        "features": list(features),
        "encoder": {"name": found.name, "sha": found.sha},
        **aids.fields(),
        **({"judges": judges} if judges != "turns" else {}),
    }
    return VectorRecipe(
        name,
        tuple(heads),
        examples,
        dev_figure,
        settings,
        tuple(hidden),
        activation,
        about,
        fields,
        emphasis=tuple(loud),
        solved=solved,
    )


def _examples(
    encoder: Encoder,
    aids: Aids,
    dialogues: list[Dialogue],
    label: Label,
    features: Sequence[str],
    speaker: str | None,
) -> Iterator[VectorExample]:
    for vectors, aided in zip(turn_vectors(encoder, dialogues), aids.read(dialogues, speaker), strict=True):
        chat = vectors.dialogue
        given = {turn: label(chat, turn) for turn in scored_turns(chat, speaker)}
        wanted = {turn: targets for turn, targets in given.items() if targets is not None}
        rows = turn_features(vectors, list(wanted), features, aided)
        for row, targets in zip(rows, wanted.values(), strict=True):
            yield VectorExample(row, targets)
