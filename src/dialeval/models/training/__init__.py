"""Training: examples, a network, one plain loop. Needs the extra `[train]`.

A recipe says how examples are made from dialogues, which heads learn from them and which dev figure counts
(`recipe`). `fit` trains and survives a kill (`loop`); `export_pair` and `export_vectors` make an artefact
that scores without torch (`export`). torch is imported when something is trained, not before.
"""

from dialeval.models.heads import Head
from dialeval.models.training.examples import PairExample, VectorExample
from dialeval.models.training.export import card_of, export_pair, export_vectors
from dialeval.models.training.loop import Trained, fit
from dialeval.models.training.networks import VectorNetwork
from dialeval.models.training.pair_network import PairNetwork
from dialeval.models.training.progress import Step
from dialeval.models.training.recipe import PairRecipe, Provenance, Recipe, Result, VectorRecipe, train
from dialeval.models.training.run import predict
from dialeval.models.training.settings import Settings
from dialeval.models.training.turn_recipe import turn_recipe

__all__ = [
    "Head",
    "PairExample",
    "PairNetwork",
    "PairRecipe",
    "Provenance",
    "Recipe",
    "Result",
    "Settings",
    "Step",
    "Trained",
    "VectorExample",
    "VectorNetwork",
    "VectorRecipe",
    "card_of",
    "export_pair",
    "export_vectors",
    "fit",
    "predict",
    "train",
    "turn_recipe",
]
