"""Make the plan of a batch, and see whether a plan that is there still holds."""

import hashlib
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from dialeval import files
from dialeval.dialogues import Dialogue
from dialeval.dialogues.dialogue import content_id
from dialeval.dialogues.formats.stretches import Survey
from dialeval.dialogues.formats.tables import TurnColumns
from dialeval.dialogues.formats.writing import to_json
from dialeval.errors import DataError
from dialeval.jobs.batch.shards import VERSION, Input, Plan, Shard, Stretch, with_seen

Watch = Callable[[int], None]
_STEP = 1000  # dialogues between two signs of life


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
) -> Plan:
    """Read all inputs once and cut them into shards.

    Raises:
        DataError: Two dialogues have one id; names both places.
    """
    cutter, ids, inputs = _Cutter(turns_per_shard), _Ids(), list[Input]()
    for file, path in enumerate(paths):
        survey, dialogues, turns = Survey(path, format, columns), 0, 0
        for start, number, dialogue in survey:
            ids.add(dialogue, len(cutter.shards))
            cutter.add(file, start, number, dialogue)
            dialogues += 1
            turns += len(dialogue.turns)
            if watch and dialogues % _STEP == 0:
                watch(_STEP)
        inputs.append(Input(survey.layout, survey.size, survey.sha256, dialogues, turns))
        ids.check(lambda: _places(paths, format, columns))
    cutter.cut()
    ids.check(lambda: _places(paths, format, columns), at_last=True)
    shards = with_seen(cutter.shards, ids.seen())
    return Plan(VERSION, name, list(metrics), signatures, turns_per_shard, inputs, shards)


class _Cutter:
    """Takes dialogues one after the other and closes a shard when it is full."""

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
        self.weight += max(1, len(dialogue.turns))  # a million dialogues without turns are work, too
        if self.weight >= self.most:
            self.cut()

    def cut(self) -> None:
        if self.dialogues:
            made = Shard(
                len(self.shards), self.stretches, self.dialogues, self.turns, self.digest.hexdigest()
            )
            self.shards.append(made)
        self._begin()


class _Ids:
    """Ids in eight bytes each: finds duplicates, and counts those that are made from equal content."""

    def __init__(self) -> None:
        self.hashes, self.made, self.shards, self.check_at = array("q"), array("Q"), array("L"), 4096

    def add(self, dialogue: Dialogue, shard: int) -> None:
        if dialogue.id:
            self.hashes.append(hash(dialogue.id))
        else:
            self.made.append(int(content_id(dialogue), 16))
            self.shards.append(shard)

    def check(self, places: Callable[[], Iterator[tuple[str, int, str]]], *, at_last: bool = False) -> None:
        """Refuse two dialogues with one id; looked at when their number has doubled, and at last."""
        import numpy as np

        if not self.hashes or not (at_last or len(self.hashes) >= self.check_at):
            return
        self.check_at = 2 * len(self.hashes)
        hashes = np.frombuffer(self.hashes, dtype=np.int64)
        hashes.sort()
        same = np.flatnonzero(hashes[1:] == hashes[:-1])
        if len(same):
            twice = int(hashes[same[0]])
            found = [place for place in places() if hash(place[2]) == twice]
            (first, line, _), (path, second, name) = found[0], found[-1]
            raise DataError(
                f"the id {name!r} was already used in {first}:{line}",
                file=path,
                line=second,
                field="id",
                fix="ids must be unique over all inputs; leave them out to have them made",
            )

    def seen(self) -> dict[int, dict[str, int]]:
        """Say for every shard how often the contents in it came in shards before it, where they did."""
        import numpy as np

        made = np.frombuffer(self.made, dtype=np.uint64) if self.made else np.zeros(0, np.uint64)
        values, counts = np.unique(made, return_counts=True)
        before, found = Counter[str](), defaultdict[int, dict[str, int]](dict)
        latest: dict[str, int] = {}
        for place in np.flatnonzero(np.isin(made, values[counts > 1])):
            name, shard = f"{self.made[place]:016x}", int(self.shards[place])
            if name in latest and latest[name] != shard:
                found[shard][name] = before[name]
            latest[name] = shard
            before[name] += 1
        return found


def _places(
    paths: Sequence[str], format: str | None, columns: TurnColumns | None
) -> Iterator[tuple[str, int, str]]:
    for path in paths:
        for _, number, dialogue in Survey(path, format, columns):
            if dialogue.id:
                yield path, number, dialogue.id


def check_plan(
    plan: Plan,
    paths: Sequence[str],
    signatures: dict[str, str],
    turns_per_shard: int,
    *,
    format: str | None = None,
    columns: TurnColumns | None = None,
    place: object = None,
) -> None:
    """Refuse to go on with a plan that was made for something else, and say what has changed."""
    changes = [
        f"metric {source}: planned {plan.signatures.get(source, 'without it')}, "
        f"now {signatures.get(source, 'without it')}"
        for source in {**plan.signatures, **signatures}
        if plan.signatures.get(source) != signatures.get(source)
    ]
    if plan.turns_per_shard != turns_per_shard:
        changes.append(f"turns per shard: planned {plan.turns_per_shard}, now {turns_per_shard}")
    read = {(one.layout.format, one.layout.columns) for one in plan.inputs}
    if read != {(format, columns)}:
        changes.append("--format or --columns: another one than was planned")
    changes += _changed_inputs(plan, paths)
    if changes:
        raise DataError(
            f"this batch was begun with something else; {'; '.join(changes[:5])}",
            file=place,
            fix="write to another folder, or delete this one to begin again",
        )


def _changed_inputs(plan: Plan, paths: Sequence[str]) -> Iterator[str]:
    planned = {one.layout.path: one for one in plan.inputs}
    yield from (f"input {path} is new" for path in paths if path not in planned)
    yield from (f"input {path} is no longer given" for path in planned if path not in paths)
    if list(planned) != list(paths) and set(planned) == set(paths):
        yield "the inputs come in another order"
    for path in paths:
        if path in planned and files.sha256(path) != planned[path].sha256:
            yield f"input {path} has changed"
