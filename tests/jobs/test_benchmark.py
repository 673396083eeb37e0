"""Peers' correlations on the public sets at hand, to three decimals, through the whole of `benchmark`."""

from pathlib import Path

import pytest

from dialeval.errors import UsageError
from dialeval.jobs.benchmark import benchmark

FIGURES = [
    ("controllable", None, 125, "floweval_v3", (0.306, 0.294, 0.223)),
    ("controllable", None, 125, "bertscore", (0.246, 0.205, 0.152)),
    ("fed", None, 60, "dynaeval_empathetic", (0.462, 0.496, 0.347)),
    ("fed", None, 60, "floweval_v3", (0.405, 0.372, 0.257)),
    ("dstc9", None, 1100, "flow_flipped", (0.166, 0.156, 0.113)),
    ("dstc9", None, 1100, "floweval_v3", (0.091, 0.113, 0.082)),
    ("dstc9", None, 1100, "judge_gpt4_overall_mean5", (0.242, 0.233, 0.173)),
    ("dstc9", "system", 11, "judge_gpt4_overall_mean5", (0.970, 0.991, 0.964)),
    ("dstc9", "system", 11, "flow_flipped", (0.971, 0.973, 0.891)),
]


@pytest.mark.parametrize(("name", "level"), dict.fromkeys((name, level) for name, level, *_ in FIGURES))
def test_peers_give_the_known_figures(data_folder: Path, name: str, level: str | None) -> None:
    wanted = {source: (n, figures) for one, at, n, source, figures in FIGURES if (one, at) == (name, level)}
    sources = (*wanted, "turns")
    part = "test#0-9" if name == "controllable" else None  # the official test part, as its figures are for
    found = benchmark(
        name, ["turns"], peers=True, level=level, part=part, sources=sources, resamples=100, permutations=100
    )
    rows = {row["source"]: row for row in found.study.correlations}
    for source, (n, figures) in wanted.items():
        assert rows[source]["n"] == n
        measured = [rows[source][method]["value"] for method in ("pearson", "spearman", "kendall")]
        assert measured == pytest.approx(figures, abs=5.5e-4), source
    assert found.seen == {"turns": "none"}


def test_benchmark_writes_a_run_with_everything_joined(data_folder: Path, tmp_path: Path) -> None:
    found = benchmark(
        "fed", ["length"], peers=True, level="turn", out=tmp_path / "run", resamples=100, permutations=100
    )
    assert found.study.settings["level"] == "turn"
    assert found.study.gold == {
        "source": "human",
        "dimension": "overall",
        "raters": 5,
        "n": 180,
        "n_unrated": 1156,  # other turns of the bots
    }
    assert (tmp_path / "run" / "joined.parquet").is_file()
    assert (tmp_path / "run" / "study.json").is_file()


def test_published_figures_stand_beside(data_folder: Path) -> None:
    found = benchmark("conture", ["length"], resamples=100, permutations=100)
    assert {row["source"]: row["pearson"] for row in found.published}["Regression (sentiment)"] == 0.34


def test_unrated_sets_are_refused() -> None:
    with pytest.raises(UsageError, match="nobody rated"):
        benchmark("sgd")


def test_a_set_that_was_left_out_of_training_was_not_seen() -> None:
    from dialeval.jobs.benchmark import _seen
    from dialeval.metrics import build

    made = build("dialoguescore")
    assert _seen(made, "uss") == "multiwoz, sgd; without the dialogues of uss"
    assert "HAS SEEN sgd" in _seen(made, "sgd") or "another part" in _seen(made, "sgd")
    assert _seen(made, "fed") == "multiwoz, sgd"
