"""Goals of agents, declared in TOML: required calls, required words, and a final state.

by = "task_id"                                   # the field of a dialogue's meta with the name of its goal

[goal.refund-1]
calls = [{ name = "refund_order", arguments = { order = "A17" } }]
said = ["12.50"]
state = [{ where = { order = "A17" }, is = { status = "refunded" } }]
"""

import functools
from pathlib import Path
from typing import Any, Literal

import msgspec

from dialeval.dialogues.tasks.schema import read_toml
from dialeval.errors import DataError


class ExpectedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A required call; arguments that are not named may have any value."""

    name: str
    arguments: dict[str, Any] = {}


class ExpectedRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"then": "is"}):
    """Required fields of a record at the end: of the last record with the fields in `where`."""

    where: dict[str, Any]
    then: dict[str, Any]


class AgentGoal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The conditions that must hold at the end of a dialogue.

    Attributes:
        calls: All calls that change something, in any order; an empty list: nothing may be changed. None: any
            calls.
        said: Texts that must occur in some reply.
        state: Required records at the end.
    """

    calls: tuple[ExpectedCall, ...] | None = None
    said: tuple[str, ...] = ()
    state: tuple[ExpectedRecord, ...] = ()


class GoalFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of goals.

    Attributes:
        goal: Goals by name.
        by: The field of a dialogue's meta with the name of its goal; by default its id is the name, or
            `scenario` or `task_id` in its meta.
        writes: Names or patterns of tools that change something, where their verb does not show it.
        reads: Names or patterns of tools that change nothing.
        extra: Whether unexpected calls that change something `fail` the goal, or are ignored.
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
    goals, sha = read_toml(Path(path), GoalFile, "not a file of goals", "see docs/metrics/goal.md")
    for name, goal in goals.goal.items():
        if goal.calls is None and not goal.said and not goal.state:
            raise DataError("empty goal", file=path, field=f"goal.{name}", fix="give calls, said or state")
    return goals, sha


def read_goals(path: str | Path) -> tuple[GoalFile, str]:
    """Return a file of goals and 12 digits of its hash."""
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        raise DataError("no such file of goals", file=str(path), fix="see docs/metrics/goal.md") from None
    return _read(str(path), (status.st_mtime_ns, status.st_size))
