"""Bit flips in every kind of file that dialeval writes and reads again: found, or without effect.

For each file of each kind, bits are flipped one at a time, each in a fresh copy, and everything is done with
the copy that commands do. A flip is *found* if that ends in an error that names the trouble, or if the number
comes with another signature (votes and corpora are named there by their hash); *harmless* if all that is read
is as before; anything else is *wrong*. `DIALEVAL_FLIPS` makes it longer.
"""

import functools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import specimens
import tiny_artefacts

from dialeval.dialogues import dialogue, formats
from dialeval.errors import DialevalError

FLIPS = int(os.environ.get("DIALEVAL_FLIPS", "100"))
CHATS = [
    dialogue(
        [("user", f"Where is stop {n}?"), ("assistant", f"Right here, at number {n}."), ("user", "Thanks!")],
        f"d{n}",
        system=f"bot-{n % 2}",
    )
    for n in range(8)
]


@dataclass(frozen=True)
class Kind:
    """How a file or folder is made, what is done with it, and a command that reads it."""

    make: Callable[[Path], object]
    use: Callable[[Path], object]
    command: tuple[str, ...] = ()
    unread: frozenset[str] = frozenset()


# --- what is written, and all that is read of it ------------------------------------------------------------


def make_run(place: Path) -> None:
    from dialeval.jobs.runs import Run
    from dialeval.jobs.scoring import score_to
    from dialeval.scores import Score, Scores
    from dialeval.studies import study

    score_to(CHATS, ["length", "floweval:corpus=examples"], place, explain=True)
    given = Scores.of([Score(d.id, 1, d.system, "human:ann", "overall", n % 5) for n, d in enumerate(CHATS)])
    run = Run(place)
    run.add(study(Scores.concat([run.scores(), given]), resamples=50, permutations=50), given)


def use_run(place: Path) -> object:
    from dialeval.jobs.runs import Run, study_input
    from dialeval.metrics.explanation import to_json

    run, given = Run(place), study_input([place])
    study = run.study()
    reasons = [to_json(one) for one in run.explanations()]
    read = [list(run.scores()), run.scores().signatures, list(run.dialogues()), run.info(), reasons]
    return [*read, study and study.to_json(), given.runs, list(given.scores), list(formats.read(place))]


def make_batch(place: Path) -> None:
    from dialeval.jobs.batch.batch import prepare

    log = specimens.room() / "batch-log.jsonl"  # it is read again by name: the copies share it
    formats.write(CHATS, log)
    with prepare([str(log)], ["length"], str(place), turns_per_shard=9) as batch:
        batch.run(workers=1)


def use_batch(place: Path) -> object:
    from dialeval.jobs.runs import Run

    run = Run(place)
    scores, info = run.scores(), run.info()
    return list(scores), scores.signatures, list(formats.read(place)), info


def make_index(place: Path) -> None:
    from dialeval.models.index import Index

    said = [f"a cheap hotel by the river, {n}" for n in range(40)]
    columns: dict[str, Any] = {"words": said, "where": np.random.default_rng(0).normal(size=(40, 8))}
    Index.build(place, [d for d, _ in enumerated(40)], columns, documents=[d for _, d in enumerated(40)])
    extra: dict[str, Any] = {"words": ["late"], "where": np.ones((1, 8))}
    Index.open(place).add(["late"], extra, documents=[b'{"id": "late", "messages": []}'])


def enumerated(count: int) -> list[tuple[str, bytes]]:
    return [(f"d{n}", b'{"id": "d%d", "messages": []}' % n) for n in range(count)]


def use_index(place: Path) -> object:
    from dialeval.models.index import Index

    index = Index.open(place)
    queries = np.random.default_rng(1).normal(size=(20, 8))
    found = [index.search(queries, 5, column="where"), index.search(["cheap", "late"], 50, column="words")]
    return [*found, list(index.ids), index.documents(list(index.ids)), index.sha]


def make_cache(place: Path) -> None:
    from dialeval.models.cache import DiskCache, key

    with DiskCache(place, 1 << 22) as cache:
        cache.store([key("flip", str(n)) for n in range(60)], [vector(n) for n in range(60)])


def vector(number: int) -> Any:
    return np.random.default_rng(number).normal(size=96).astype(np.float32)


def use_cache(place: Path) -> object:
    """An entry that is lost is computed again: the same number, so what is missing is as good as there."""
    from dialeval.models.cache import DiskCache, key

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it goes on without the file
        with DiskCache(place, 1 << 22) as cache:
            found = cache.fetch([key("flip", str(n)) for n in range(60)])
    return [vector(n) if one is None else one for n, one in enumerate(found)]


def make_project(place: Path) -> None:
    study = specimens.annotated(place)
    study.add(["bob"])
    study.close()


def use_project(place: Path) -> object:
    from dialeval.annotation import AnnotationProject
    from dialeval.annotation.export import exports_of, rendered
    from dialeval.annotation.monitoring import overlaps
    from dialeval.annotation.project import snapshot

    project = AnnotationProject(place)
    try:
        seen = snapshot(project)
        with project.store.reading() as db:
            log = [tuple(row) for row in db.execute("SELECT * FROM log ORDER BY number")]
            seats = [tuple(row) for row in db.execute("SELECT * FROM seats ORDER BY item, rater")]
        made = [rendered(seen, name) for name in exports_of(project.scheme) if not name.endswith("parquet")]
        return [
            *made,
            seen.rater_answers,
            seen.wanted,
            seen.people,
            project.people(),
            overlaps(project),
            log,
            seats,
        ]
    finally:
        project.close()


def make_votes(place: Path) -> None:
    from dialeval.dialogues.votes import Vote, write_votes

    write_votes([Vote(d.id, 1, rater, d.turns[1].text) for d in CHATS for rater in ("ann", "bob")], place)


def use_votes(place: Path) -> object:
    from dialeval.metrics import score

    scores = score(CHATS, [f"weak-agreement:votes={place}"])
    return Signed(str(scores.signatures["weak-agreement"]), list(scores))


@dataclass(frozen=True)
class Signed:
    """A result that says of itself what it was made from."""

    signature: str
    result: object


def artefact_kind(name: str) -> Kind:
    source = functools.partial(lambda kind: tiny_artefacts.artefacts()[kind], name)
    return Kind(lambda place: shutil.copytree(source(), place), lambda place: tiny_artefacts.use(name, place))


KINDS: dict[str, Kind] = {
    "run folder": Kind(make_run, use_run, ("report", "{}")),
    "batch": Kind(make_batch, use_batch, ("check", "{}", "--against", "{}")),
    "index": Kind(make_index, use_index),
    "cache": Kind(make_cache, use_cache),
    "study.db": Kind(make_project, use_project, ("annotate", "{}", "--links")),
    "votes": Kind(make_votes, use_votes),
    **{f"artefact {name}": artefact_kind(name) for name in ("encoder.v1", "pair-scorer.v1", "blend.v2")},
}


# --- flipping -----------------------------------------------------------------------------------------------


def told(value: object) -> str:
    """Write anything that is read so that equal texts mean equal values."""
    if isinstance(value, np.ndarray):
        return f"{value.shape}{value.dtype}{value.tobytes().hex()}"
    if isinstance(value, dict):
        return str([(key, told(item)) for key, item in value.items()])
    if isinstance(value, list | tuple):
        return str([told(item) for item in value])
    return repr(value)


def files_of(place: Path) -> list[Path]:
    inside = sorted(one for one in place.rglob("*") if one.is_file()) if place.is_dir() else [place]
    return [one for one in inside if one.stat().st_size and not one.name.startswith(".")]


def flips(data: bytes, seed: str) -> Iterator[bytes]:
    """Yield the bytes with one bit flipped: anywhere, and three times as often where something is written."""
    chance = random.Random(seed)
    written = [place for place, byte in enumerate(data) if byte]
    for _ in range(FLIPS):
        place = chance.choice(written) if written and chance.random() < 0.75 else chance.randrange(len(data))
        bit = 8 * place + chance.randrange(8)
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)


def outcome(kind: Kind, place: Path, expected: object) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = kind.use(place)
    except DialevalError as error:
        return "found" if str(error) and "\n" not in str(error) else "wrong"
    except Exception as error:  # a traceback for whoever runs the command
        return f"wrong ({type(error).__name__})"
    if isinstance(found, Signed) and isinstance(expected, Signed) and found.signature != expected.signature:
        return "found"
    return "harmless" if told(found) == told(expected) else "wrong"


def copied(whole: Path, name: str) -> Path:
    place = Path(tempfile.mkdtemp(dir=specimens.memory(), prefix="dialeval-flip-")) / name
    shutil.copytree(whole, place) if whole.is_dir() else shutil.copyfile(whole, place)
    return place


@pytest.mark.soak
@pytest.mark.parametrize("name", KINDS)
def test_a_flipped_bit_is_found_or_without_effect(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, whole = KINDS[name], tmp_path / "made"
    kind.make(whole)
    first = copied(whole, whole.name)
    expected = kind.use(first)
    shutil.rmtree(first.parent)
    table: dict[str, Counter[str]] = {}
    commands = 0
    for path in files_of(whole):
        relative = path.relative_to(whole)
        counts = table.setdefault(str(relative), Counter())
        for changed in flips(path.read_bytes(), f"{name} {relative}"):
            place = copied(whole, whole.name)
            (place / relative if place.is_dir() else place).write_bytes(changed)
            seen = outcome(kind, place, expected)
            counts[seen] += 1
            if seen == "found" and kind.command and counts["found"] == 1:
                commands += ends_in_one_line(kind, place)
            shutil.rmtree(place.parent)
    every = sum(table.values(), Counter())
    with capsys.disabled():
        figures = ", ".join(f"{word} {every[word]}" for word in ("found", "harmless", "wrong"))
        print(f"\n{name}: {len(table)} files, {every.total()} flips: {figures}; {commands} commands tried")
        for relative, counts in table.items():
            if any(word.startswith("wrong") for word in counts):
                print(f"  {relative}: {dict(counts)}")
    assert {word for word in every if word.startswith("wrong")} == set()


def ends_in_one_line(kind: Kind, place: Path) -> int:
    """See that the command line says what is wrong in one line and ends with 1, or does not read the file."""
    words = [sys.executable, "-c", "from dialeval.cli import main; main()"]
    words += [word.replace("{}", str(place)) for word in kind.command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode in (0, 1)
    if done.returncode:
        assert done.stderr.count("\n") == 1, done.stderr
    return 1
