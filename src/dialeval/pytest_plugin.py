"""Fixtures for tests of a bot; pytest loads them only if asked.

With `-p dialeval.pytest_plugin` on the command line, or `pytest_plugins = ["dialeval.pytest_plugin"]` in
`conftest.py`:

    def test_the_bot_did_not_get_worse(score_run, released_run):
        run = score_run(talk_to_the_bot(), "repetition", "rules")
        dialeval.assert_no_drop(run.path, against=released_run)

`released_run` is what `--dialeval-released FOLDER` or the ini option `dialeval_released` names; without
either the test is skipped.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dialeval.jobs.runs import Run

ScoreRun = Callable[..., Run]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--dialeval-released` and `dialeval_released`."""
    help_text = "run folder or table of scores that new runs are compared with (dialeval)"
    parser.getgroup("dialeval").addoption("--dialeval-released", metavar="FOLDER", help=help_text)
    parser.addini("dialeval_released", help_text, type="string")


@pytest.fixture(scope="session")
def score_run(tmp_path_factory: pytest.TempPathFactory) -> ScoreRun:
    """Score dialogues and return their run folder: `score_run(chats, *metrics)`, by default `quality`.

    The dialogues are whatever `dialeval.read` takes; `run.scores()` and `run.dialogues()` are the results.
    """
    from dialeval.dialogues.formats import read
    from dialeval.jobs.scoring import score_to

    def scored(chats: Any, *metrics: str) -> Run:
        folder = tmp_path_factory.mktemp("dialeval") / "run"
        score_to(read(chats), metrics, folder)
        return Run(folder)

    return scored


@pytest.fixture(scope="session")
def released_run(pytestconfig: pytest.Config) -> Path:
    """Return the run to hold new ones against; skip if none is named."""
    named = pytestconfig.getoption("--dialeval-released") or pytestconfig.getini("dialeval_released")
    if not named:
        pytest.skip("no run to hold against: give --dialeval-released FOLDER, or set dialeval_released")
    return pytestconfig.rootpath / str(named)
