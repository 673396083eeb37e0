"""Which metrics use weights for non-commercial use is said: in WEIGHTS.md, on a terminal, in run.json."""

import json
import re
from pathlib import Path

import pytest
from commands import here

from dialeval.metrics import build, metric_names
from dialeval.metrics.training_data import non_commercial
from dialeval.models.artefact import names, stated_licence

WEIGHTS = (Path(__file__).parents[2] / "WEIGHTS.md").read_text(encoding="utf-8")
EXAMPLES = Path(__file__).parents[2] / "src" / "dialeval" / "dialogues" / "examples" / "dialogues.jsonl"


def test_the_table_names_every_metric_that_uses_such_weights() -> None:
    needed = {name: non_commercial(build(name)) for name in metric_names() if name != "judge"}
    rows = [
        f"| `{name}` | {', '.join(f'`{one}`' for one in models)} |"
        for name, models in needed.items()
        if models
    ]
    table = WEIGHTS.partition("| metric | non-commercial weights |\n|---|---|\n")[2].partition("\n\n")[0]
    assert table.splitlines() == rows


@pytest.mark.parametrize("name", [called for called, where, _ in names() if where == "shipped"])
def test_the_card_says_what_the_table_of_weights_says(name: str) -> None:
    folder = next(folder for called, _, folder in names() if called == name)
    row = re.search(rf"^\| `{name}` \|.*$", WEIGHTS, re.MULTILINE)
    assert row, f"{name} is not in WEIGHTS.md"
    assert ("-nc-" in stated_licence(folder)) == ("CC BY-NC" in row[0])


def test_a_run_keeps_what_licence_applies(tmp_path: Path) -> None:
    made = here("score", str(EXAMPLES), "-m", "coherence", "-m", "length", "--json", cwd=tmp_path)
    found = json.loads(made.stdout)
    assert found["non_commercial_models"] == {"coherence": {"dialeval-coherence": "cc-by-nc-sa-4.0"}}
    free = here("score", str(EXAMPLES), "-m", "length", "--json", cwd=tmp_path)
    assert "non_commercial_models" not in json.loads(free.stdout)
