"""The one place where names become recipes: how the trained part of a metric is made.

A recipe is made by a function of the encoder's name: None is the recipe's own choice, any other may change
the kind of network, from a head on a frozen encoder to an encoder that is trained itself. Further arguments
are the recipe's own options, given as a metric's fields are: `name:option=value`. Other packages add
theirs through the entry point `dialeval.recipes`, whose value names such a function.
"""

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dialeval.errors import UsageError
from dialeval.metrics.registry import parse_spec

if TYPE_CHECKING:
    from dialeval.models.training import Recipe

# Built-in recipes by the function that makes them, so that asking for one does not import the others.
_MAKERS = {
    "actbert": "dialeval.metrics.actbert:recipe",
    "coherence": "dialeval.metrics.dialoguescore:open_recipe",
    "dialoguescore": "dialeval.metrics.dialoguescore:recipe",
    "segment-act": "dialeval.metrics.segment_act:recipe",
    "student": "dialeval.metrics.student:recipe",
    "turn-quality": "dialeval.metrics.turn_quality:recipe",
    "user-reaction": "dialeval.metrics.user_reaction:recipe",
}
Maker = Callable[..., "Recipe[Any, Any]"]


@dataclass(frozen=True)
class NamedRecipe:
    """A recipe, the name it was asked for under, and one line that says what it makes."""

    name: str
    what: str
    recipe: "Recipe[Any, Any]"


def recipe_names() -> list[str]:
    """Names of all recipes that can be asked for, those of other packages too.

    >>> {"actbert", "segment-act"} <= set(recipe_names())
    True
    """
    return sorted({*_MAKERS, *_entry_points()})


def recipe(name: str, encoder: str | None = None) -> NamedRecipe:
    """Make a recipe by its name.

    Args:
        name: One of `recipe_names()`, with its options: `name:option=value`.
        encoder: A folder, a shipped or pulled name or a Hub id; None: the recipe's own choice.
    """
    _, short, options = parse_spec(name)
    maker = _maker(short)
    known = [one for one in inspect.signature(maker).parameters if one != "encoder"]
    for key in options:
        if key not in known:
            raise UsageError(
                f"the recipe {short} has no option {key!r}; it has: {', '.join(known) or 'none'}"
            )
    return NamedRecipe(name, _first_line(maker), maker(encoder, **options))


def describe_recipe(name: str) -> dict[str, str]:
    """Say what a recipe makes; one of another package that cannot be imported says why."""
    try:
        return {"name": name, "what": _first_line(_maker(name))}
    except UsageError as error:
        if name not in recipe_names():
            raise
        return {"name": name, "what": str(error)}


def _first_line(maker: Maker) -> str:
    return (maker.__doc__ or "").strip().partition("\n")[0]


def _entry_points() -> dict[str, Any]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group="dialeval.recipes")}


def _maker(name: str) -> Maker:
    """Find the function that makes a recipe; a built-in name is never taken by another package."""
    if name in _MAKERS:
        module, _, function = _MAKERS[name].partition(":")
        built_in: Maker = getattr(importlib.import_module(module), function)
        return built_in
    points = _entry_points()
    if name not in points:
        raise UsageError(f"no recipe called {name!r}; known: {', '.join(recipe_names())}")
    try:
        found = points[name].load()
    except (ImportError, AttributeError) as error:
        raise UsageError(f"the recipe {name!r} is {points[name].value}, which fails: {error}") from None
    if not callable(found):
        raise UsageError(f"the recipe {name!r} is {points[name].value}, which is no function of an encoder")
    maker: Maker = found
    return maker
