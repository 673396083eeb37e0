"""What other packages add, by entry points named `dialeval.<kind>`.

| kind | what the entry point names |
|---|---|
| `metrics` | a module that registers a metric of that name with `@dialeval.metric` |
| `recipes` | a function of an encoder's name that returns a recipe |
| `formats` | a `RecordShape` of that name |
| `sets` | a `PublicSet` of that name |
| `systems` | a function of messages that returns a reply |
| `schemes` | the path of a TOML file |
| `exporters` | a function of a run folder and a name |

A name that dialeval has itself is never taken by another package.
"""

import sys
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from dialeval.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


def plugins(kind: str, ours: Iterable[str] = ()) -> "dict[str, EntryPoint]":
    """Return the entry points of one kind by their names, without those whose names are our own.

    >>> plugins("no-such-kind")
    {}
    """
    taken = frozenset(ours)
    return {name: point for name, point in _points(kind, tuple(sys.path)).items() if name not in taken}


@cache
def _points(kind: str, _path: tuple[str, ...]) -> "dict[str, EntryPoint]":
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=f"dialeval.{kind}")}


def load_plugin(point: "EntryPoint", expected: type[T]) -> T:
    """Import what an entry point names; what cannot be used is an error that names it and its package."""
    package = point.dist.name if point.dist else "a package"
    subject = f"the {point.group.removeprefix('dialeval.').removesuffix('s')} {point.name!r} is {point.value}"
    fix = f"it is of {package}: mend that, or uninstall it"
    try:
        loaded: Any = point.load()
    except Exception as error:  # whatever somebody's module does when it is imported
        raise UsageError(f"{subject}, which fails: {error} ({fix})") from None
    if not isinstance(loaded, expected):
        raise UsageError(f"{subject}, which is no {expected.__name__} ({fix})")
    if getattr(loaded, "name", point.name) != point.name and expected.__module__.startswith("dialeval."):
        raise UsageError(f"{subject}, which calls itself {loaded.name!r} ({fix})")  # type: ignore[attr-defined]
    return loaded
