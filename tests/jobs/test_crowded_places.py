"""Full disks, several writers at once, and what a kill left."""

import errno
import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from commands import here

from dialeval import files
from dialeval.dialogues import formats
from dialeval.errors import DataError, UsageError
from dialeval.jobs import runs
from dialeval.jobs.demo import example_dialogues
from dialeval.jobs.scoring import score_to


@pytest.fixture
def place(tmp_path: Path) -> Path:
    formats.write(example_dialogues(), tmp_path / "chats.jsonl")
    return tmp_path


@pytest.mark.parametrize(
    ("out", "kilobytes"), [("run", 0), ("run", 4), ("run", 20), ("scores.jsonl", 4), ("-", 0), ("-", 4)]
)
def test_a_full_disk_is_one_line(place: Path, out: str, kilobytes: int) -> None:
    words = ["score", "chats.jsonl", "-m", "length", "-m", "turns", "-m", "repetition", "-o", out]
    with (place / "stdout").open("wb") as stdout:
        done = subprocess.run(
            [sys.executable, "-c", "from dialeval.cli import main; main()", *words],
            cwd=place,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (kilobytes << 10,) * 2),
        )
    assert done.returncode == 1
    assert done.stderr.startswith("dialeval: ")
    assert "File too large" in done.stderr
    assert done.stderr.count("\n") == 1
    assert {path.name for path in place.iterdir()} == {"chats.jsonl", "stdout"}


def limited(place: Path, *words: str, kilobytes: int, **more: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", "from dialeval.cli import main; main()", *words],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (kilobytes << 10,) * 2),
        **more,
    )


@pytest.mark.parametrize("kilobytes", [4, 60])
def test_a_full_disk_is_not_called_a_damaged_project(place: Path, kilobytes: int) -> None:
    words = ["annotate", "chats.jsonl", "--scheme", "turn-quality", "-o", "new", "--raters", "a", "--links"]
    done = limited(place, *words, kilobytes=kilobytes)
    assert (done.returncode, done.stderr) == (1, "dialeval: the disk is full; nothing was changed\n")
    assert [path.name for path in place.iterdir()] == ["chats.jsonl"]


def test_a_cache_without_a_disk_is_one_line_of_ours(place: Path) -> None:
    words = ["score", "chats.jsonl", "-m", "ruber", "--cache", "cache"]
    said = limited(place, *words, kilobytes=60, env={**os.environ, "TMPDIR": "/dev/shm"}).stderr
    assert "encodings are no longer cached on disk" in said
    assert "Warning" not in said and ".py" not in said


def test_standard_input_may_be_closed(place: Path) -> None:
    words = f"{sys.executable} -c 'from dialeval.cli import main; main()' score - -m length <&-"
    done = subprocess.run(words, shell=True, cwd=place, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "dialeval: -: standard input is closed\n")


def test_a_disk_that_fills_up_anywhere(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name in ("_sync_tree", "_rename_folder"):
        with monkeypatch.context() as patch:
            patch.setattr(files, name, full)
            with pytest.raises(DataError, match=r"new: No space left on device; nothing was changed"):
                score_to(example_dialogues(), ["length"], place / "new")
    assert [path.name for path in place.iterdir()] == ["chats.jsonl"]


def test_of_many_writers_one_writes(place: Path) -> None:
    together, said = threading.Barrier(8), []

    def score(number: int) -> None:
        def chats() -> Any:
            yield from example_dialogues()[: number + 1]
            together.wait()

        try:
            score_to(chats(), ["length"], place / "new", name=str(number))
            said.append(number)
        except (DataError, UsageError) as error:
            assert "another process has written it meanwhile" in str(error) or "exists" in str(error)

    threads = [threading.Thread(target=score, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [str(number) for number in said] == [runs.Run(place / "new").info()["input"]]
    assert {path.name for path in place.iterdir()} == {"chats.jsonl", "new"}


def test_what_appeared_meanwhile_stays(tmp_path: Path) -> None:
    with (
        pytest.raises(DataError, match="another process has written it meanwhile"),
        files.replacing_folder(tmp_path / "new", replace=False) as folder,
    ):
        (folder / "mine").touch()
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "theirs").touch()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["theirs"]


def _age(path: Path) -> None:
    os.utime(path, (time.time() - 3600,) * 2)


def test_what_a_kill_left_is_swept_and_what_is_at_work_stays(place: Path) -> None:
    code = (
        "import os, signal; from dialeval import files\n"
        "with files.replacing_folder('run') as folder, files.replacing('scores.csv') as file:\n"
        "    (folder / 'half').touch(); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=place, check=False)
    left = list(place.glob(".*.part"))
    assert len(left) == 2
    (place / ".of.others.part").touch()
    with files.replacing_folder(place / "slow") as slow:
        for path in (*left, slow, place / ".of.others.part"):
            _age(path)
        files._swept.clear()
        here("score", "chats.jsonl", "-m", "length", "-o", "other.csv", cwd=place)
        assert set(place.glob(".*.part")) == {slow, place / ".of.others.part"}
    assert (place / "slow").is_dir()


def test_a_young_part_is_left_alone(place: Path) -> None:
    (place / ".run.abcdefgh.part").mkdir()
    files._swept.clear()
    here("score", "chats.jsonl", "-m", "length", "-o", "other.csv", cwd=place)
    assert (place / ".run.abcdefgh.part").is_dir()


def test_a_batch_that_failed_before_its_plan_leaves_no_log(place: Path) -> None:
    (place / "broken.jsonl").write_text('{"messages": []}\n{"messages": [\n')
    here("batch", "broken.jsonl", "-m", "length", "-o", "out", cwd=place, code=1)
    assert [path.name for path in (place / "out").iterdir() if not path.name.startswith(".")] == []
    here("batch", "chats.jsonl", "-m", "length", "-o", "out", "--workers", 1, cwd=place)
    assert (place / "out" / "log.jsonl").is_file()
