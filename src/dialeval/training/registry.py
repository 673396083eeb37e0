"""Recipes by name.

A recipe is made by a function of the encoder's name: None is the recipe's default; another encoder may change
the kind of network, from a head on a frozen encoder to a fine-tuned encoder. Further arguments are the
recipe's options, given like a metric's fields: `name:option=value`. Plugins register such a function under
the entry point `dialeval.recipes`.
"""

import importlib
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dialeval.errors import UsageError
from dialeval.metrics.registry import parse_spec
from dialeval.plugins import load_plugin, plugins

if TYPE_CHECKING:
    from dialeval.training.recipe import Recipe

# Functions of the built-in recipes, by name, so that one is imported without the others.
_MAKERS = {
    "actbert": "dialeval.training.actbert_recipe:recipe",
    "bert-ruber": "dialeval.training.baseline_recipes:bert_ruber",
    "coherence": "dialeval.training.coherence_recipe:open_recipe",
    "dialoguescore": "dialeval.training.coherence_recipe:recipe",
    "dynaeval": "dialeval.training.baseline_recipes:dynaeval",
    "flow-score": "dialeval.training.baseline_recipes:flow_score",
    "pone": "dialeval.training.baseline_recipes:pone",
    "predictive-engagement": "dialeval.training.baseline_recipes:predictive_engagement",
    "ruber": "dialeval.training.baseline_recipes:ruber",
    "faults": "dialeval.training.faults_recipe:recipe",
    "outcome": "dialeval.training.outcome_recipe:recipe",
    "segment-act": "dialeval.training.segment_recipes:recipe",
    "segmenter": "dialeval.training.segment_recipes:segmenter",
    "span-act": "dialeval.training.segment_recipes:span_act",
    "student": "dialeval.training.student_recipe:recipe",
    "turn-quality": "dialeval.training.turn_quality_recipe:recipe",
    "user-reaction": "dialeval.training.turn_quality_recipe:user_reaction",
}
Maker = Callable[..., "Recipe"]


def recipe_names() -> list[str]:
    """Return the names of all recipes, including those of plugins.

    >>> {"actbert", "segment-act"} <= set(recipe_names())
    True
    """
    return sorted({*_MAKERS, *plugins("recipes")})


def recipe(name: str, encoder: str | None = None) -> "Recipe":
    """Return the recipe of this name.

    Args:
        name: One of `recipe_names()`, with its options: `name:option=value`.
        encoder: A folder, a shipped or pulled name or a Hub id; None: the recipe's own choice.
    """
    _, short, options = parse_spec(name)
    maker = _maker(short)
    option_names = [key for key in inspect.signature(maker).parameters if key != "encoder"]
    for key in options:
        if key not in option_names:
            raise UsageError(
                f"the recipe {short} has no option {key!r}; it has: {', '.join(option_names) or 'none'}"
            )
    return maker(encoder, **options)


def describe_recipe(name: str) -> dict[str, str]:
    """Return name and description of a recipe; for one that cannot be imported, the reason."""
    try:
        return {"name": name, "what": (_maker(name).__doc__ or "").strip().partition("\n")[0]}
    except UsageError as error:
        if name not in recipe_names():
            raise
        return {"name": name, "what": str(error)}


def _maker(name: str) -> Maker:
    """Return the function that makes a recipe; a plugin cannot replace a built-in one."""
    if name in _MAKERS:
        module, _, function = _MAKERS[name].partition(":")
        built_in: Maker = getattr(importlib.import_module(module), function)
        return built_in
    plugin_recipes = plugins("recipes")
    if name not in plugin_recipes:
        raise UsageError(f"unknown recipe {name!r}; known: {', '.join(recipe_names())}")
    loaded: Any = load_plugin(plugin_recipes[name], object)
    if not callable(loaded):
        raise UsageError(f"the recipe {name!r} is {plugin_recipes[name].value}, which is not a function")
    maker: Maker = loaded
    return maker
