"""`dialeval batch`: what it prints, its options, and how it says no."""

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from batch_cases import command, talks
from commands import here

from dialeval.dialogues.formats import write


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    write(talks(20), tmp_path / "logs.jsonl")
    return tmp_path


def test_plan_shards_one_by_one_and_the_end(logs: Path) -> None:
    """What an array of jobs does: plan, each shard by its number, and the same command to finish."""
    words = ("batch", "logs.jsonl", "-m", "length", "-o", "out", "--turns-per-shard", 40)
    planned = here(*words, "--plan-only", "--json", cwd=logs)
    assert json.loads(planned.stdout) == {
        "shards": 2,
        "missing": 2,
        "inputs": 1,
        "dialogues": 20,
        "turns": 80,
    }
    shard = here(*words, "--shard", 1, "--json", cwd=logs)
    assert json.loads(shard.stdout)["dialogues"] == 10
    table = here(*words, "--shard", 0, cwd=logs)
    assert table.stdout.splitlines()[0].split("\t") == [
        "shard",
        "dialogues",
        "turns",
        "rows",
        "bytes",
        "seconds",
    ]
    assert not (logs / "out" / "_SUCCESS").exists()
    other = here("batch", "logs.jsonl", "-m", "turns", "-o", "out", "--shard", 0, cwd=logs, code=2)
    assert "out was planned with length" in other.stderr
    done = here(*words, cwd=logs)
    assert "80 turns in 2 shards, 2 of them done before" in done.stderr
    assert "written: out" in done.stderr
    assert done.stdout.splitlines()[1].split("\t")[:4] == ["length", "words", "turn", "bot0"]
    assert (logs / "out" / "_SUCCESS").exists()
    quiet = here(*words, "--quiet", cwd=logs)
    assert (quiet.stdout, quiet.stderr) == ("", "")


def test_a_batch_folder_can_be_studied_checked_and_reported(logs: Path) -> None:
    for number in (1, 2):
        words = ("batch", "logs.jsonl", "-m", "repetition", "-m", "turns", "-o", f"out{number}")
        here(*words, "--plan-only", "--quiet", cwd=logs)
        unfinished = here("study", f"out{number}", cwd=logs, code=1)
        assert "this batch is not finished" in unfinished.stderr or "not a run folder" in unfinished.stderr
        here(*words, "--shard", 0, "--quiet", cwd=logs)
        here(*words, "--quiet", cwd=logs)
    ratings = "".join(f"d{number:04d},human:ann,{number % 5}\n" for number in range(20))
    (logs / "ratings.csv").write_text("dialogue_id,source,value\n" + ratings)
    studied = here("study", "out1", "ratings.csv", "--gold", "human", "--json", cwd=logs)
    assert json.loads(studied.stdout)["n_dialogues"] == 20
    assert "ok   repetition" in here("check", "out1", "--against", "out2", cwd=logs).stdout
    here("report", "out1", "-o", "report.html", cwd=logs)
    assert "d0003" in (logs / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["logs.jsonl", "-o", "out", "--on", "mars"], 2, "--on mars: expected local or ray"),
        (["logs.jsonl", "-o", "out", "--address", "auto"], 2, "--address needs --on ray"),
        (["logs.jsonl", "-o", "out", "-m", "nonsense"], 2, "no metric called 'nonsense'"),
        (["logs.jsonl", "-o", "out", "--format", "nonsense"], 2, "no format 'nonsense'"),
        (["logs.jsonl", "-o", "out", "--shard", "3"], 2, "no plan in out"),
        (["nothing.jsonl", "-o", "out"], 1, "nothing.jsonl: no such file or folder"),
        (["logs.jsonl", "-o", "logs.jsonl"], 2, "is an input: choose another name"),
        (["broken.jsonl", "-o", "out"], 1, "broken.jsonl:2: column"),
    ],
)
def test_how_it_says_no(words: list[str], code: int, said: str, logs: Path) -> None:
    (logs / "broken.jsonl").write_text('{"messages": []}\n{"messages": [\n')
    assert said in here("batch", *words, cwd=logs, code=code).stderr


def test_a_terminal_sees_progress_and_the_time_left(logs: Path) -> None:
    words = command(logs / "logs.jsonl", "-m", "length", "-o", logs / "out", "--turns-per-shard", 40)
    handle, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    driver = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=terminal, env=environment)
    os.close(terminal)
    shown = b""
    with contextlib.suppress(OSError):  # Linux says so when the other side has gone
        while data := os.read(handle, 4096):
            shown += data
    os.close(handle)
    assert driver.wait() == 0, shown
    assert b"turns scored" in shown and b"of 80" in shown and b"left, after" in shown


def test_ray_that_is_not_installed_is_named(logs: Path) -> None:
    code = "import sys; sys.modules['ray'] = None; from dialeval.cli import main; main()"
    words = ["batch", "logs.jsonl", "-m", "length", "-o", "out", "--on", "ray"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=logs, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "--on ray needs Ray: pip install 'dialeval[ray]'" in done.stderr
