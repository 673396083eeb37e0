"""The recipe `user-reaction`: a classifier of what users say next."""

from collections.abc import Iterable, Iterator

from dialeval.dialogues import Dialogue
from dialeval.dialogues.signals import next_turns
from dialeval.errors import UsageError
from dialeval.models import reactions
from dialeval.models.encoder import DEFAULT as ENCODER
from dialeval.models.encoder import Encoder
from dialeval.models.reactions import HEAD, REACTIONS, Exchange, reaction_features
from dialeval.training.examples import VectorExample
from dialeval.training.recipe import Recipe, vector_recipe
from dialeval.training.settings import TrainingSettings


def recipe(encoder: str | None = None) -> Recipe:
    """Classifier of what users say next: displeased with the reply, neutral or pleased.

    Args:
        encoder: Only the shipped one: the head reads its vectors.
    """
    if encoder is not None:
        raise UsageError("user-reaction is a head on the shipped encoder: it has no other to choose")
    frozen = Encoder.load(ENCODER)
    return vector_recipe(
        name="user-reaction",
        heads=(HEAD,),
        examples=_examples,
        dev_figure="macro_f1",
        settings=TrainingSettings(
            batch=32, learning_rate=5e-4, epochs=15, warmup=0.1, weight_decay=0.05, dropout=0.4
        ),
        hidden=(32,),
        activation="gelu",
        about="Says from a user's next turn whether the reply before it pleased.",
        fields={"encoder": {"name": frozen.name, "sha": frozen.sha}},
        kind="reactions.v1",
    )


def _examples(dialogues: Iterable[Dialogue]) -> Iterator[VectorExample]:
    """Take every turn whose meta has a `reaction`, with what it answers."""
    chosen: list[tuple[Exchange, str]] = []
    for dialogue in dialogues:
        every = reactions.exchanges(dialogue, range(len(dialogue.turns)))
        labels = {
            following.turn: number
            for number, following in enumerate(next_turns(dialogue))
            if following.turn is not None
        }
        for answer, reply in labels.items():
            label = dialogue.turns[answer].meta.get("reaction")
            if label is not None:
                if label not in REACTIONS:
                    raise UsageError(f"{dialogue.id}: no reaction {label!r}; known: {', '.join(REACTIONS)}")
                chosen.append((every[reply], str(label)))
    rows = reaction_features([one for one, _ in chosen], Encoder.load(ENCODER)) if chosen else ()
    for row, (_, label) in zip(rows, chosen, strict=True):
        yield VectorExample(row, {HEAD.name: REACTIONS.index(label)})
