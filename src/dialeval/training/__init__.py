"""Training: dialogues to models. Nothing that scores imports this room.

A recipe defines how examples are made from dialogues, which heads are trained on them and which dev figure
decides (`recipe`; by name, `registry`). Linear heads are fitted by ridge regression with numpy alone
(`ridge`); networks are trained by one loop that resumes after a kill (`loop`) and need the extra `[train]`.
`export` writes an artefact that scores without torch. `tuning` chooses the fields of a metric, `blending` the
weights of `quality`.
"""

from dialeval.models.heads import Head
from dialeval.training.checkpoint import Trained
from dialeval.training.examples import PairExample, VectorExample
from dialeval.training.export import card_of, export
from dialeval.training.loop import Step, fit, predict
from dialeval.training.networks import PairNetwork, VectorNetwork
from dialeval.training.recipe import (
    Provenance,
    Recipe,
    Result,
    pair_recipe,
    train,
    turn_recipe,
    vector_recipe,
)
from dialeval.training.settings import TrainingSettings

__all__ = [
    "Head",
    "PairExample",
    "PairNetwork",
    "Provenance",
    "Recipe",
    "Result",
    "Step",
    "Trained",
    "TrainingSettings",
    "VectorExample",
    "VectorNetwork",
    "card_of",
    "export",
    "fit",
    "pair_recipe",
    "predict",
    "train",
    "turn_recipe",
    "vector_recipe",
]
