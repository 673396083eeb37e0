"""The data of a training run: training set, dev set, and the test overlap filter.

A source is anything that `formats.read` takes: files, folders, patterns, run folders, a folder of ActDial's
JSON files (or one of them), or a public set. `NAME` or `set:NAME` is its training portion, by the split
manifest, and its dev portion is used as dev set; `NAME/dev` is that portion alone, as training data. For sets
with turn ratings, the mean rating of a turn, scaled to 0 to 1, is the `label` in its meta. `NAME/text` is the
text of the test portion without ratings, for recipes that learn from users' next turns. It is then no longer
test data for the trained model; test data of other sets that share its text still are. For a set that has
only a test portion, `NAME/all` is that portion with its dialogue ratings as `feedback`: the model must be
tested on other sets, and the artefact records the set.
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
    """A source of dialogues: its training, dev and test dialogues, None where it has none.

    `public` names a public set and its portion, `text_of` a set whose test portion is trained on. `licence`
    and `note` are for the card.
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

    `rows` are for the card: a source's name, its licence and its number of dialogues. `in_dev_too` is the
    number of training dialogues that were left out because their text is in the dev set.
    """

    train: list[Dialogue] = field(default_factory=list)
    dev: list[Dialogue] = field(default_factory=list)
    rows: list[tuple[str, str, str]] = field(default_factory=list)
    in_dev_too: int = 0


def source_of(text: str) -> DialogueSource:
    """Return the source of a name or path; dialogues are read later."""
    if text == "-":
        raise UsageError("training cannot read a pipe: a resumed run reads its files again")
    if chosen := formats.public_part(text):
        return _portion(text, chosen[0], chosen[1] or "")
    path = Path(text)
    paths = [Path(name) for name in formats.source_files(text)]  # raises if there is no such file
    if any(map(holds_segments, paths)):
        return _actdial(text, path)
    read = functools.partial(formats.read, text)
    return DialogueSource(text, path.resolve().name, "not stated", _hashes(paths, path), read)


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
        raise UsageError(f"{text}: test data must not be trained on; use set:{name}")
    if role not in ("", "train", "dev", "text", "all"):
        raise UsageError(f"{text}: expected set:{name}, set:{name}/train, set:{name}/dev or set:{name}/text")
    split, dataset = splits.split_of(name), public_set(name)
    if role == "text" and not split.test:
        raise UsageError(f"{text}: {name} has no test portion; use set:{name}")
    if role == "all" and (split.train or not split.test):
        raise UsageError(f"{text}: {name} has a training portion; use set:{name}")
    dataset.path()  # raises if it is missing
    called, note = f"{name}/{role}" if role else name, f"{dataset.title}, from {dataset.home}"
    make = functools.partial(DialogueSource, text, called, dataset.licence, public=called)
    if role == "text":
        words = functools.partial(splits.portion, name, "test")
        return make(f"no ratings; {note}", words, text_of=name)
    if role == "all":
        return make(f"with its ratings; {note}", functools.partial(_rated, name), text_of=name)
    parts: dict[str, Dialogues | None] = {
        part: functools.partial(_labelled, name, part) if getattr(split, part) else None
        for part in ("train", "dev")
    }
    return make(note, parts[role]) if role else make(note, parts["train"], parts["dev"])


def _labelled(name: str, role: str) -> Iterator[Dialogue]:
    """Yield a portion, with the mean rating of a turn, scaled to 0 to 1, as its label."""
    dataset = public_set(name)
    gold = next((dimension for dimension in dataset.golds if dimension.level == "turn"), None)
    ratings: dict[tuple[str, int], list[float]] = {}
    for row in (
        dataset.ratings().where(dimension=gold.dimension, level="turn") if gold and dataset.rate else ()
    ):
        if row.value is not None and row.turn is not None:
            ratings.setdefault((row.dialogue_id, row.turn), []).append(row.value)
    ends = [end for values in ratings.values() for end in (min(values), max(values))] or [0.0]
    low, extent = min(ends), (max(ends) - min(ends)) or 1.0
    for dialogue in splits.portion(name, role):  # type: ignore[arg-type]
        turns = [
            msgspec.structs.replace(
                turn, meta={**turn.meta, "label": (sum(values) / len(values) - low) / extent}
            )
            if (values := ratings.get((dialogue.id, number)))
            else turn
            for number, turn in enumerate(dialogue.turns)
        ]
        yield msgspec.structs.replace(dialogue, turns=tuple(turns))


def _rated(name: str) -> Iterator[Dialogue]:
    """Yield the test portion with the mean rating of each dialogue, by dimension, as its feedback."""
    dataset = public_set(name)
    ratings: dict[str, dict[str, list[float]]] = {}
    for row in dataset.ratings().where(level="dialogue") if dataset.rate else ():
        if row.value is not None:
            ratings.setdefault(row.dialogue_id, {}).setdefault(row.dimension, []).append(row.value)
    for dialogue in splits.portion(name, "test"):
        feedback = {key: sum(values) / len(values) for key, values in ratings.get(dialogue.id, {}).items()}
        yield msgspec.structs.replace(dialogue, feedback={**dialogue.feedback, **feedback})


def _actdial(text: str, path: Path) -> DialogueSource:
    """Return ActDial's segments, divided by the ids of dialogues; training data where an id names no part."""
    parts: dict[str, list[Dialogue]] = {"train": [], "dev": [], "test": []}
    for dialogue in read_dialogues(path):
        parts[part_of(dialogue.id) or "train"].append(dialogue)
    inside = [file for file in sorted(path.rglob("*.json")) if not file.name.startswith(".")]
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
    result = TrainingSplit()
    for source in dev:
        dialogues = _read(source, source.dev or source.train, watch)
        result.dev += dialogues
        result.rows.append((source.name, source.licence, f"{len(dialogues):,} dev dialogues; {source.note}"))
    own_dev = {} if dev else {source.text: _own_dev(source, watch) for source in sources}
    result.dev += [dialogue for dialogues in own_dev.values() for dialogue in dialogues]
    dev_texts = splits.Fingerprints.of(result.dev)
    for source in sources:
        dialogues = _read(source, source.train, watch)
        disjoint = [dialogue for dialogue in dialogues if not dev_texts.match(dialogue)]
        n_both, n_dev = len(dialogues) - len(disjoint), len(own_dev.get(source.text, ()))
        result.train += disjoint
        result.in_dev_too += n_both
        notes = [f"{len(disjoint):,} training dialogues"]
        notes += [f"{n_both:,} left out because they are in the dev set"] if n_both else []
        notes += [f"{n_dev:,} dev dialogues"] if n_dev else []
        result.rows.append((source.name, source.licence, "; ".join([*notes, source.note])))
    if not result.train:
        raise DataError(
            f"all {result.in_dev_too} training dialogues are in the dev set too", fix="give others"
        )
    return result


def _check(sources: Sequence[DialogueSource]) -> None:
    names = [source.text for source in sources]
    for source in sources:
        if names.count(source.text) > 1:
            raise UsageError(f"{source.text} is given twice")
        if source.train is None:
            fix = f"{source.text}/dev" if source.public and source.dev else "another source"
            raise UsageError(f"{source.text} has no training data; use {fix}")


def _own_dev(source: DialogueSource, watch: Watch) -> list[Dialogue]:
    """Return the dev dialogues of a source; none if the file of its dev part is missing."""
    try:
        return _read(source, source.dev, watch) if source.dev else []
    except MissingPartError:
        return []


def _read(source: DialogueSource, stream: Dialogues | None, watch: Watch) -> list[Dialogue]:
    dialogues = []
    for dialogue in stream() if stream else ():
        dialogues.append(dialogue)
        watch("dialogues read", 1)
    if not dialogues:
        raise DataError("no dialogues", file=source.text, fix="name a source with dialogues")
    return dialogues


def read_tests(name: str) -> Iterator[Dialogue]:
    """Yield the test dialogues of a public set.

    Raises:
        MissingPartError: If they are not on this machine.
    """
    if not (data_folder() / public_set(name).folder).is_dir():
        raise MissingPartError(f"the public set {name!r} was not found")
    yield from splits.portion(name, "test")


class TestOverlap:
    """Fingerprints of the test dialogues on this machine: dialogues that match one are not trained on.

    `read` names the sets that were found, `absent` those that are not on this machine.
    """

    __test__ = False  # pytest: not a test

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
    """Read the available test portions, once in a process: a tuning run trains many times."""
    fingerprints, read, count = splits.Fingerprints(), [], 0
    for name in names:
        try:
            for dialogue in read_tests(name):
                fingerprints.add(dialogue)
                count += 1
        except MissingPartError:
            continue
        read.append(name)
    return fingerprints, tuple(read), count
