"""The points, n and r on a page are those of the study."""

import ast
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_cases import opposite, ordinary
from scipy import stats

from dialeval.reports import to_html
from dialeval.scores import Score, Scores
from dialeval.studies import Study, against_gold, study

QUICK: dict[str, Any] = {"resamples": 100, "permutations": 100}


def examples() -> Scores:
    """The ratings of the bundled examples, and a made-up score of each dialogue."""
    ratings = Scores.read(str(files("dialeval.dialogues") / "examples" / "ratings.csv"))
    names = dict.fromkeys(row.dialogue_id for row in ratings)
    values = np.random.default_rng(0).normal(size=len(names))
    made = [Score(name, None, None, "m", "x", float(v)) for name, v in zip(names, values, strict=True)]
    return Scores.concat([ratings, Scores.of(made)])


def uneven() -> Scores:
    """Turns that were rated by one, two or three raters, and a score for each."""
    random = np.random.default_rng(3)
    rows = []
    for dialogue in range(30):
        for turn in (1, 3, 5):
            truth = random.normal()
            raters = random.integers(1, 4)
            rows += [
                Score(f"d{dialogue}", turn, "bot", f"human:{r}", "overall", truth + random.normal(scale=2))
                for r in random.permutation(3)[:raters]
            ]
            rows.append(Score(f"d{dialogue}", turn, "bot", "m", "x", truth + random.normal()))
    return Scores.of(rows)


@pytest.mark.parametrize(
    ("scores", "settings"),
    [
        (examples(), {"level": "dialogue", "consensus": "majority"}),
        (uneven(), {"level": "dialogue"}),
        (uneven(), {"level": "turn", "where": "m>0"}),
        (opposite(40), {"combine": ("both=zmean:two/self+two/user",)}),
    ],
)
def test_n_and_r_on_the_page_are_those_of_the_study(scores: Scores, settings: dict[str, Any]) -> None:
    found = study(scores, **settings, **QUICK)
    page = re.sub(r"<svg.*?</svg>", "", to_html(found), flags=re.DOTALL)
    cards = re.findall(r'class="card source"><h3><bdi>(.*?)</bdi>(.*?)</div></div>', page, re.DOTALL)
    told = {label: text for label, text in cards if label != found.gold_name}
    assert list(told) == [row.label for row in found.correlations]
    for row in found.correlations:
        x, y = found.units.pairs(row.label)
        assert x.size == row.n
        assert stats.pearsonr(x, y).statistic == pytest.approx(row.pearson.value, abs=1e-9)
        assert f"Score against rating, line: least squares. n = {row.n:,}, unscored" in told[row.label]
        value = f"{row.spearman.value:.2f}".replace("-", "\N{MINUS SIGN}")
        assert f"Spearman \N{GREEK SMALL LETTER RHO} {value}</small>" in told[row.label]


def test_the_bundled_examples_have_47_dialogues_with_a_majority() -> None:
    found = study(examples(), level="dialogue", consensus="majority", **QUICK)
    assert found.correlations[0].n == 47
    assert "n = 47, unscored 0" in to_html(found)


def test_a_large_study_carries_a_sample_and_the_true_n(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(against_gold, "MOST_UNITS", 60)
    scores = ordinary(200, sources=2)
    unrated = [Score(f"x{n}", None, "bot-0", "metric-1", "score", float(n)) for n in range(100)]
    found = study(Scores.concat([scores, Scores.of(unrated)]), **QUICK)
    assert (len(found.units), found.units.n) == (60, 300)
    assert all(name.startswith("d") for name in found.units.dialogue_ids), "rated units come first"
    row = next(row for row in found.correlations if row.label == "metric-1")
    page = to_html(found)
    assert f"n = {row.n}, unscored {row.n_unscored}. 59 points shown" in page or "60 points shown" in page
    assert "Drawn from a sample of 60 units, rated ones first." in page
    found.save(tmp_path / "study.json")
    assert Study.load(tmp_path / "study.json") == found
    again = study(Scores.concat([Scores.of(unrated), scores]), **QUICK)
    assert again.units.dialogue_ids == found.units.dialogue_ids


def test_reports_compute_no_finding() -> None:
    """They take records from `statistics` and `studies`, never a function that makes one."""
    taken: dict[str, set[str]] = {}
    for path in Path(str(files("dialeval.reports"))).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                taken.setdefault(node.module or "", set()).update(one.name for one in node.names)
    assert taken["dialeval.statistics"] <= {"METHODS", "QUANTILES", "Bin", "Estimate"}
    assert taken["dialeval.studies"] == {"Comparison", "Inspection", "Study"}
    own = {
        name for module, names in taken.items() if module.startswith("dialeval.studies.") for name in names
    }
    assert all(name[0].isupper() for name in own), "classes and constants only"
    assert not any(module.startswith("scipy") for module in taken)
