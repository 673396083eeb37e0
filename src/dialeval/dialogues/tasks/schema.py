"""The declaration of a task in TOML: domains, slots, placeholders and rules."""

import hashlib
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import msgspec

from dialeval import files
from dialeval.errors import DataError

T = TypeVar("T")
Way: TypeAlias = Literal["equal", "close", "at-least", "at-most"]
_HERE = Path(__file__).parent
SHIPPED = {"multiwoz": _HERE / "multiwoz.toml", "example": _HERE / "example" / "task.toml"}
"""Declarations in the package; the data of `multiwoz` are not included."""


class TaskRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The evaluation choices that figures depend on.

    Attributes:
        venues: Whether `all` venues that a reply may refer to must match the goal, or `any` of them.
        offers: Which mention counts: the `last`, or `narrowest`, which keeps an earlier one as long as all
            its venues are also among the later ones.
        times: Whether a time of day is `read` from free text (`after 5 pm`), or `exact`: HH:MM only.
        booked: Whether a booking's reference counts as soon as it is `said`, or only if all `slots` of the
            booking are filled, or if the logged dialogue was booked at this reply (`logged`).
    """

    venues: Literal["all", "any"] = "all"
    offers: Literal["narrowest", "last"] = "narrowest"
    times: Literal["read", "exact"] = "read"
    booked: Literal["logged", "slots", "said"] = "said"


class Files(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files of a task, relative to its folder; only the goals are required."""

    goals: str
    booked: str | None = None
    states: str | None = None
    references: str | None = None


class Domain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One domain of a task.

    Attributes:
        table: File of venues (JSON, JSONL or CSV). A domain without one always counts as informed.
        id: Column with the id of a venue.
        offer: Placeholder by which a reply names a venue.
        told: Slots by which a goal names the venue itself, so that there is nothing to inform.
        optional: Whether no offer is needed where the goal does not ask for `offer`.
        slots: Columns a user can wish for, and how a wish is compared with a cell.
        other: Slots that are valid but in no table.
        booking: Slots that a booking requires.
        reference: Placeholder that only a booking can provide.
    """

    table: str | None = None
    id: str = "id"
    offer: str | None = None
    told: tuple[str, ...] = ()
    optional: bool = False
    slots: dict[str, Way] = {}
    other: tuple[str, ...] = ()
    booking: tuple[str, ...] = ()
    reference: str | None = None


class TaskSchema(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A task as declared.

    Attributes:
        any: Wishes that every venue matches.
        blank: Cells that match every wish.
        prefixes: Prefixes of placeholders, as in `[value_name]`, beside the names of domains.
        placeholders: The placeholders of replies, and their other spellings.
        slots: Other names of slots.
        spellings: For a slot, other spellings of its values.
    """

    name: str
    files: Files
    domain: dict[str, Domain]
    rules: TaskRules = TaskRules()
    any: tuple[str, ...] = ("dontcare",)
    blank: tuple[str, ...] = ("?",)
    prefixes: tuple[str, ...] = ("value",)
    placeholders: dict[str, tuple[str, ...]] = {}
    slots: dict[str, tuple[str, ...]] = {}
    spellings: dict[str, dict[str, tuple[str, ...]]] = {}


def open_schema(name: str) -> tuple[TaskSchema, Path, str]:
    """Return a declaration, by its shipped name or its path, its file, and 12 digits of its hash.

    >>> schema, path, sha = open_schema("example")
    >>> schema.name, path.name, len(sha), list(schema.domain)
    ('example', 'task.toml', 12, ['cafe', 'boat', 'police'])
    """
    path = SHIPPED.get(name, Path(name))
    schema, sha = read_toml(path, TaskSchema, "not a declaration of a task", "see docs/tasks.md")
    _check(schema, path)
    return schema, path, sha


def read_toml(path: Path, shape: type[T], problem: str, fix: str) -> tuple[T, str]:
    """Return a TOML file as a value of the type `shape`, and 12 digits of its hash."""
    with files.open_binary(path) as file:
        data = file.read()
    try:
        return msgspec.toml.decode(data, type=shape), hashlib.sha256(data).hexdigest()[:12]
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise DataError(f"{problem}: {error}", file=path, fix=fix) from None


def _check(schema: TaskSchema, path: Path) -> None:
    """Raise a DataError if a declaration lacks a placeholder or a file that it refers to."""
    for name, domain in schema.domain.items():
        for key in ("offer", "reference"):
            placeholder = getattr(domain, key)
            if placeholder is not None and placeholder not in schema.placeholders:
                raise DataError(
                    f"unknown placeholder {placeholder!r}; known: {', '.join(schema.placeholders) or 'none'}",
                    file=path,
                    field=f"domain.{name}.{key}",
                    fix="add it under [placeholders]",
                )
        if domain.table is not None and domain.offer is None:
            raise DataError(
                "a domain with a table needs a placeholder for the venue",
                file=path,
                field=f"domain.{name}.offer",
            )
    if schema.rules.booked == "logged" and schema.files.booked is None:
        raise DataError(
            'booked = "logged" needs a file of bookings',
            file=path,
            field="files.booked",
            fix='name it, or choose "slots" or "said"',
        )
