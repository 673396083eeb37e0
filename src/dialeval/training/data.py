"""The data of a training run: training set, dev set, and the test overlap filter.

A source is whatever `formats.read` takes: files, folders, patterns, run folders, a folder of ActDial's JSON
files (or one of them), or a public set. `NAME` or `set:NAME` is its training portion, by the split manifest,
which brings its dev portion along; `NAME/dev` is that portion alone, as training data. Where people rated its
turns, the mean rating of a turn, scaled to 0 to 1, is the `label` in its meta. `NAME/text` is the text of the
test portion without any ratings, for recipes that learn from users' next turns. It is then no longer test
data for the model that was trained on it; test data of other sets that share its text still are. Of a set
that has nothing but a test portion, `NAME/all` is that portion with its ratings of dialogues as `feedback`:
whoever learns from it measures on something else, and the artefact says what it has seen.
"""

import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from dialeval import files
from dialeval.dialogues import Dialogue, formats, splits
from dialeval.dialogues.datasets import data_folder, public_set
from dialeval.dialogues.datasets.publicset import MissingPartError
from dialeval.dialogues.formats.actdial import holds_segments, part_of, read_dialogues
from dialeval.errors import DataError, UsageError
from dialeval.training.recipe import Watch

Dialogues = Callable[[], Iterable[Dialogue]]


@dataclass(frozen=True)
class DialogueSource:
    """Where dialogues come from: its training, dev and test dialogues, None where it has none.

    `public` names a public set and its portion, `text_of` a set whose test portion is trained on without its
    ratings. `licence` and `note` are for the card.
    """

    text: str
    name: str
    licence: str
    note: str
    train: Dialogues | None
    dev: Dialogues | None = None
    test: Dialogues = tuple
    public: str | None = None
    text_of: str | None = None


@dataclass
class TrainingSplit:
    """Training and dev dialogues; without any of the latter, a tenth of the former will be held out.

    `rows` are for the card: a source's name, its licence and how much was taken of it. `in_dev_too` training
    dialogues were left out because their text is in the dev set.
    """

    train: list[Dialogue] = field(default_factory=list)
    dev: list[Dialogue] = field(default_factory=list)
    rows: list[tuple[str, str, str]] = field(default_factory=list)
    in_dev_too: int = 0


def source_of(text: str) -> DialogueSource:
    """Return the source that a text names, without reading more of it than that takes."""
    if text == "-":
        raise UsageError("training reads files, which can be read again when it is resumed; not a pipe")
    if chosen := formats.public_part(text):
        return _portion(text, chosen[0], chosen[1] or "")
    path = Path(text)
    held = [Path(one) for one in formats.source_files(text)]  # complains if there is no such file
    if any(map(holds_segments, held)):
        return _actdial(text, path)
    read = functools.partial(formats.read, text)
    return DialogueSource(text, path.resolve().name, "not stated", _hashes(held, path), read)


def _hashes(paths: Sequence[Path], folder: Path) -> str:
    """Return the hash of a file, or one over the hashes of several."""
    if len(paths) == 1:
        return f"sha256 {files.sha256(paths[0])}"
    names = [path.relative_to(folder) if path.is_relative_to(folder) else path for path in paths]
    lines = (f"{files.sha256(path)}  {name.as_posix()}\n" for path, name in zip(paths, names, strict=True))
    together = hashlib.sha256("".join(lines).encode()).hexdigest()
    return f"files: {len(paths)}; sha256 of their sha256sum lines {together}"


def _portion(text: str, name: str, role: str) -> DialogueSource:
    if role == "test":
        raise UsageError(f"{text}: test data is measured on, never trained on; take set:{name}")
    if role not in ("", "train", "dev", "text", "all"):
        raise UsageError(f"{text}: expected set:{name}, set:{name}/train, set:{name}/dev or set:{name}/text")
    split, found = splits.split_of(name), public_set(name)
    found.path()  # complains if it is not there
    called, note = f"{name}/{role}" if role else name, f"{found.title}, from {found.home}"
    made = functools.partial(DialogueSource, text, called, found.licence, public=called)
    if role == "text":
        if not split.test:
            raise UsageError(f"{text}: {name} has no test portion; take set:{name}")
        words = functools.partial(splits.portion, name, "test")
        return made(f"no ratings; {note}", words, text_of=name)
    if role == "all":
        if split.train or not split.test:
            raise UsageError(f"{text}: {name} has a training portion; take set:{name}")
        return made(f"with its ratings; {note}", functools.partial(_rated, name), text_of=name)
    parts: dict[str, Dialogues | None] = {
        one: functools.partial(_labelled, name, one) if getattr(split, one) else None
        for one in ("train", "dev")
    }
    return made(note, parts[role]) if role else made(note, parts["train"], parts["dev"])


def _labelled(name: str, role: str) -> Iterator[Dialogue]:
    """Yield a portion, with the mean rating of a turn, scaled to 0 to 1, as its label."""
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


def _rated(name: str) -> Iterator[Dialogue]:
    """Yield the test portion with the mean rating of each dialogue, by dimension, as its feedback."""
    found = public_set(name)
    given: dict[str, dict[str, list[float]]] = {}
    for row in found.ratings().where(level="dialogue") if found.rate else ():
        if row.value is not None:
            given.setdefault(row.dialogue_id, {}).setdefault(row.dimension, []).append(row.value)
    for one in splits.portion(name, "test"):
        told = {key: sum(some) / len(some) for key, some in given.get(one.id, {}).items()}
        yield msgspec.structs.replace(one, feedback={**one.feedback, **told})


def _actdial(text: str, path: Path) -> DialogueSource:
    """Read segments of ActDial, divided as the names of dialogues say; without a split, as training data."""
    parts: dict[str, list[Dialogue]] = {"train": [], "dev": [], "test": []}
    for dialogue in read_dialogues(path):
        parts[part_of(dialogue.id) or "train"].append(dialogue)
    inside = [one for one in sorted(path.rglob("*.json")) if not one.name.startswith(".")]
    return DialogueSource(
        text,
        path.resolve().name,
        public_set("actdial").licence,
        _hashes(inside or [path], path),
        (lambda: parts["train"]) if parts["train"] else None,
        (lambda: parts["dev"]) if parts["dev"] else None,
        lambda: parts["test"],
    )


def read_split(
    sources: Sequence[DialogueSource], dev: Sequence[DialogueSource], watch: Watch
) -> TrainingSplit:
    """Read all sources; training dialogues whose text is in the dev set are left out."""
    _check(sources)
    made = TrainingSplit()
    for source in dev:
        some = _read(source, source.dev or source.train, watch)
        made.dev += some
        made.rows.append((source.name, source.licence, f"{len(some):,} dev dialogues; {source.note}"))
    own = {} if dev else {one.text: _own_dev(one, watch) for one in sources}
    made.dev += [dialogue for some in own.values() for dialogue in some]
    known = splits.Fingerprints.of(made.dev)
    for source in sources:
        some = _read(source, source.train, watch)
        kept = [dialogue for dialogue in some if not known.match(dialogue)]
        both, held = len(some) - len(kept), len(own.get(source.text, ()))
        made.train += kept
        made.in_dev_too += both
        told = [f"{len(kept):,} training dialogues"]
        told += [f"{both:,} left out, being in the dev set"] if both else []
        told += [f"{held:,} dev dialogues"] if held else []
        made.rows.append((source.name, source.licence, "; ".join([*told, source.note])))
    if not made.train:
        raise DataError(f"all {made.in_dev_too} training dialogues are in the dev set too", fix="give others")
    return made


def _check(sources: Sequence[DialogueSource]) -> None:
    names = [source.text for source in sources]
    for source in sources:
        if names.count(source.text) > 1:
            raise UsageError(f"{source.text} is given twice")
        if source.train is None:
            fix = f"{source.text}/dev" if source.public and source.dev else "another source"
            raise UsageError(f"{source.text} has nothing to train on; take {fix}")


def _own_dev(source: DialogueSource, watch: Watch) -> list[Dialogue]:
    """Read the dev dialogues of a source; a published part whose file is not here is passed over."""
    try:
        return _read(source, source.dev, watch) if source.dev else []
    except MissingPartError:
        return []


def _read(source: DialogueSource, stream: Dialogues | None, watch: Watch) -> list[Dialogue]:
    found = []
    for dialogue in stream() if stream else ():
        found.append(dialogue)
        watch("dialogues read", 1)
    if not found:
        raise DataError("no dialogue in it", file=source.text, fix="name a source that holds dialogues")
    return found


def read_tests(name: str) -> Iterator[Dialogue]:
    """Yield the test dialogues of a public set.

    Raises:
        MissingPartError: If they are not on this machine.
    """
    if not (data_folder() / public_set(name).folder).is_dir():
        raise MissingPartError(f"the set {name!r} is not there")
    yield from splits.portion(name, "test")


class TestOverlap:
    """The test dialogues on this machine, by their text: no dialogue that matches one is trained on.

    `read` names the sets that were found, `absent` those that are not on this machine.
    """

    __test__ = False  # for pytest, which takes the name for a test's

    def __init__(
        self, sources: Sequence[DialogueSource], watch: Watch, without: Sequence[DialogueSource] = ()
    ) -> None:
        trained = {source.text_of for source in sources}
        names = tuple(name for name in splits.test_sets() if name not in trained)
        here = tuple(name for name in names if (data_folder() / public_set(name).folder).is_dir())
        public, read, count = _public_tests(here, data_folder())
        if count:
            watch("test dialogues read", count)
        self.read, self.fingerprints = list(read), public.copy()
        self.absent = [name for name in names if name not in read]
        streams = [source.test for source in sources]
        for source in without:
            streams += [stream for stream in (source.train, source.dev, source.test) if stream]
            self.read.append(source.text)
        for stream in streams:
            for dialogue in stream():
                self.fingerprints.add(dialogue)
                watch("test dialogues read", 1)


@functools.lru_cache(maxsize=1)
def _public_tests(names: tuple[str, ...], _: Path) -> tuple[splits.Fingerprints, tuple[str, ...], int]:
    """Read the test portions that are there, once in a process: a tuning run trains many times."""
    made, read, count = splits.Fingerprints(), [], 0
    for name in names:
        try:
            for dialogue in read_tests(name):
                made.add(dialogue)
                count += 1
        except MissingPartError:
            continue
        read.append(name)
    return made, tuple(read), count
