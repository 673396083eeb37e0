"""pass@k and pass^k by enumeration of runs; power against statsmodels and a small simulation."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestIndPower

from dialeval.errors import UsageError
from dialeval.statistics.power import Precision
from dialeval.statistics.repeats import pass_rates


@pytest.mark.parametrize("k", [1, 2, 3])
def test_pass_rates_count_all_choices(k: int) -> None:
    runs = {"a": [1, 0, 1, 1], "b": [0, 0, 0, 1], "c": [1, 1, 1, 1], "d": [1, 0, 0]}
    some = [np.mean([any(chosen) for chosen in combinations(one, k)]) for one in runs.values()]
    every = [np.mean([all(chosen) for chosen in combinations(one, k)]) for one in runs.values()]
    outcomes = [value for one in runs.values() for value in one]
    (found,) = pass_rates(outcomes, [task for task, one in runs.items() for _ in one], [k])
    assert (found.any.value, found.all.value) == pytest.approx((np.mean(some), np.mean(every)))
    low, _ = stats.t.interval(0.95, 3, np.mean(every), stats.sem(every))
    assert found.all.low == pytest.approx(max(0.0, low))


def test_tasks_with_too_few_runs_are_counted() -> None:
    one, two = pass_rates([1, 0, 1], ["a", "a", "b"], [2, 5])
    assert (one.too_few, two.too_few, two.any.reason) == (1, 2, "no task has 5 runs")
    with pytest.raises(UsageError, match="0 or 1"):
        pass_rates([2], ["a"])


@pytest.mark.parametrize(("difference", "sd", "n"), [(0.4, 1.0, 100), (0.2, 0.5, 60), (1.0, 2.0, 30)])
def test_power_without_a_judge_is_the_t_test(difference: float, sd: float, n: int) -> None:
    expected = TTestIndPower().power(difference / sd, n, 0.05)
    assert Precision(sd).power(difference, n) == pytest.approx(expected, abs=1e-6)
    needed = Precision(sd).labels_for(difference)
    assert needed == pytest.approx(
        np.ceil(TTestIndPower().solve_power(difference / sd, power=0.8, alpha=0.05))
    )


def test_a_judge_saves_labels_and_clusters_cost_some() -> None:
    plain, judged = Precision(1.0), Precision(1.0, correlation=0.7, scored=1_000)
    assert judged.labels_for(0.3) < plain.labels_for(0.3) < Precision(1.0, design=1.5).labels_for(0.3)
    assert Precision(1.0, pairing=0.5).labels_for(0.3) < plain.labels_for(0.3)
    assert judged.error(1_000) == plain.error(1_000)
    assert plain.labels_for(1e-4) is None
    with pytest.raises(UsageError):
        plain.labels_for(0)
