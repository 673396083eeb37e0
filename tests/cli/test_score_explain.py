"""`dialeval score --explain` as a user meets it: real processes, at 80 columns, in a pipe and as JSON."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from payloads import PAYLOADS
from report_cases import talks

from dialeval.dialogues import Dialogue, Turn, formats

REPORTS = Path(__file__).parents[1] / "reports"
START = f"""
import sys
sys.path.insert(0, {str(REPORTS)!r})
import explaining_metric
explaining_metric.register()
from dialeval.cli import main
main()
"""
HELLO = Dialogue("mine", (Turn("user", "Hello! Is it far?"), Turn("assistant", "")), "bot")


def run(*arguments: object, cwd: Path, code: int = 0, **more: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", START, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONWARNINGS": "error", "PYTHONUTF8": "1", **more},
        check=False,
    )
    assert done.returncode == code, (done.returncode, done.stdout[-500:], done.stderr[-2000:])
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    formats.write([HELLO, *talks(7)], tmp_path / "chats.jsonl")
    return tmp_path


def test_both_dialogues_stand_side_by_side_in_eighty_columns(folder: Path) -> None:
    done = run("score", "chats.jsonl", "-m", "toyflow", "--explain", cwd=folder, COLUMNS="80")
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "mine: toyflow overall 0.286 (acts 0.286, length 0.286)" in lines
    row = next(line for line in lines if "Hello!" in line)
    assert row.split() == ["[greeting]", "Hello!", "=", "[greeting]", "Hello", "there!"]
    row = next(line for line in lines if "Is it far?" in line)
    assert " ".join(row.split()) == "[question] Is it far? = [question] How are you today?"
    assert "held against lake-1" in done.stdout and "(empty turn)" in done.stdout
    assert "d000003: toyflow" in done.stdout and "d000004" not in done.stdout
    assert "explanations for 5 of 8 dialogues; -o run/ keeps all" in done.stderr
    assert "\x1b" not in done.stdout


def test_a_run_folder_keeps_all_and_its_report_shows_them(folder: Path) -> None:
    done = run("score", "chats.jsonl", "-m", "toyflow", "--explain", "-o", "run", cwd=folder)
    assert "held against" not in done.stdout and "run/explanations.jsonl" in done.stderr
    assert len((folder / "run" / "explanations.jsonl").read_text(encoding="utf-8").splitlines()) == 8
    run("report", "run", cwd=folder)
    page = (folder / "run" / "report.html").read_text(encoding="utf-8")
    assert "Why this score" in page and "lake-1" in page


def test_json_holds_all_of_them(folder: Path) -> None:
    for more in ((), ("-o", "run")):
        done = run("score", "chats.jsonl", "-m", "short=toyflow", "--explain", "--json", *more, cwd=folder)
        found = json.loads(done.stdout)["explanations"]
        assert len(found) == 8
        assert found[0]["source"] == "short" and found[0]["parts"] == {"acts": 2 / 7, "length": 2 / 7}
        assert found[0]["own"]["turns"][0]["pieces"][0] == {"text": "Hello!", "label": "greeting"}
        assert found[0]["aligned"] == [[0, 0], [1, 1]]
    done = run("score", "chats.jsonl", "-m", "toyflow", "--json", cwd=folder)
    assert "explanations" not in json.loads(done.stdout)


def test_who_cannot_explain_says_who_can(folder: Path) -> None:
    done = run("score", "chats.jsonl", "-m", "length", "--explain", cwd=folder, code=2)
    assert "length cannot explain scores; metrics that can: " in done.stderr and "toyflow" in done.stderr
    done = run("score", "chats.jsonl", "-m", "toyflow", "--explain", "-o", "a.csv", cwd=folder, code=2)
    assert "run folder" in done.stderr and not (folder / "a.csv").exists()


def test_no_colour_is_honoured_and_text_commands_no_terminal(tmp_path: Path) -> None:
    said = [
        Dialogue(f"d[bold]{number}", (Turn("[red]", text),)) for number, text in enumerate(PAYLOADS[34:39])
    ]
    formats.write(said, tmp_path / "chats.jsonl")
    shown = {}
    for name, more in {"plain": {"NO_COLOR": "1"}, "colour": {"TERM": "xterm-256color"}}.items():
        ours, theirs = pty.openpty()
        environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")}
        process = subprocess.Popen(
            [sys.executable, "-c", START, "score", "chats.jsonl", "-m", "toyflow", "--explain"],
            cwd=tmp_path,
            stdout=theirs,
            stderr=subprocess.DEVNULL,
            env={**environment, "PYTHONUTF8": "1", "TERM": "xterm", "COLUMNS": "80", **more},
        )
        os.close(theirs)
        read = b""
        while True:
            try:
                part = os.read(ours, 65_536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            read += part
        os.close(ours)
        assert process.wait() == 0
        shown[name] = read.decode()
    assert "\x1b[36m" in shown["colour"] and "\x1b[36m" not in shown["plain"]
    for text in shown.values():
        assert "␛[31m" in text and "\x1b[31m" not in text
        assert "[red] 0" in text and "[bold]" in text
        assert not set(text) & set("\x00\x07\x7f\x9b")
