"""Figures of whole systems: the example's by hand, the real ones against what was published."""

import json
import shutil
from pathlib import Path

import pytest
from commands import here
from sacrebleu.metrics.bleu import BLEU

from dialeval.dialogues.tasks import SHIPPED
from dialeval.errors import UsageError
from dialeval.jobs.task_figures import GOLD, task_table

EXAMPLE = SHIPPED["example"].parent
SPEC = "multiwoz:schema=example"


def test_figures_of_the_example() -> None:
    table = task_table(SPEC, [f"mybot={EXAMPLE / 'predictions.json'}"])
    gold, mine = table.systems
    # no state speaks of the police, so that by the rules no reply of ex06 is about them
    assert (gold.system, gold.inform.value, gold.success.value) == (GOLD, 100, 90)
    assert gold.bleu == pytest.approx(100)
    assert (mine.system, mine.n, mine.n_unscored, mine.n_missing) == ("mybot", 9, 1, 1)
    assert (mine.inform.value, mine.success.value) == (pytest.approx(800 / 9), pytest.approx(600 / 9))
    assert mine.combined == pytest.approx((800 / 9 + 600 / 9) / 2 + mine.bleu)
    assert mine.domains["cafe"] == {"n": 5, "inform": pytest.approx(80), "success": pytest.approx(40)}
    assert mine.domains["boat"] == {"n": 4, "inform": 100, "success": 100}
    assert mine.n_bleu == 12  # without the extra turn and the unknown dialogue
    assert mine.inform.low < mine.inform.value < mine.inform.high
    assert mine.published == {}


def test_bleu_is_sacrebleus_of_texts_written_in_one_way(tmp_path: Path) -> None:
    said = {
        "ex01": [
            {"response": "What price do you want ?"},
            {"response": "[value_name] is [price] . call [cafe_phone]"},
        ]
    }
    path = tmp_path / "bot.json"
    path.write_text(json.dumps(said))
    [_, mine] = task_table(SPEC, [path]).systems
    wanted = ["what price range are you looking for ?", "NAME is PRICE . their phone number is PHONE ."]
    ours = ["what price do you want ?", "NAME is PRICE . call PHONE"]
    assert mine.bleu == pytest.approx(BLEU(force=True).corpus_score(ours, [wanted]).score)


def test_without_references_there_is_no_bleu_and_no_ceiling(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "task")
    declared = tmp_path / "task" / "task.toml"
    lines = declared.read_text().splitlines()
    declared.write_text("\n".join(line for line in lines if not line.startswith(("references", "states"))))
    [mine] = task_table(f"multiwoz:schema={declared}", [EXAMPLE / "predictions.json"]).systems
    assert (mine.bleu, mine.combined, mine.n_bleu) == (None, None, 0)
    assert mine.inform.value == pytest.approx(800 / 9)


def test_only_multiwoz_has_such_figures() -> None:
    with pytest.raises(UsageError, match="only multiwoz"):
        task_table("length")


def test_the_command_prints_tables_and_json(tmp_path: Path) -> None:
    words = ("benchmark", "multiwoz", "-m", SPEC, "--predictions", f"bot={EXAMPLE / 'predictions.json'}")
    done = here(*words, cwd=tmp_path)
    assert "bot\t-\t9\t1\t1\t88.9\t66.7" in done.stdout
    assert "# Inform / Success by domain" in done.stdout
    assert "bot: no prediction: 1 dialogue, ex09" in done.stderr
    assert "tok:13a" in done.stderr
    assert "booked:slots" in done.stderr
    found = json.loads(here(*words, "--json", cwd=tmp_path).stdout)
    assert [row["system"] for row in found["systems"]] == [GOLD, "bot"]
    assert found["systems"][1]["inform"]["value"] == pytest.approx(800 / 9)


@pytest.mark.parametrize(
    "words",
    [
        ("multiwoz", "--peers"),
        ("multiwoz", "-m", "multiwoz", "-m", "bleu"),
        ("multiwoz", "-m", SPEC, "--level", "turn"),
        ("fed", "--predictions", "x.json"),
        ("multiwoz", "-m", "length"),
    ],
)
def test_what_does_not_go_together_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    here("benchmark", *words, cwd=tmp_path, code=2)


def test_the_ceiling_and_missing_dialogues_of_multiwoz(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One real system is enough here: the others are in tests/metrics/test_multiwoz.py."""
    source = data_folder / "multiwoz"
    if not (source / "leaderboard.json").is_file():
        pytest.skip("the public set multiwoz is not there")
    home = tmp_path / "multiwoz"
    (home / "predictions").mkdir(parents=True)
    for name in ("leaderboard.json", "goals_test_val_rebuilt.json", "booked_domains.json", "database"):
        (home / name).symlink_to((source / name).resolve())
    for name in ("gold_states_mwz21_test.json", "hdsa_references", "predictions/labes.json"):
        (home / name).symlink_to((source / name).resolve())
    monkeypatch.setenv("DIALEVAL_DATA", str(tmp_path))
    table = task_table()
    gold, labes = table.systems
    assert (gold.n, gold.n_missing) == (1000, 0)
    assert (round(gold.inform.value, 1), round(gold.success.value, 1)) == (93.4, 91.4)
    assert (labes.n, labes.n_missing, labes.published["inform"]) == (944, 56, 68.5)
    assert labes.bleu == pytest.approx(17.1, abs=0.05)
    assert labes.published_sum is None
