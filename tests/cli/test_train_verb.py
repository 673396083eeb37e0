"""`dialeval train` as a user meets it: real processes, one of them killed, exit codes, one-line errors."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dialeval.cli import main

pytest.importorskip("torch")
pytest.importorskip("transformers")
TOYS = Path(__file__).parents[1] / "jobs"
Here = Callable[..., tuple[str, str]]
MAIN = "from dialeval.cli import main; main()"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sys.path.insert(0, str(TOYS))
    import toy_recipes

    folder = tmp_path_factory.mktemp("train")
    toy_recipes.install(folder / "site")
    toy_recipes.write_chats(folder / "chats.jsonl", 40)
    return folder


def environment(place: Path, **more: str) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(TOYS), str(place / "site"), os.environ.get("PYTHONPATH", "")]),
        "PYTHONWARNINGS": "error",
        "DIALEVAL_DATA": str(place / "data"),
        "COLUMNS": "200",
        **more,
    }


def run(place: Path, *words: str, code: int = 0, program: str = MAIN) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, "train", *words]
    done = subprocess.run(
        command, cwd=place, env=environment(place), capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def here(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Call the command line in this process, which has imported torch already."""
    for path in (place / "site", TOYS):
        monkeypatch.syspath_prepend(str(path))
    monkeypatch.setenv("DIALEVAL_DATA", str(place / "data"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(place)

    def call(*words: str, code: int = 0) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["dialeval", "train", *words])
        with pytest.raises(SystemExit) as end:
            main()
            raise SystemExit(0)
        said = capsys.readouterr()
        assert end.value.code == code, said.err
        return said.out, said.err

    return call


@pytest.mark.soak
def test_a_killed_run_goes_on_with_the_same_command(place: Path, here: Here) -> None:
    """SIGKILL after some epochs; the end is the one of a run that nobody disturbed."""
    words = ["toy", "chats.jsonl", "-o", "killed", "--json"]
    command = [sys.executable, "-c", MAIN, "train", *words]
    state = place / "killed.training" / "checkpoint" / "state.json"
    slow = environment(place, TOY_PAUSE="0.5")
    with subprocess.Popen(
        command, cwd=place, env=slow, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as one:
        until = time.monotonic() + 120
        while time.monotonic() < until and one.poll() is None:
            if state.is_file() and json.loads(state.read_bytes())["state"]["epoch"] >= 2:
                break
            time.sleep(0.02)
        one.kill()
        assert one.stdout is not None
        assert one.stdout.read() == b""
    assert one.returncode == -signal.SIGKILL
    assert not (place / "killed").exists()
    resumed = json.loads(run(place, *words).stdout)
    unbroken = json.loads(here("toy", "chats.jsonl", "-o", "unbroken", "--json")[0])
    assert 0 < resumed["resumed_at"] < resumed["steps"]
    assert unbroken["resumed_at"] is None
    changing = {"folder", "resumed_at", "seconds"}
    assert {key: resumed[key] for key in resumed.keys() - changing} == {
        key: unbroken[key] for key in unbroken.keys() - changing
    }


def test_a_table_and_what_is_said_beside_it(here: Here) -> None:
    table, said = here("toy", "chats.jsonl", "-o", "table", "--set", "epochs=2", "--device", "cpu")
    header, row = (line.split("\t") for line in table.splitlines())
    shown = dict(zip(header, row, strict=True))
    assert list(shown) == [
        *("recipe", "examples", "dev examples", "dropped", "accuracy", "steps", "folder", "sha")
    ]
    assert (shown["recipe"], shown["dropped"], shown["folder"]) == ("toy", "0", "table")
    assert int(shown["examples"]) + int(shown["dev examples"]) == 40
    assert "no dialogue found in available test data (none)" in said
    assert re.search("test data not available, so not checked: .*actdial, ", said)
    assert "checkpoints: table.training" in said


def test_on_a_terminal_one_sees_how_far_it_is(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    seen = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", seen)
    table, _ = here("toy", "chats.jsonl", "-o", "seen")
    assert table.startswith("recipe\texamples")
    shown = seen.getvalue()
    places = [shown.index(told) for told in ("dialogues read", "made into examples", "training", " left")]
    assert places == sorted(places)
    assert "40" in shown[places[0] : places[1]]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("cake", "chats.jsonl"), 2, "unknown recipe 'cake'; known: actbert, bert-ruber,"),
        (("toy", "nowhere.jsonl"), 1, "nowhere.jsonl: no such file"),
        (("toy", "chats.jsonl", "--set", "bach=4"), 2, "no setting 'bach'; there are: batch,"),
        (("toy", "chats.jsonl", "--set", "batch"), 2, "--set batch: expected field=value"),
        (("toy", "chats.jsonl", "--device", "abacus"), 2, "--device abacus cannot be used here"),
        (("toy", "chats.jsonl", "--device", "meta"), 2, "--device meta cannot be used here"),
        (("toy", "chats.jsonl", "--storage", "int3"), 2, "int3"),
        (("toy",), 2, "data"),
    ],
)
def test_errors_are_a_line(words: tuple[str, ...], code: int, message: str, place: Path, here: Here) -> None:
    table, said = here(*words, "-o", "wrong", code=code)
    assert table == ""
    assert message in said
    assert not (place / "wrong").exists()


def test_without_torch_one_is_told_what_to_install(place: Path) -> None:
    without = f"import sys; sys.modules['torch'] = sys.modules['transformers'] = None; {MAIN}"
    done = run(place, "toy", "chats.jsonl", "-o", "none", code=2, program=without)
    assert done.stderr == ("dialeval: training needs torch and transformers: pip install 'dialeval[train]'\n")
    listed = run(place, "--list", program=without).stdout.splitlines()
    assert listed[0] == "name\twhat"
    assert "toy\tTell good from bad by lengths, or by words with an encoder." in listed
    assert "segment-act" in [line.split("\t")[0] for line in listed]
