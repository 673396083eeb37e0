"""The plan of a batch: shards, and the places of their dialogues in the inputs.

A shard has whole dialogues with about 25,000 turns, from one file or several. Planning reads the inputs once
as a stream and keeps eight bytes of each id, to find duplicates. `make_plan` makes a plan, `check_plan`
compares it with the current call, `read_shard` reads the dialogues of a shard.
"""

import functools
import hashlib
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Annotated

import msgspec

from dialeval import files
from dialeval.dialogues import Dialogue
from dialeval.dialogues.dialogue import content_id
from dialeval.dialogues.formats.positions import Layout, Scan, reread
from dialeval.dialogues.formats.reading import UniqueIds, named
from dialeval.dialogues.formats.tables import TurnColumns
from dialeval.dialogues.formats.writing import to_json
from dialeval.errors import DataError
from dialeval.jobs import runs
from dialeval.jobs.batch.folder import BatchFolder, part_name
from dialeval.manifests import check_listed, write_listed
from dialeval.scores import Scores

TURNS = 25_000
Offset = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
VERSION = "batch.v1"
Watch = Callable[[int], None]
_STEP = 1000  # dialogues between two calls of `watch`


@dataclass(frozen=True)
class PlannedInput:
    """A file of dialogues at the time of planning."""

    layout: Layout
    bytes: int
    sha256: str
    dialogues: int
    turns: int


@dataclass(frozen=True)
class Stretch:
    """A range of dialogues of the input number `file`: its start, and the number of dialogues."""

    file: Offset
    start: Offset
    number: Offset
    dialogues: Offset = 0


@dataclass(frozen=True)
class Shard:
    """The unit of work and of recovery."""

    number: int
    stretches: list[Stretch]
    dialogues: int
    turns: int
    sha256: str
    """The hash of its dialogues as canonical lines."""
    seen: dict[str, int] = field(default_factory=dict)
    """By content hash, how often dialogues without id occurred in earlier shards."""


@dataclass(frozen=True)
class BatchPlan:
    """The complete plan."""

    version: str
    input: str
    metrics: list[str]
    signatures: dict[str, str]
    turns_per_shard: int
    inputs: list[PlannedInput]
    shards: list[Shard]

    @property
    def turns(self) -> int:
        """The number of turns of all inputs."""
        return sum(shard.turns for shard in self.shards)

    def save(self, folder: BatchFolder) -> None:
        """Write the plan, and on a disk its hash to the folder's manifest."""
        data = msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"
        if folder.stored:
            folder.write(runs.RUN, data)
        else:
            write_listed(Path(folder.place), {runs.RUN: data})


def load_plan(folder: BatchFolder) -> BatchPlan | None:
    """Return the plan in a folder, or None."""
    file = folder.path(runs.RUN)
    if not folder.stored:
        check_listed(Path(folder.place), runs.RUN, fix="restore a copy, or choose another folder")
    data = folder.read(runs.RUN)
    if data is None:
        return None
    try:
        plan = _decoded(data)
    except (ValueError, RecursionError) as error:  # also errors of msgspec and UTF-8
        raise DataError(f"not the plan of a batch: {error}", file=file, fix="choose another folder") from None
    if plan.version != VERSION:
        raise DataError(f"a plan of another version: {plan.version}, here {VERSION}", file=file)
    return plan


@functools.lru_cache(maxsize=1)
def _decoded(data: bytes) -> BatchPlan:
    plan = msgspec.json.decode(data, type=BatchPlan)
    numbers = [shard.number for shard in plan.shards]
    named = {stretch.file for shard in plan.shards for stretch in shard.stretches}
    if numbers != list(range(len(numbers))) or not named <= set(range(len(plan.inputs))):
        raise ValueError("shards or inputs are missing")
    return plan


def read_shard(plan: BatchPlan, number: int) -> Iterator[Dialogue]:
    """Yield the dialogues of a shard; raises at the end if the input has changed since planning."""
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


def read_scores(place: str | Path) -> Scores:
    """Return the scores of a finished batch after verifying every part.

    Raises:
        DataError: A part is missing or damaged; names it.
    """
    folder = BatchFolder(str(place))
    plan = load_plan(folder)
    numbers = [shard.number for shard in plan.shards] if plan else []
    for number in numbers:
        folder.check(number)
    return Scores.concat(Scores.read(folder.path(part_name(number))) for number in numbers)


def make_plan(
    paths: Sequence[str],
    metrics: Sequence[str],
    signatures: dict[str, str],
    *,
    name: str,
    turns_per_shard: int,
    format: str | None = None,
    columns: TurnColumns | None = None,
    watch: Watch | None = None,
) -> BatchPlan:
    """Read all inputs once and divide them into shards.

    Raises:
        DataError: Two dialogues have the same id; names both places.
    """
    cutter, inputs = _Cutter(turns_per_shard), list[PlannedInput]()
    ids = _Ids(lambda: _places(paths, format, columns))
    for file, path in enumerate(paths):
        survey, dialogues, turns = Scan(path, format, columns), 0, 0
        for start, number, dialogue in survey:
            ids.add(dialogue, path, number, len(cutter.shards))
            cutter.add(file, start, number, dialogue)
            dialogues += 1
            turns += len(dialogue.turns)
            if watch and dialogues % _STEP == 0:
                watch(_STEP)
        inputs.append(PlannedInput(survey.layout, survey.size, survey.sha256, dialogues, turns))
    cutter.cut()
    ids.ids.check()
    seen = ids.seen()
    shards = [replace(shard, seen=seen.get(shard.number, {})) for shard in cutter.shards]
    return BatchPlan(VERSION, name, list(metrics), signatures, turns_per_shard, inputs, shards)


class _Cutter:
    """Collects dialogues into shards."""

    def __init__(self, most: int) -> None:
        self.most, self.shards = most, list[Shard]()
        self._begin()

    def _begin(self) -> None:
        self.stretches, self.dialogues, self.turns = list[Stretch](), 0, 0
        self.weight, self.digest = 0, hashlib.sha256()

    def add(self, file: int, start: int, number: int, dialogue: Dialogue) -> None:
        if not self.stretches or self.stretches[-1].file != file:
            self.stretches.append(Stretch(file, start, number))
        last = self.stretches[-1]
        self.stretches[-1] = replace(last, dialogues=last.dialogues + 1)
        self.digest.update(to_json(dialogue))
        self.dialogues += 1
        self.turns += len(dialogue.turns)
        self.weight += max(1, len(dialogue.turns))  # dialogues without turns count as well
        if self.weight >= self.most:
            self.cut()

    def cut(self) -> None:
        if self.dialogues:
            shard = Shard(
                len(self.shards), self.stretches, self.dialogues, self.turns, self.digest.hexdigest()
            )
            self.shards.append(shard)
        self._begin()


class _Ids:
    """Finds duplicate ids, and counts generated ids of equal content, in eight bytes each."""

    def __init__(self, again: Callable[[], Iterator[tuple[str, int, str]]]) -> None:
        self.ids, self.made, self.shards = UniqueIds(again), array("Q"), array("L")

    def add(self, dialogue: Dialogue, file: str, number: int, shard: int) -> None:
        if dialogue.id:
            self.ids.add(dialogue.id, file, number)
        else:
            self.made.append(int(content_id(dialogue), 16))
            self.shards.append(shard)

    def seen(self) -> dict[int, dict[str, int]]:
        """Return for each shard the counts of its repeated contents in earlier shards."""
        import numpy as np

        hashes = np.frombuffer(self.made, dtype=np.uint64) if self.made else np.zeros(0, np.uint64)
        values, counts = np.unique(hashes, return_counts=True)
        before, repeats = Counter[str](), defaultdict[int, dict[str, int]](dict)
        latest: dict[str, int] = {}
        for place in np.flatnonzero(np.isin(hashes, values[counts > 1])):
            name, shard = f"{self.made[place]:016x}", int(self.shards[place])
            if name in latest and latest[name] != shard:
                repeats[shard][name] = before[name]
            latest[name] = shard
            before[name] += 1
        return repeats


def _places(
    paths: Sequence[str], format: str | None, columns: TurnColumns | None
) -> Iterator[tuple[str, int, str]]:
    for path in paths:
        for _, number, dialogue in Scan(path, format, columns):
            if dialogue.id:
                yield path, number, dialogue.id


def check_plan(
    plan: BatchPlan,
    paths: Sequence[str],
    signatures: dict[str, str],
    turns_per_shard: int,
    *,
    format: str | None = None,
    columns: TurnColumns | None = None,
    place: object = None,
) -> None:
    """Raise an error that lists the differences if a plan does not match the current call."""
    changes = [
        f"metric {source}: planned {plan.signatures.get(source, 'without it')}, "
        f"now {signatures.get(source, 'without it')}"
        for source in {**plan.signatures, **signatures}
        if plan.signatures.get(source) != signatures.get(source)
    ]
    if plan.turns_per_shard != turns_per_shard:
        changes.append(f"turns per shard: planned {plan.turns_per_shard}, now {turns_per_shard}")
    read = {(planned.layout.format, planned.layout.columns) for planned in plan.inputs}
    if read != {(format, columns)}:
        changes.append("--format or --columns: not as planned")
    changes += _changed_inputs(plan, paths)
    if changes:
        raise DataError(
            f"this batch was planned differently; {'; '.join(changes[:5])}",
            file=place,
            fix="write to another folder, or delete this one to begin again",
        )


def _changed_inputs(plan: BatchPlan, paths: Sequence[str]) -> Iterator[str]:
    planned = {planned_input.layout.path: planned_input for planned_input in plan.inputs}
    yield from (f"input {path} is new" for path in paths if path not in planned)
    yield from (f"input {path} is no longer given" for path in planned if path not in paths)
    if list(planned) != list(paths) and set(planned) == set(paths):
        yield "the inputs come in another order"
    for path in paths:
        if path in planned and files.sha256(path) != planned[path].sha256:
            yield f"input {path} has changed"
