"""`score` on a terminal, without what a metric needs, and on a system that falls silent."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from commands import here

from dialeval.dialogues import Dialogue, Turn, scored_turns
from dialeval.dialogues.formats.writing import to_json
from dialeval.jobs.demo import example_dialogues
from dialeval.jobs.scoring import score_to


def test_falling_silent_is_a_drop(tmp_path: Path) -> None:
    def blanked(one: Dialogue) -> Dialogue:
        replies = scored_turns(one)[::2]
        turns = [Turn(turn.speaker, "") if n in replies else turn for n, turn in enumerate(one.turns)]
        return Dialogue(one.id, tuple(turns), one.system)

    chats = example_dialogues()[:20]
    old = score_to(chats, ["quality"], tmp_path / "old.parquet")
    new = score_to(map(blanked, chats), ["quality"], tmp_path / "new.parquet")
    means = [{row["level"]: row for row in one.rows() if row["dimension"] == "quality"} for one in (old, new)]
    for level in ("turn", "dialogue"):
        assert means[1][level]["mean"] < means[0][level]["mean"] - 0.5
        assert means[1][level]["n_unscored"] == 0
    here("check", "new.parquet", "--against", "old.parquet", cwd=tmp_path, code=1)


def test_a_language_model_that_is_not_here_is_an_error_before_work_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIALEVAL_HOME", str(tmp_path / "nothing"))
    (tmp_path / "chats.jsonl").write_bytes(to_json(example_dialogues()[0]))
    for metric in ("followup", "fed", "quality:teachers=true"):
        told = here("score", "chats.jsonl", "-m", metric, "-o", "run", cwd=tmp_path, code=2)
        assert "dialeval models pull smollm2-135m-instruct" in told.stderr
    assert not (tmp_path / "run").exists()


def test_dialogues_are_counted_while_they_are_scored(tmp_path: Path) -> None:
    lines = [to_json(one) for one in example_dialogues()[:40]]
    (tmp_path / "chats.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    terminal, inside = pty.openpty()
    command = [sys.executable, "-c", "from dialeval.cli import main; main()", "score", "chats.jsonl"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=inside
    ) as running:
        os.close(inside)
        shown = b""
        try:
            while part := os.read(terminal, 1 << 16):
                shown += part
        except OSError:  # the other end is closed
            pass
        assert running.wait() == 0
    os.close(terminal)
    counts = [int(one) for one in re.findall(r"dialogues scored\s+(\d+)\s+of 40", plain(shown))]
    assert counts[0] == 0
    assert any(0 < one < 40 for one in counts), counts
    assert "left" in plain(shown)


def plain(shown: bytes) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
