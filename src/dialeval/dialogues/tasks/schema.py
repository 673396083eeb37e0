"""The declaration of a task: domains, slots, placeholders and rules, as a TOML file says them."""

import hashlib
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from dialeval import files
from dialeval.errors import DataError

Way: TypeAlias = Literal["equal", "close", "at-least", "at-most"]
_HERE = Path(__file__).parent
SHIPPED = {"multiwoz": _HERE / "multiwoz.toml", "example": _HERE / "example" / "task.toml"}
"""Declarations that come with the package; the data of `multiwoz` do not."""


class TaskRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The choices on which figures depend.

    Attributes:
        venues: Whether `all` venues that a reply may mean must fit the goal, or `any` of them.
        offers: Which mention counts: the `last`, or `narrowest`, which keeps an earlier one as long as all
            that it may mean are also among the later ones.
        times: Whether a time of day is `read` from what people write (`after 5 pm`), or `exact`: HH:MM only.
        booked: Whether the number of a booking counts as soon as it is `said`, or only where all `slots` of
            the booking are filled, or where the log that the dialogue is taken from was booked (`logged`).
    """

    venues: Literal["all", "any"] = "all"
    offers: Literal["narrowest", "last"] = "narrowest"
    times: Literal["read", "exact"] = "read"
    booked: Literal["logged", "slots", "said"] = "said"


class Files(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the data of a task are, relative to its folder; only the goals must be there."""

    goals: str
    booked: str | None = None
    states: str | None = None
    references: str | None = None


class Domain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of thing a user may want.

    Attributes:
        table: File of venues (JSON, JSONL or CSV). A domain without one has nothing to find: it is informed.
        id: Column that tells venues apart.
        offer: Placeholder by which a reply names a venue.
        told: Slots by which a goal names the venue itself, so that there is nothing to inform.
        optional: Whether it is enough not to offer anything, where the goal does not ask for `offer`.
        slots: Columns a user can wish for, and how a wish fits a cell.
        other: Slots that are known but in no table.
        booking: Slots that a booking needs.
        reference: Placeholder that only a booking can give.
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
        any: Wishes that every venue fits.
        blank: Cells that fit every wish.
        prefixes: What may stand before a placeholder's name, `[value_name]`, beside the names of domains.
        placeholders: What a reply can give, and how else it is written.
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
    """Read a declaration by its shipped name or its path; return it, its file, and 12 digits of its hash.

    >>> schema, path, sha = open_schema("example")
    >>> schema.name, path.name, len(sha), list(schema.domain)
    ('example', 'task.toml', 12, ['cafe', 'boat', 'police'])
    """
    path = SHIPPED.get(name, Path(name))
    with files.open_binary(path) as file:
        data = file.read()
    try:
        schema = msgspec.toml.decode(data, type=TaskSchema)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise DataError(f"not a declaration of a task: {error}", file=path, fix="see docs/tasks.md") from None
    _check(schema, path)
    return schema, path, hashlib.sha256(data).hexdigest()[:12]


def _check(schema: TaskSchema, path: Path) -> None:
    """Refuse a declaration that names a placeholder it does not have."""
    for name, domain in schema.domain.items():
        for key in ("offer", "reference"):
            wanted = getattr(domain, key)
            if wanted is not None and wanted not in schema.placeholders:
                raise DataError(
                    f"no placeholder {wanted!r}; there are: {', '.join(schema.placeholders) or 'none'}",
                    file=path,
                    field=f"domain.{name}.{key}",
                    fix="add it under [placeholders]",
                )
        if domain.table is not None and domain.offer is None:
            raise DataError(
                "a domain with a table needs the placeholder that names a venue",
                file=path,
                field=f"domain.{name}.offer",
            )
    if schema.rules.booked == "logged" and schema.files.booked is None:
        raise DataError(
            'booked = "logged" needs the file that says it',
            file=path,
            field="files.booked",
            fix='name it, or choose "slots" or "said"',
        )
