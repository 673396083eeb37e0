"""Weights of quality from ratings: of a run folder, of public sets, and without what is to be measured on."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dialeval.cli.app import app
from dialeval.dialogues import dialogue
from dialeval.dialogues.datasets import data_folder
from dialeval.errors import DataError, UsageError
from dialeval.jobs import runs
from dialeval.jobs.scoring import score_to
from dialeval.models.blend import Blend
from dialeval.scores import Score, Scores
from dialeval.studies import study
from dialeval.training.blending import RATED, SCENARIOS, Rated, blend_to

HAS_FED = (data_folder() / "fed").is_dir()
GOOD, BAD = "Yes, I love jazz! Do you play?", "The bus leaves at nine."


def rated_run(folder: Path, levels: tuple[str, ...] = ("turn", "dialogue")) -> Path:
    """Make a run whose raters like what fits."""
    chats = [
        dialogue(
            [("user", f"Do you like jazz, or number {n}?"), ("assistant", GOOD if n % 2 else BAD)], f"d{n}"
        )
        for n in range(12)
    ]
    score_to(chats, ["length"], folder)
    rows = [
        Score(one.id, 1 if level == "turn" else None, None, "human:a", "overall", float(n % 2))
        for n, one in enumerate(chats)
        for level in levels
    ]
    run, ratings = runs.Run(folder), Scores.of(rows, {})
    run.add(study(run.joined_with(ratings), level="dialogue" if "dialogue" in levels else "turn"), ratings)
    return folder


def of_run(folder: Path) -> Rated:
    run = runs.Run(folder)
    return Rated.of_scores(str(folder), run.dialogues(), run.scores())


def test_what_raters_like_weighs_more(tmp_path: Path) -> None:
    found = blend_to([of_run(rated_run(tmp_path / "run"))], tmp_path / "mine")
    assert found["rated"] == {"turn": {"run": 12}, "dialogue": {"run": 12}}
    weights = {term.part: term.weights["chat"] for term in Blend.load(tmp_path / "mine").terms["turn"]}
    assert weights["coherence"] > weights["reaction"]  # nobody said anything after
    assert "dialeval blend" in (tmp_path / "mine" / "README.md").read_text()


def test_a_level_that_nobody_rated_keeps_the_shipped_weights(tmp_path: Path) -> None:
    blend_to([of_run(rated_run(tmp_path / "run", ("turn",)))], tmp_path / "mine")
    mine, shipped = Blend.load(tmp_path / "mine"), Blend.load("dialeval-quality")
    assert mine.terms["dialogue"] == shipped.terms["dialogue"]
    assert mine.terms["turn"] != shipped.terms["turn"]


def test_without_any_rating_there_is_nothing_to_write(tmp_path: Path) -> None:
    score_to([dialogue([("user", "Hi"), ("assistant", GOOD)], "d")], ["length"], tmp_path / "run")
    with pytest.raises(DataError, match="no turn or dialogue has ratings that differ"):
        blend_to([of_run(tmp_path / "run")], tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def test_what_cannot_be_learned_from_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither a run folder nor a public set"):
        blend_to(["nothing"], tmp_path / "mine")
    with pytest.raises(UsageError, match="nobody rated"):
        blend_to(["dailydialog"], tmp_path / "mine")
    with pytest.raises(UsageError, match="no set is left"):
        blend_to(["conture"], tmp_path / "mine", without=["dstc9"])


@pytest.mark.skipif(not HAS_FED, reason="the FED set is not here")
def test_public_sets_by_name(tmp_path: Path) -> None:
    command = ["blend", "fed", "conture", "--without", "dstc9", "-o", str(tmp_path / "mine"), "--json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["rated"] == {"turn": {"fed": 180}, "dialogue": {"fed": 60}}


def test_the_shipped_weights_come_from_all_rated_sets_that_allow_commercial_use() -> None:
    from dialeval.models.artefact import load, resolve

    counts = load(resolve("dialeval-quality")).config["rated"]
    assert set(counts["dialogue"]) == {*RATED, SCENARIOS} - {"tau-retail"}
