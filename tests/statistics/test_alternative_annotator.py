"""The alternative annotator test by enumeration, and against what its authors published for MT-Bench."""

import json
import os
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from dialeval.statistics.alternative_annotator import alternative_annotator, floor

MTBENCH = Path(os.environ.get("DIALEVAL_DATA", "../shared/data")) / "judges" / "mtbench"
PUBLISHED = {  # advantage probability at epsilon .2; every winning rate is 0
    "gemini_flash": 0.72,
    "gemini_pro": 0.76,
    "gpt-4o": 0.77,
    "llama-31": 0.69,
    "gpt-4o-mini": 0.74,
    "mistral-v03": 0.68,
}


def enumerate_test(judge: list, people: np.ndarray, distance: bool, epsilon: float) -> tuple[float, float]:
    """The test item by item, as it is described."""

    def align(said: float, others: list[float]) -> float:
        if distance:
            return -float(np.sqrt(np.mean([(said - one) ** 2 for one in others])))
        return float(np.mean([said == one for one in others]))

    ps, advantages = [], []
    for rater in range(people.shape[1]):
        wins, gaps = [], []
        for item, row in enumerate(people):
            others = [one for place, one in enumerate(row) if place != rater and not np.isnan(one)]
            if np.isnan(row[rater]) or not others or np.isnan(judge[item]):
                continue
            ours, theirs = align(judge[item], others), align(row[rater], others)
            wins.append(ours >= theirs)
            gaps.append((theirs >= ours) - (ours >= theirs) * 1.0)
        if len(wins) >= 30:
            ps.append(stats.ttest_1samp(gaps, epsilon, alternative="less").pvalue)
            advantages.append(np.mean(wins))
    m, order = len(ps), np.argsort(ps)
    limit = [0.05 * (rank + 1) / m / sum(1 / i for i in range(1, m + 1)) for rank in range(m)]
    passed = [rank for rank in range(m) if ps[order[rank]] <= limit[rank]]
    return (max(passed) + 1 if passed else 0) / m, float(np.mean(advantages))


@pytest.mark.parametrize(("seed", "distance", "epsilon"), list(product(range(4), [False, True], [0.1, 0.2])))
def test_equals_the_enumeration(seed: int, distance: bool, epsilon: float) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.integers(1, 5, 80).astype(float)
    people = np.clip(truth[:, None] + rng.integers(-1, 2, (80, 4)), 1, 4)
    people[rng.random(people.shape) < 0.3] = np.nan
    judge = np.where(rng.random(80) < 0.6, truth, rng.integers(1, 5, 80))
    judge[:3] = np.nan
    options = {"alignment": "distance" if distance else "accuracy", "epsilon": epsilon}
    found = alternative_annotator(judge, people, **options)
    assert (found.winning_rate, found.advantage) == pytest.approx(
        enumerate_test(judge, people, distance, epsilon)
    )


@pytest.mark.skipif(not MTBENCH.is_dir(), reason="judges/mtbench is not in DIALEVAL_DATA")
@pytest.mark.parametrize("judge", PUBLISHED)
def test_mtbench_as_published(judge: str) -> None:
    people, judges = (json.loads((MTBENCH / f"{n}_annotations.json").read_text()) for n in ("human", "llm"))
    items = sorted({item for one in people.values() for item in one} & judges[judge].keys())
    codes = {"model_a": 0.0, "model_b": 1.0, "tie": 2.0}
    table = np.array([[codes.get(one.get(item, ""), np.nan) for one in people.values()] for item in items])
    said = [codes[judges[judge][item]] for item in items]
    found = alternative_annotator(said, table, epsilon=0.2)
    assert (found.winning_rate, found.advantage) == pytest.approx(enumerate_test(said, table, False, 0.2))
    assert (found.winning_rate, round(found.advantage, 2)) == (0.0, PUBLISHED[judge])


def test_a_constant_can_win_against_raters_who_differ() -> None:
    """Noise around one value: the mean is nearer to the others than any rater is."""
    people = np.random.default_rng(0).normal(3, 1, (100, 5))
    assert floor(people, alignment="distance", epsilon=0.1).winning_rate == 1.0
    assert floor(np.tile([[1.0], [2.0]], (50, 5)), epsilon=0.1).winning_rate == 0.0


def test_too_few_units() -> None:
    found = alternative_annotator([1.0] * 10, np.ones((10, 3)))
    assert (found.winning_rate, found.advantage) == (None, None)
    assert "30 scored units" in found.reason


def test_clusters_are_counted_once() -> None:
    rng = np.random.default_rng(1)
    people, judge = rng.integers(0, 2, (40, 3)).astype(float), rng.integers(0, 2, 40).astype(float)
    once = alternative_annotator(judge, people)
    tenfold = alternative_annotator(
        np.repeat(judge, 10), np.repeat(people, 10, axis=0), np.repeat(np.arange(40), 10)
    )
    assert [one.p for one in tenfold.raters] == pytest.approx([one.p for one in once.raters])
