"""Sets of follow-ups: what users say after something good and after something bad, by dimension, as TOML."""

import functools
import hashlib
import json
import tomllib
from dataclasses import dataclass
from importlib.resources import files as resources
from pathlib import Path
from typing import Any, Literal

from dialeval import files
from dialeval.errors import DataError

_SHIPPED = ("followups", "fed_followups")
_MOST = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class ReactionSet:
    """Friendly and annoyed follow-ups for one dimension, and where they are asked for."""

    dimension: str
    positive: tuple[str, ...]
    negative: tuple[str, ...]
    level: Literal["turn", "dialogue"] | None = None

    def counts_at(self, turn: int | None) -> bool:
        """Say whether the dimension is one of turns, or of whole dialogues, as asked."""
        return self.level is None or self.level == ("dialogue" if turn is None else "turn")


def load_sets(name: str) -> tuple[ReactionSet, ...]:
    """Read sets by shipped name or from a TOML file.

    >>> [len(load_sets("followups")[0].positive), len(load_sets("followups")[0].negative)]
    [11, 17]

    Raises:
        DataError: The file is none, or not as it should be; names the place.
    """
    if name in _SHIPPED:
        return _shipped(name)
    with files.open_binary(Path(name).absolute()) as file:
        text = file.read(_MOST + 1)
    if len(text) > _MOST:
        raise DataError(f"more than {_MOST} bytes", file=name)
    try:
        entries = tomllib.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"not TOML: {error}", file=name) from None
    if not entries:
        raise DataError("no dimension in it", file=name, fix="[quality] with positive and negative")
    return tuple(_checked(name, dimension, entry) for dimension, entry in entries.items())


def sets_mark(name: str) -> str:
    """Name sets in signatures by their content; what cannot be read keeps its name."""
    try:
        found = [[one.dimension, one.positive, one.negative, one.level] for one in load_sets(name)]
    except DataError:
        return name
    digest = hashlib.sha256(json.dumps(found, ensure_ascii=True).encode()).hexdigest()[:12]
    return f"{name}@{digest}" if name in _SHIPPED else digest


@functools.cache
def _shipped(name: str) -> tuple[ReactionSet, ...]:
    text = (resources("dialeval.metrics") / f"{name}.toml").read_text(encoding="utf-8")
    return tuple(_checked(name, dimension, entry) for dimension, entry in tomllib.loads(text).items())


def _checked(file: str, dimension: str, entry: Any) -> ReactionSet:
    def fail(message: str, field: str = dimension) -> DataError:
        return DataError(message, file=file, field=field)

    if not isinstance(entry, dict):
        raise fail("expected a table with positive and negative")
    if unknown := entry.keys() - {"positive", "negative", "level"}:
        raise fail("not known here", f"{dimension}.{min(unknown)}")
    sides = []
    for side in ("positive", "negative"):
        said = entry.get(side, [])
        if not isinstance(said, list) or not all(isinstance(one, str) and one.strip() for one in said):
            raise fail("expected a list of texts", f"{dimension}.{side}")
        sides.append(tuple(said))
    if not any(sides):
        raise fail("neither positive nor negative follow-ups")
    if entry.get("level") not in (None, "turn", "dialogue"):
        raise fail("expected turn or dialogue", f"{dimension}.level")
    return ReactionSet(dimension, sides[0], sides[1], entry.get("level"))
