"""What a model learns from: files, run folders, folders of ActDial and public sets, as lists of dialogues.

A source is a file of dialogues in any known format, a run folder, a folder of ActDial's JSON files (or one
of them), or `set:NAME`: the training portion of a public set, by the split manifest, which brings its dev
portion along; `set:NAME/dev` is that portion alone, to learn from. Where people rated its turns, the mean of
what they said, from 0 to 1, is the `label` in the turn's meta. `set:NAME/text` is what was said in the test
portion, without what anybody thought of it: for learning from users, who are no raters. It is then no longer
test data for what was trained on it; test data of other sets that share its text still are.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from dialeval import files
from dialeval.dialogues import Dialogue, formats, splits
from dialeval.dialogues.datasets import NAMES, data_folder, public_set
from dialeval.dialogues.datasets.actdial import holds_segments, part_of, read_dialogues
from dialeval.dialogues.datasets.publicset import MissingPartError
from dialeval.errors import DataError, UsageError
from dialeval.jobs import runs

Watch = Callable[[str, int], None]
Dialogues = Callable[[], Iterable[Dialogue]]
_SET = "set:"


@dataclasses.dataclass(frozen=True)
class Source:
    """Where dialogues come from.

    `choose` are those it sets aside for choosing, None if it sets none aside; `unseen` is test data of its
    own; `read` is a set whose test portion it is. `licence` and `note` are for the card.
    """

    text: str
    name: str
    licence: str
    note: str
    learn: Dialogues | None
    choose: Dialogues | None = None
    unseen: Dialogues = tuple
    read: str | None = None


@dataclasses.dataclass
class Material:
    """What was read: to learn from, and to choose by (empty: a tenth of the former).

    `rows` are for the card: a source's name, its licence and what was taken of it.
    `in_both` dialogues were to learn from, but their text is among those to choose by: they are left out.
    """

    learn: list[Dialogue] = dataclasses.field(default_factory=list)
    choose: list[Dialogue] = dataclasses.field(default_factory=list)
    rows: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)
    in_both: int = 0


def source_of(text: str) -> Source:
    """Find out what a source is, without reading more of it than that takes."""
    if text.startswith(_SET):
        return _portion(text)
    path = Path(text)
    if text == "-":
        raise UsageError("training reads files, which can be read again when it is resumed; not a pipe")
    if runs.is_run(path):
        held = path / runs.DIALOGUES
        return Source(text, path.resolve().name, "not stated", _hashed(held), runs.Run(path).dialogues)
    if path.is_dir() or holds_segments(path):
        return _actdial(text, path)
    note = _hashed(path)  # complains if there is no such file
    return Source(text, path.name, "not stated", note, functools.partial(formats.read, path))


def _hashed(path: Path) -> str:
    return f"sha256 {files.sha256(path)}"


def _portion(text: str) -> Source:
    name, _, role = text.removeprefix(_SET).partition("/")
    if name not in NAMES:
        raise UsageError(f"{text}: no public set called {name!r}; known: {', '.join(NAMES)}")
    if role == "test":
        raise UsageError(f"{text}: test data is measured on, never trained on; take set:{name}")
    if role not in ("", "train", "dev", "text"):
        raise UsageError(f"{text}: expected set:{name}, set:{name}/train, set:{name}/dev or set:{name}/text")
    split, found = splits.split_of(name), public_set(name)
    found.path()  # complains if it is not there
    told = f"{found.title}, from {found.home}"
    if role == "text":
        if not split.test:
            raise UsageError(f"{text}: {name} has no test portion; take set:{name}")
        words = functools.partial(splits.portion, name, "test")
        return Source(text, f"{name}/text", found.licence, f"no ratings; {told}", words, read=name)
    parts: dict[str, Dialogues | None] = {
        one: functools.partial(_labelled, name, one) if getattr(split, one) else None
        for one in ("train", "dev")
    }
    if role:
        return Source(text, f"{name}/{role}", found.licence, told, parts[role])
    return Source(text, name, found.licence, told, parts["train"], parts["dev"])


def _labelled(name: str, role: str) -> Iterator[Dialogue]:
    """Yield a portion, with the mean of what people said of a turn as its label, from 0 to 1."""
    found = public_set(name)
    gold = next((one for one in found.golds if one.level == "turn"), None)
    given: dict[tuple[str, int], list[float]] = {}
    for row in found.ratings().where(dimension=gold.dimension, level="turn") if gold and found.rate else ():
        if row.value is not None and row.turn is not None:
            given.setdefault((row.dialogue_id, row.turn), []).append(row.value)
    ends = [end for some in given.values() for end in (min(some), max(some))] or [0.0]
    low, extent = min(ends), (max(ends) - min(ends)) or 1.0
    for dialogue in splits.portion(name, role):  # type: ignore[arg-type]
        turns = [
            msgspec.structs.replace(turn, meta={**turn.meta, "label": (sum(some) / len(some) - low) / extent})
            if (some := given.get((dialogue.id, number)))
            else turn
            for number, turn in enumerate(dialogue.turns)
        ]
        yield msgspec.structs.replace(dialogue, turns=tuple(turns))


def _actdial(text: str, path: Path) -> Source:
    """Read segments of ActDial, divided as the names of dialogues say; without a split, to learn from."""
    inside = [one for one in sorted(path.rglob("*.json")) if not one.name.startswith(".")]
    if path.is_dir() and not inside:
        fix = "name a file of dialogues, a run folder, or a folder with the JSON files of ActDial"
        raise DataError("no dialogues in this folder", file=path, fix=fix)
    parts: dict[str, list[Dialogue]] = {"train": [], "dev": [], "test": []}
    for dialogue in read_dialogues(path):
        parts[part_of(dialogue.id) or "train"].append(dialogue)
    sums = "".join(f"{files.sha256(one)}  {one.relative_to(path).as_posix()}\n" for one in inside)
    together = (
        f"files: {len(inside)}; sha256 of their sha256sum lines {hashlib.sha256(sums.encode()).hexdigest()}"
    )
    return Source(
        text,
        path.resolve().name,
        public_set("actdial").licence,
        together if inside else _hashed(path),
        (lambda: parts["train"]) if parts["train"] else None,
        (lambda: parts["dev"]) if parts["dev"] else None,
        lambda: parts["test"],
    )


def read_material(sources: Sequence[Source], dev: Sequence[Source], watch: Watch) -> Material:
    """Read all sources; a dialogue whose text is among those to choose by is not learned from."""
    _check(sources)
    made = Material()
    for source in dev:
        some = _read(source, source.choose or source.learn, watch)
        made.choose += some
        made.rows.append(
            (source.name, source.licence, f"{len(some):,} dialogues to choose by; {source.note}")
        )
    aside = {} if dev else {one.text: _aside(one, watch) for one in sources}
    made.choose += [dialogue for some in aside.values() for dialogue in some]
    known = splits.Fingerprints.of(made.choose)
    for source in sources:
        some = _read(source, source.learn, watch)
        kept = [dialogue for dialogue in some if not known.match(dialogue)]
        both, own = len(some) - len(kept), len(aside.get(source.text, ()))
        made.learn += kept
        made.in_both += both
        told = [f"{len(kept):,} dialogues to learn from"]
        told += [f"{both:,} left out, being among those to choose by"] if both else []
        told += [f"{own:,} to choose by"] if own else []
        made.rows.append((source.name, source.licence, "; ".join([*told, source.note])))
    if not made.learn:
        raise DataError(
            f"all {made.in_both} dialogues to learn from are also among those to choose by", fix="give others"
        )
    return made


def _check(sources: Sequence[Source]) -> None:
    names = [source.text for source in sources]
    for source in sources:
        if names.count(source.text) > 1:
            raise UsageError(f"{source.text} is given twice")
        if source.learn is None:
            fix = f"{source.text}/dev" if source.text.startswith(_SET) and source.choose else "another source"
            raise UsageError(f"{source.text} has nothing to train on; take {fix}")


def _aside(source: Source, watch: Watch) -> list[Dialogue]:
    """Read what a source sets aside; a published part whose file is not here is passed over."""
    try:
        return _read(source, source.choose, watch) if source.choose else []
    except MissingPartError:
        return []


def _read(source: Source, stream: Dialogues | None, watch: Watch) -> list[Dialogue]:
    found = []
    for dialogue in stream() if stream else ():
        found.append(dialogue)
        watch("dialogues read", 1)
    if not found:
        raise DataError("no dialogue in it", file=source.text, fix="name a source that holds dialogues")
    return found


class Guard:
    """The test dialogues that are here, so that nothing which shares their text is learned from."""

    def __init__(self, sources: Sequence[Source], watch: Watch, without: Sequence[Source] = ()) -> None:
        self._sources, self._watch, self._without = sources, watch, without
        self.read: list[str] = []
        self.absent: list[str] = []

    def dialogues(self) -> Iterator[Dialogue]:
        """Yield them, and keep account of which sets are not on this machine."""
        learned = {source.read for source in self._sources}
        for name in splits.test_sets():
            if name in learned:
                continue
            here = (data_folder() / public_set(name).folder).is_dir()
            try:
                yield from self._counted(splits.portion(name, "test") if here else ())
            except MissingPartError:
                here = False
            (self.read if here else self.absent).append(name)
        for source in self._sources:
            yield from self._counted(source.unseen())
        for source in self._without:
            for stream in (source.learn, source.choose, source.unseen):
                yield from self._counted(stream() if stream else ())
            self.read.append(source.text)

    def _counted(self, dialogues: Iterable[Dialogue]) -> Iterator[Dialogue]:
        for dialogue in dialogues:
            yield dialogue
            self._watch("test dialogues read", 1)
