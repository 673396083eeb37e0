"""What a hostile review did, again: two killed at once, full disks, inputs without end, names that bite.

Bit flips are in `test_mutation_soak.py`, slow clients in `tests/annotation/test_connections.py`, and the kill
loops of the cache, which two processes share as well, in `test_cache_soak.py`.
"""

import gzip
import json
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from dialeval.dialogues import formats
from dialeval.errors import DataError
from dialeval.jobs.demo import example_dialogues, example_ratings

pytestmark = pytest.mark.soak
KILLS = 12
COMMAND = [sys.executable, "-c", "from dialeval.cli import main; main()"]


# --- two processes at one folder, both killed ---------------------------------------------------------------

COMMON = """
import itertools, sys
from pathlib import Path
import numpy as np
from dialeval.errors import BusyError, DialevalError
place, who = Path(sys.argv[1]), int(sys.argv[2])
def again(change):
    print("ready", flush=True)
    for number in itertools.count(1):
        try:
            change(number)
            print(number, flush=True)
        except DialevalError as error:  # the other one is at it, or was first
            if not isinstance(error, BusyError) and "has written it meanwhile" not in str(error):
                raise
"""
WORKERS = {
    "study in a run folder": """
from dialeval.jobs.runs import Run
from dialeval.scores import Score, Scores
from dialeval.studies import Study
run = Run(place)
def change(number):
    value = float(2 * number + who)
    joined = [Score(f"d{n}", 1, None, "human:ann", "x", value) for n in range(500)]
    run.add(Study(n_units=int(value), n_dialogues=int(value)), Scores.of(joined if number % 3 else []))
    run.scores(), run.study(), list(run.dialogues())
again(change)
""",
    "run folder written again": """
from dialeval.dialogues import dialogue
from dialeval.jobs.scoring import score_to
def change(number):
    said = [("user", "Hi"), ("assistant", f"{who} {number}")]
    score_to([dialogue(said, f"d{n}") for n in range(200)], ["length"], place, overwrite=True)
again(change)
""",
    "index": """
from dialeval.models.index import Index
def change(number):
    index = Index.open(place)
    ids = [f"{who}-{number}-{n}" for n in range(20)]
    columns = {"words": [f"said by {who}"] * 20, "where": np.ones((20, 8)) * number}
    index.add(ids, columns, documents=[b"document"] * 20)
again(change)
""",
    "artefact": """
from dialeval.models.artefact import save
from dialeval.models.card import Card
from dialeval.models.tensors import write_tensors
def change(number):
    value = 2 * number + who
    card = Card(f"Number {value}", "Saved by two.", licence="mit", command="none")
    weights = lambda path: write_tensors(path, {"w": np.full((64, 64), value, "f4")})
    fields = {"number": value, "weights_file": "weights.safetensors"}
    save(place, "pair-scorer.v1", fields, {"weights.safetensors": weights}, card)
again(change)
""",
    "study.db": """
from dialeval.annotation import AnnotationProject, assignment
project = AnnotationProject(place)
rater = ("ann", "bob")[who]
def change(number):
    at = assignment.current(project, rater)
    seat = assignment.assignment_at(project, rater, at)
    assignment.answer(project, rater, seat, {"turn-quality": number % 3}, f"{who} {at} {number}", 0.0)
again(change)
""",
    "batch": """
from dialeval.jobs.batch.batch import prepare
def change(number):
    with prepare([str(place.with_name("log.jsonl"))], ["length"], str(place), turns_per_shard=20) as batch:
        batch.run(workers=1)
again(change)
""",
}


def make_run(place: Path) -> None:
    from dialeval.jobs.scoring import score_to

    score_to(example_dialogues()[:20], ["length"], place)


def make_index(place: Path) -> None:
    from dialeval.models.index import Index

    columns: dict[str, Any] = {"words": ["first"], "where": np.ones((1, 8))}
    Index.build(place, ["first"], columns, documents=[b"document"])


def make_project(place: Path) -> None:
    from dialeval.annotation import create, read_scheme
    from dialeval.dialogues import dialogue

    said = [(role, "x") for role in ("user", "assistant") * 20]
    create(
        place, read_scheme("turn-quality"), [dialogue(said, f"d{n}") for n in range(400)], ["ann", "bob"]
    ).close()


def make_batch(place: Path) -> None:
    formats.write(example_dialogues(), place.with_name("log.jsonl"))


def check_study(place: Path, _: list[list[int]]) -> None:
    """Each file is whole; what `joined` holds is one study's."""
    from dialeval.jobs.runs import Run

    run = Run(place)
    found = run.study()
    assert found is None or found.n_units == found.n_dialogues
    assert len({row.value for row in run.scores() if row.source == "human:ann"}) <= 1
    assert len(list(run.dialogues())) == 20


def check_run(place: Path, _: list[list[int]]) -> None:
    from dialeval.jobs.runs import Run

    run = Run(place)
    dialogues, scores = list(run.dialogues()), run.scores()
    assert run.info()["dialogues"] == len(dialogues)
    if len(dialogues) == 200:  # of one of the two
        assert (len({one.turns[1].text for one in dialogues}), len(scores)) == (1, 200)


def check_index(place: Path, acknowledged: list[list[int]]) -> None:
    from dialeval.models.index import Index

    ids = list(Index.open(place).ids)
    assert len(set(ids)) == len(ids) and len(ids) % 20 == 1
    for who, numbers in enumerate(acknowledged):
        assert {f"{who}-{number}-19" for number in numbers} <= set(ids)


def check_artefact(place: Path, acknowledged: list[list[int]]) -> None:
    from dialeval.models.artefact import verify
    from dialeval.models.tensors import read_tensors

    if not place.exists():
        assert acknowledged == [[], []]
        return
    found = verify(place, "pair-scorer.v1")
    number = int(found.config["number"])
    assert set(np.unique(read_tensors(found.path("weights.safetensors"))["w"])) == {float(number)}
    assert f"# Number {number}\n" in found.path("README.md").read_text()
    if any(acknowledged):  # no older one than the last that its writer said was done
        assert number // 2 >= max(acknowledged[number % 2], default=0)


def check_project(place: Path, acknowledged: list[list[int]]) -> None:
    """Every answer that was acknowledged is there, and nothing is there that the log does not have."""
    from dialeval.annotation import AnnotationProject

    project = AnnotationProject(place)
    with project.store.reading() as db:
        tickets = [row[0] for row in db.execute("SELECT ticket FROM log WHERE action = 'done'")]
        (answers,) = db.execute("SELECT count(*) FROM answers").fetchone()
    project.close()
    assert answers == len(tickets) == len(set(tickets))
    assert answers >= sum(map(len, acknowledged))


def check_batch(place: Path, _: list[list[int]]) -> None:
    from dialeval.jobs.batch.batch import prepare
    from dialeval.jobs.runs import Run
    from dialeval.metrics import score

    log = str(place.with_name("log.jsonl"))
    with prepare([log], ["length"], str(place), turns_per_shard=20) as batch:
        batch.run(workers=1)
    assert list(Run(place).scores()) == list(score(example_dialogues(), ["length"]))


SHARED: dict[str, tuple[Callable[[Path], None], Callable[[Path, list[list[int]]], None]]] = {
    "study in a run folder": (make_run, check_study),
    "run folder written again": (make_run, check_run),
    "index": (make_index, check_index),
    "artefact": (lambda _: None, check_artefact),
    "study.db": (make_project, check_project),
    "batch": (make_batch, check_batch),
}


@pytest.mark.parametrize("name", SHARED)
def test_two_are_killed_at_one_folder(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make, check = SHARED[name]
    place, chance, done = tmp_path / "shared", random.Random(name), 0
    make(place)
    for kill in range(KILLS):
        if name == "batch":
            shutil.rmtree(place, ignore_errors=True)
        if name == "index":
            shutil.rmtree(place)
            make(place)
        words = [sys.executable, "-c", COMMON + WORKERS[name], str(place)]
        pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        both = [subprocess.Popen([*words, str(who)], **pipes) for who in (0, 1)]
        heard = [""] * 2
        if kill % 4:  # else somewhere in the beginning
            heard = [one.stdout.readline() for one in both if one.stdout]
            heard[0] += both[0].stdout.readline() if both[0].stdout else ""
        time.sleep(chance.uniform(0.0, 0.5))
        for one in both:
            one.kill()
        told = [said + one.stdout.read() for said, one in zip(heard, both, strict=True) if one.stdout]
        errors = [one.stderr.read() for one in both if one.stderr]
        assert "".join(errors) == "", "".join(errors)[-600:]
        assert [one.wait() for one in both] == [-signal.SIGKILL] * 2
        acknowledged = [[int(line) for line in said.split("\n")[1:-1]] for said in told]
        done += sum(map(len, acknowledged))
        check(place, acknowledged)
        for one in both:
            one.__exit__(None, None, None)  # closes its pipes
    with capsys.disabled():
        print(f"\n{name}: {KILLS} kills of two processes, {done} changes told, each folder whole")


# --- a disk that is full at every write ---------------------------------------------------------------------

WRITING = {
    "score chats.jsonl -m length -m floweval:corpus=examples --explain -o new": "new",
    "study run ratings.csv --resamples 100": "run",
    "report run": "run",
    "convert chats.jsonl -o new.parquet": "new.parquet",
    "index chats.jsonl --plain -o new": "new",
    "index other.jsonl --plain -o index --add": "index",
    "batch chats.jsonl -m length -o new --workers 1": "new",
    "annotate chats.jsonl --scheme turn-quality -o new --raters a --links": "new",
    "annotate project --export new.csv": "new.csv",
    "respond chats.jsonl --system retrieval:corpus=chats.jsonl -o new.jsonl": "new.jsonl",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("disk")
    formats.write(example_dialogues()[:20], place / "chats.jsonl")
    formats.write(example_dialogues()[20:30], place / "other.jsonl")
    example_ratings().write(place / "ratings.csv")
    for words in (
        "score chats.jsonl -m length -o run",
        "index chats.jsonl --plain -o index",
        "annotate chats.jsonl --scheme turn-quality -o project --raters a --links",
    ):
        subprocess.run([*COMMAND, *words.split()], cwd=place, check=True, capture_output=True)
    return place


def contents(place: Path) -> dict[str, bytes]:
    inside = [place] if place.is_file() else [one for one in place.rglob("*") if one.is_file()]
    return {str(one): one.read_bytes() for one in inside if not one.name.startswith(".")}


def limited(words: str, place: Path, size: int | None) -> "subprocess.CompletedProcess[str]":
    """Run a command that can write no file beyond a size: to the program that is a disk without room."""
    limit = None if size is None else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return subprocess.run(
        [*COMMAND, *words.split()], cwd=place, capture_output=True, text=True, check=False, preexec_fn=limit
    )


@pytest.mark.parametrize("words", WRITING)
def test_a_full_disk_at_every_write(
    words: str, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The limit is put just below the size of each file that the command writes, and at a few others."""
    target, whole = WRITING[words], Path(shutil.copytree(made, tmp_path / "here"))
    before = contents(whole)
    assert limited(words, whole, None).returncode == 0
    after, refused = contents(whole), 0
    sizes = {len(data) - 1 for path, data in after.items() if data and before.get(path) != data}
    for size in [*sorted(sizes), 0, 1, max(sizes) // 2]:
        shutil.rmtree(tmp_path / "here")
        place = Path(shutil.copytree(made, tmp_path / "here"))
        done = limited(words, place, size)
        assert done.returncode in (0, 1) and "Traceback" not in done.stderr, (size, done.stderr)
        if done.returncode:
            refused += 1
            told = [line for line in done.stderr.splitlines() if line.startswith(("dialeval: ", "stopped: "))]
            assert len(told) == 1, (size, done.stderr)
            is_left = (place / target).exists() and not (made / target).exists()
            assert not is_left or words.startswith("batch"), sorted(one.name for one in place.rglob("*"))
        for path in before.keys() - {str(place / "run" / "SHA256SUMS")}:  # which may list the old and the new
            found = Path(path).read_bytes() if Path(path).exists() else None
            assert found in (before[path], after.get(path)), (size, path)
        again = limited(words, place, None)
        assert again.returncode in (0, 2), (size, again.stderr)
    with capsys.disabled():
        print(f"\n{words}: {len(sizes) + 3} sizes of a disk, {refused} refused in one line")


# --- inputs without end, and inputs that explode ------------------------------------------------------------


def bombs(place: Path) -> list[str]:
    turn = json.dumps({"id": "a", "messages": [{"role": "user", "content": "Hi"}]}) + "\n"
    with gzip.open(place / "blank.jsonl.gz", "wb") as file:
        file.write(turn.encode())
        for _ in range(400):
            file.write(b"\n" * (1 << 20))
    with gzip.open(place / "long.jsonl.gz", "wb") as file:
        file.write(b'{"id": "a", "messages": [{"role": "user", "content": "')
        for _ in range(400):
            file.write(b"x" * (1 << 20))
    with gzip.open(place / "open.json.gz", "wb") as file:
        for _ in range(400):
            file.write(b"[" * (1 << 20))
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(3_000_000, np.int32)), pa.array(["x" * 2000]))
    pq.write_table(pa.table({"id": column, "messages": column}), place / "wide.parquet")
    pq.write_table(
        pa.table({"dialogue_id": column, "value": pa.array(np.zeros(3_000_000))}), place / "s.parquet"
    )
    (place / "endless.jsonl").symlink_to("/dev/zero")
    (place / "endless.csv").symlink_to("/dev/urandom")
    return sorted(one.name for one in place.iterdir())


READING = (
    "score {} -m length",
    "convert {} -o new.jsonl",
    "batch {} -m length -o new --workers 1",
    "annotate {} --scheme turn-quality -o project --raters a --links",
    "study {} --resamples 100",
    "check {} --against {}",
    "score chats -m weak-agreement:votes={}",
)


def test_no_input_takes_all_memory_or_all_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = bombs(tmp_path)
    (tmp_path / "chats").mkdir()
    formats.write(example_dialogues()[:3], tmp_path / "chats" / "a.jsonl")
    tried = most = 0
    for name in names:
        for verb in READING:
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
            words = verb.replace("{}", name).split()
            done = subprocess.run(
                [*COMMAND, *words],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
                timeout=900,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (3 << 30, 3 << 30)),
            )
            tried += 1
            most = max(before, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
            assert done.returncode in (1, 2), (words, done.returncode, done.stdout[-300:], done.stderr[-800:])
            assert "Traceback" not in done.stderr and "MemoryError" not in done.stderr, (
                words,
                done.stderr[-800:],
            )
            for made in ("new.jsonl", "new", "project"):
                left = tmp_path / made
                assert not left.exists() or made == "new", (words, made)
                shutil.rmtree(left, ignore_errors=True)
    with capsys.disabled():
        print(f"\n{tried} commands on {len(names)} inputs that explode or never end, at most {most >> 10} MB")


# --- control characters in every field that is printed ------------------------------------------------------

NASTY = "a\x1b[2J\x07\x9b31m\u202ez\x7f\rwritten: run\n\x00"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
PRINTING = {  # words with | between them, and how the command ends
    "score|chats.jsonl|-m|length|-m|floweval:corpus=examples|--explain|-o|run": 0,
    "score|chats.jsonl|-m|length|--json": 0,
    "study|run|scores.parquet|--by|system|--classes|--resamples|100": 0,
    "study|scores.parquet|--json|--resamples|100": 0,
    "report|run|-o|run/report.html": 0,
    "check|scores.parquet|--against|other.parquet": 1,
    "contrast|chats.jsonl|-m|length": 0,
    "acts|chats.jsonl": 0,
    "index|corpus.jsonl|--plain|-o|index": 0,
    "coverage|chats.jsonl|--corpus|index": 0,
    "annotate|chats.jsonl|--scheme|turn-quality|-o|project|--raters|ann\x1b[2J\x07|--links": 0,
    f"respond|chats.jsonl|--system|retrieval:corpus=corpus.jsonl|--name|{NASTY[:-1]}|-o|r.jsonl": 0,
    "batch|chats.jsonl|-m|x\x1b[1m=length|-o|batch|--workers|1": 0,
    "convert|chats.jsonl|-o|new\x1b[2J.jsonl": 0,
    "score|no\x1b[2Jsuch\x9b.jsonl": 1,
    "score|bad.jsonl": 1,
    "study|scores.parquet|--map|columns.csv:id=id,value=nothing": 1,
    "models|verify|no\x1b[2Jsuch": 1,
}


def test_no_printed_field_is_obeyed_by_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from dialeval.scores import Score, Scores

    turns = [
        {"role": "user", "content": f"Hi {NASTY}"},
        {"role": f"bot{NASTY}", "content": f"Hello {NASTY}"},
        {"role": "user", "content": "So?"},
        {"role": f"bot{NASTY}", "content": NASTY},
    ]
    chats = [
        {"id": f"{NASTY}{n}", "system": f"s{n % 2}{NASTY}", "messages": turns, NASTY: {NASTY: NASTY}}
        for n in range(8)
    ]
    (tmp_path / "chats.jsonl").write_text("".join(json.dumps(one) + "\n" for one in chats))
    (tmp_path / "bad.jsonl").write_text(json.dumps({"id": NASTY, "messages": {NASTY: 1}}) + "\n")
    rows = [
        Score(
            f"{NASTY}{n}",
            None,
            f"s{n % 2}{NASTY}",
            source + NASTY,
            f"d{NASTY}",
            float(n * step % 7),
            f"n{NASTY}",
        )
        for source, step in (("human:r", 1), ("human:q", 3), ("metric", 5), ("other", 2))
        for n in range(8)
    ]
    Scores.of(rows).write(tmp_path / "scores.parquet")
    Scores.of([row._replace(value=9.0) for row in rows]).write(tmp_path / "other.parquet")
    (tmp_path / "columns.csv").write_text("id,\x1b[2Jvalue\x9b\na,1\n")
    corpus = [replace(one, id=one.id + NASTY) for one in example_dialogues()]
    formats.write(corpus, tmp_path / "corpus.jsonl")
    printed = 0
    for words, code in PRINTING.items():
        done = subprocess.run([*COMMAND, *words.split("|")], cwd=tmp_path, capture_output=True, check=False)
        said = done.stdout.decode() + done.stderr.decode()
        printed += len(said)
        assert done.returncode == code and "Traceback" not in said, (words, said[-1500:])
        assert OBEYED.findall(said) == [], (words, said)
        assert not re.search("^written: run$", said, re.MULTILINE) or words.endswith("run"), words
    with capsys.disabled():
        print(f"\n{len(PRINTING)} commands, {printed} characters printed, none of them obeyed")


def test_the_checks_here_can_fail(tmp_path: Path) -> None:
    """A folder that was damaged is refused by the same checks."""
    make_run(tmp_path / "run")
    (tmp_path / "run" / "scores.parquet").write_bytes(b"x")
    with pytest.raises(DataError):
        check_run(tmp_path / "run", [])
    assert OBEYED.findall(NASTY)
