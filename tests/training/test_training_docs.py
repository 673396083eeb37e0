"""docs/training.md is run from top to bottom, in a folder whose `bert-base-uncased` is a tiny one."""

import importlib
import re
import shutil
import sys
from importlib.resources import files
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
PAGE = Path(__file__).parents[2] / "docs" / "training.md"
_BLOCK = re.compile(r'^```python title="(?P<name>[\w.]+)"\n(?P<body>.*?)^```$', re.MULTILINE | re.DOTALL)
# What the loggers offer, as far as the page uses it; neither is a dependency.
_WANDB = """
class Run:
    def log(self, data, step): print("wandb", step, *sorted(data))
    def finish(self): print("finished")
def init(project, id, resume, config=None): return Run()
"""
_BOARD = """
class SummaryWriter:
    def __init__(self, log_dir): pass
    def __enter__(self): return self
    def __exit__(self, *_): print("closed")
    def add_scalar(self, tag, scalar_value, global_step): print("board", global_step, tag)
"""


def test_the_page_runs(
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    examples = Path(str(files("dialeval.dialogues") / "examples"))
    shutil.copy(examples / "dialogues.jsonl", tmp_path / "chats.jsonl")
    shutil.copy(examples / "ratings.csv", tmp_path / "ratings.csv")
    shutil.copytree(home / "encoder", tmp_path / "bert-base-uncased")
    (tmp_path / "wandb.py").write_text(_WANDB)
    (tmp_path / "board.py").write_text(_BOARD)
    blocks = {found["name"]: found["body"] for found in _BLOCK.finditer(PAGE.read_text(encoding="utf-8"))}
    assert list(blocks) == [
        "recipe.py",
        "train.py",
        "train_pairs.py",
        "watch_wandb.py",
        "watch_tensorboard.py",
        "use.py",
        "by_hand.py",
    ]
    for name, body in blocks.items():
        (tmp_path / name).write_text(body.replace("epochs=10", "epochs=1"))  # ten take half a minute
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    names = [name.removesuffix(".py") for name in blocks]
    said = {}
    try:
        monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", importlib.import_module("board"))
        for name in names:
            importlib.import_module(name)
            said[name], errors = capsys.readouterr()
            assert errors == ""
    finally:
        for name in (*names, "wandb", "board"):
            sys.modules.pop(name, None)
    assert re.fullmatch(r"\d+ \d+ spearman:quality\n", said["train"])
    assert re.fullmatch(r"my-pair-scorer \d+\n", said["train_pairs"])
    assert said["watch_wandb"].startswith("wandb 1 epoch learning_rate loss\n")
    assert said["watch_wandb"].endswith("finished\n")
    assert said["watch_tensorboard"] == "closed\n"  # the run had ended: no step was made again
    assert said["use"] == "(2,)\n[1, 3, 5, 7, 9]\n"
    assert said["by_hand"] == "True\n"
    assert (tmp_path / "my-pair-scorer" / "SHA256SUMS").is_file()


def test_loggers_take_six_lines() -> None:
    blocks = {found["name"]: found["body"] for found in _BLOCK.finditer(PAGE.read_text(encoding="utf-8"))}
    for name in ("watch_wandb.py", "watch_tensorboard.py"):
        assert len([line for line in blocks[name].splitlines() if line]) <= 6


def test_the_defaults_on_the_page_are_those_of_the_code() -> None:
    from dialeval.training import TrainingSettings
    from dialeval.training.recipe import SMALL_HEAD

    text = PAGE.read_text(encoding="utf-8")
    for names, values in re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ([^|]+) \|", text, re.MULTILINE):
        fields = re.findall(r"`(\w+)`", names)
        for field, value in zip(fields, values.replace("`", "").split(", "), strict=True):
            assert str(getattr(TrainingSettings(), field)) in (
                value,
                f"{value}.0",
                value.replace("2e-5", "2e-05"),
            )
    shown = re.search(r"its own defaults: `(TrainingSettings\([^`]+\))`", text)
    assert shown is not None
    given = dict(re.findall(r"(\w+)=([\d.e-]+)", shown[1]))
    assert {name: float(value) for name, value in given.items()} == {
        name: float(getattr(SMALL_HEAD, name)) for name in given
    }
    plain = TrainingSettings(
        **{name: type(getattr(SMALL_HEAD, name))(float(value)) for name, value in given.items()}
    )
    assert plain == SMALL_HEAD
