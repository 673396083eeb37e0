"""Goals of agents as a TOML file says them: calls that must be made, words that must be said, a final state.

by = "task_id"                                            # the field of a dialogue's meta that names its goal

[goal.refund-1]
calls = [{ name = "refund_order", arguments = { order = "A17" } }]
said = ["12.50"]
state = [{ where = { order = "A17" }, is = { status = "refunded" } }]
"""

import functools
import hashlib
from pathlib import Path
from typing import Any, Literal

import msgspec

from dialeval import files
from dialeval.errors import DataError


class ExpectedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call that must be made; arguments that are not named may be anything."""

    name: str
    arguments: dict[str, Any] = {}


class ExpectedRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"then": "is"}):
    """Fields of a record in the end: the last one that was seen with the fields in `where`."""

    where: dict[str, Any]
    then: dict[str, Any]


class AgentGoal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What must have happened by the end of a dialogue.

    Attributes:
        calls: Calls that change something, all of them, in any order; an empty list: nothing may be changed.
            None: any calls.
        said: Texts that some reply must contain.
        state: Records as they must be in the end.
    """

    calls: tuple[ExpectedCall, ...] | None = None
    said: tuple[str, ...] = ()
    state: tuple[ExpectedRecord, ...] = ()


class GoalFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of goals.

    Attributes:
        goal: Goals by name.
        by: The field of a dialogue's meta that names its goal; by default its id does, or `scenario` or
            `task_id` in its meta.
        writes: Names or patterns of tools that change something, where the verb does not say it.
        reads: Those that change nothing.
        extra: Whether calls that change something and are not expected `fail` the goal, or are ignored.
        free: Arguments that may have any value.
    """

    goal: dict[str, AgentGoal]
    by: str | None = None
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    extra: Literal["fail", "ignore"] = "fail"
    free: tuple[str, ...] = ()


@functools.lru_cache(maxsize=8)
def _read(path: str, _: tuple[int, int]) -> tuple[GoalFile, str]:
    with files.open_binary(path) as file:
        data = file.read()
    try:
        made = msgspec.toml.decode(data, type=GoalFile)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise DataError(f"not a file of goals: {error}", file=path, fix="see docs/metrics/goal.md") from None
    for name, goal in made.goal.items():
        if goal.calls is None and not goal.said and not goal.state:
            raise DataError(
                "nothing is expected", file=path, field=f"goal.{name}", fix="calls, said or state"
            )
    return made, hashlib.sha256(data).hexdigest()[:12]


def read_goals(path: str | Path) -> tuple[GoalFile, str]:
    """Read a file of goals; return it and 12 digits of its hash."""
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        raise DataError("no such file of goals", file=str(path), fix="see docs/metrics/goal.md") from None
    return _read(str(path), (found.st_mtime_ns, found.st_size))
