"""Whoever scores never loads a module of training, studies or reports, nor torch."""

import subprocess
import sys
from pathlib import Path

METRICS = ("quality", "faults", "floweval", "coherence", "turn-quality", "user-reaction")
CODE = """
import sys
import dialeval.cli
try:
    dialeval.cli.main()
except SystemExit as stop:
    assert not stop.code, stop.code
others = ("dialeval.training", "dialeval.studies", "dialeval.reports", "torch")
print(*sorted(name for name in sys.modules if name.startswith(others)), "loaded")
"""


def test_scoring_loads_no_module_of_the_rooms_after_it(tmp_path: Path) -> None:
    from dialeval.dialogues.formats import write
    from dialeval.jobs.demo import example_dialogues

    write(list(example_dialogues())[:6], tmp_path / "chats.jsonl")
    asked = [part for name in METRICS for part in ("-m", name)]
    command = [sys.executable, "-c", CODE, "score", "chats.jsonl", *asked, "-o", "run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded"
    assert (tmp_path / "run" / "scores.parquet").is_file()
