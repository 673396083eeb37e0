"""The plan of a batch: which dialogues are scored together, and where they lie.

A shard is whole dialogues, about 25,000 turns of them, from one file or several. Planning reads the inputs
once, as a stream; all that it keeps of a dialogue is eight bytes of its id, to find one that stands twice.
"""

import functools
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Annotated

import msgspec

from dialeval.dialogues import Dialogue
from dialeval.dialogues.formats.reading import named
from dialeval.dialogues.formats.stretches import Layout, reread
from dialeval.dialogues.formats.writing import to_json
from dialeval.errors import DataError
from dialeval.jobs import runs
from dialeval.jobs.batch.folder import BatchFolder

TURNS = 25_000
Place = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
VERSION = "batch.v1"


@dataclass(frozen=True)
class Input:
    """A file of dialogues, as it was when it was planned."""

    layout: Layout
    bytes: int
    sha256: str
    dialogues: int
    turns: int


@dataclass(frozen=True)
class Stretch:
    """Neighbouring dialogues of one input, the `file`-th: where they start, and how many they are."""

    file: Place
    start: Place
    number: Place
    dialogues: Place = 0


@dataclass(frozen=True)
class Shard:
    """The unit of work: what is scored by one worker in one go."""

    number: int
    stretches: list[Stretch]
    dialogues: int
    turns: int
    sha256: str
    """Of the dialogues as they were read, one canonical line each."""
    seen: dict[str, int] = field(default_factory=dict)
    """How often the content of a dialogue without an id came in earlier shards, where it did."""


@dataclass(frozen=True)
class Plan:
    """All that a worker has to know."""

    version: str
    input: str
    metrics: list[str]
    signatures: dict[str, str]
    turns_per_shard: int
    inputs: list[Input]
    shards: list[Shard]

    @property
    def turns(self) -> int:
        """All turns of all inputs."""
        return sum(shard.turns for shard in self.shards)

    def save(self, folder: BatchFolder) -> None:
        """Write the plan to its folder."""
        folder.write(runs.RUN, msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")


def load_plan(folder: BatchFolder) -> Plan | None:
    """Read the plan of a folder; None if there is none yet."""
    data = folder.read(runs.RUN)
    if data is None:
        return None
    try:
        plan = _decoded(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(
            f"not the plan of a batch: {error}", file=folder.path(runs.RUN), fix="choose another folder"
        ) from None
    if plan.version != VERSION:
        raise DataError(
            f"a plan of another version: {plan.version}, here {VERSION}", file=folder.path(runs.RUN)
        )
    numbers = [shard.number for shard in plan.shards]
    named = {stretch.file for shard in plan.shards for stretch in shard.stretches}
    if numbers != list(range(len(numbers))) or not named <= set(range(len(plan.inputs))):
        raise DataError(
            "not the plan of a batch: shards or inputs are missing",
            file=folder.path(runs.RUN),
            fix="choose another folder",
        )
    return plan


@functools.lru_cache(maxsize=1)
def _decoded(data: bytes) -> Plan:
    return msgspec.json.decode(data, type=Plan)


def read_shard(plan: Plan, number: int) -> Iterator[Dialogue]:
    """Yield the dialogues of a shard; an input that is no longer what was planned is an error at the end."""
    shard, digest = plan.shards[number], hashlib.sha256()
    nameless = Counter(shard.seen)
    count = 0
    for stretch in shard.stretches:
        layout = plan.inputs[stretch.file].layout
        for dialogue in islice(reread(layout, stretch.start, stretch.number), stretch.dialogues):
            digest.update(to_json(dialogue))
            count += 1
            yield dialogue if dialogue.id else named(dialogue, nameless)
    if digest.hexdigest() != shard.sha256:
        names = ", ".join({plan.inputs[stretch.file].layout.path: None for stretch in shard.stretches})
        raise DataError(
            f"shard {number} is no longer what was planned ({count} dialogues, planned {shard.dialogues})",
            file=names,
            fix="the input has changed: plan again in another folder",
        )


def with_seen(shards: list[Shard], seen: dict[int, dict[str, int]]) -> list[Shard]:
    """Tell shards what came before them."""
    return [replace(shard, seen=seen.get(shard.number, {})) for shard in shards]


def batch_dialogues(folder: str | Path) -> Iterator[Dialogue]:
    """Yield all dialogues of a batch again, shard by shard, from where they lie."""
    if (plan := load_plan(BatchFolder(str(folder)))) is not None:
        for shard in plan.shards:
            yield from read_shard(plan, shard.number)
