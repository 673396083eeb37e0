"""R9: what cannot be computed is None with a reason, never NaN, never a warning."""

import dataclasses
import json
import math
import subprocess
import sys

import numpy as np
import pytest

from dialeval.statistics import (
    METHODS,
    Estimate,
    agreement_interval,
    auc,
    bootstrap_correlations,
    bootstrap_means,
    cohen_kappa,
    correlate,
    fleiss_kappa,
    human_ceiling,
    krippendorff_alpha,
    paired_bootstrap,
    paired_randomisation,
    permute_differences,
    permute_means,
    raw_agreement,
)

NAN = math.nan
PAIRS = {
    "constant": ([3.0] * 8, [1.0, 2, 3, 4, 5, 6, 7, 8]),
    "both constant": ([3.0] * 8, [1.0] * 8),
    "n = 0": ([], []),
    "n = 1": ([1.0], [2.0]),
    "n = 2": ([1.0, 2.0], [2.0, 1.0]),
    "all missing": ([NAN] * 5, [1.0, 2, 3, 4, 5]),
    "no overlap": ([1.0, 2, 3, NAN, NAN, NAN], [NAN, NAN, NAN, 1.0, 2, 3]),
}
TABLES = {
    "empty": (np.zeros((0, 3)), "no ratings"),
    "all missing": (np.full((4, 3), NAN), "no ratings"),
    "one rater": ([[1.0], [2.0], [3.0]], "one rater"),
    "one rater of three": ([[1.0, NAN, NAN], [2.0, NAN, NAN], [3.0, NAN, NAN]], "one rater"),
    "no overlap": ([[1.0, NAN], [NAN, 2.0], [3.0, NAN]], "no overlap"),
    "constant": ([[2.0, 2.0]] * 5, "constant"),
}


def check(estimate):
    assert isinstance(estimate, Estimate)
    assert (estimate.value is None) <= (estimate.reason is not None)
    json.dumps(dataclasses.asdict(estimate), allow_nan=False)
    return estimate


@pytest.mark.parametrize("case", PAIRS)
@pytest.mark.parametrize("method", METHODS)
def test_undefined_correlations_have_a_reason(case, method):
    x, gold = PAIRS[case]
    expected = "constant" if "constant" in case else "n < 3"
    assert check(correlate(x, gold, method)).reason == expected
    assert check(correlate(gold, x, method)).reason == expected
    boot = bootstrap_correlations([x], gold, methods=[method], resamples=50)[method][0]
    assert check(boot).reason == expected
    z = np.arange(len(x), dtype=float)
    assert check(permute_differences([x, z], gold, [(0, 1)], method, 50)[0]).reason == expected
    check(auc(x, np.arange(len(x)) % 2))


@pytest.mark.parametrize("case", TABLES)
def test_undefined_agreement_has_a_reason(case):
    table, reason = TABLES[case]
    for level in ("nominal", "ordinal", "interval", "ratio"):
        assert check(krippendorff_alpha(table, level)).reason == reason
        assert check(agreement_interval(table, level=level, resamples=50)).reason == reason
    assert check(fleiss_kappa(table)).reason == reason
    if case != "constant":
        assert check(raw_agreement(table)).reason == reason
        assert check(human_ceiling(table)).reason == reason
    else:
        assert check(raw_agreement(table)).value == 1.0
        assert check(human_ceiling(table)).reason == "constant"


def test_negative_values_have_no_ratio_scale():
    assert check(krippendorff_alpha([[-1, 1], [1, 2]], "ratio")).reason == "negative values on a ratio scale"


def test_cohen_without_anything_shared():
    assert check(cohen_kappa([1, None], [None, 1])).reason == "no overlap"
    assert check(cohen_kappa([1, 1], [1, 1])).reason == "constant"


def test_one_cluster_has_a_value_but_no_interval():
    found = bootstrap_correlations([[1, 2, 3, 4]], [1, 3, 2, 4], [0, 0, 0, 0])
    for method in METHODS:
        assert check(found[method][0]).reason == "one cluster"
        assert found[method][0].value is not None
        assert found[method][0].low is None
    assert check(bootstrap_means([1, 2, 3], [0, 0, 0])).reason == "one cluster"
    assert check(bootstrap_means([1])).reason == "n < 2"
    assert check(bootstrap_means([None, None])).reason == "no values"


@pytest.mark.parametrize("missing", [0.0, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("steps", [None, 2])
def test_any_share_of_missing_is_answered(missing, steps):
    rng = np.random.default_rng(int(missing * 10))
    gold = rng.normal(size=60)
    columns = gold + rng.normal(size=(6, 60))
    columns[5] = 4.0
    if steps:
        gold, columns = np.round(gold), np.round(columns)
    columns[rng.random(columns.shape) < missing] = NAN
    gold[rng.random(60) < missing / 3] = NAN
    clusters = np.arange(60) // 4
    for estimates in bootstrap_correlations(columns, gold, clusters, resamples=300).values():
        assert estimates[5].value is None
        for e in estimates[:5]:
            check(e)
            if e.low is not None:
                assert -1 <= e.low <= e.high <= 1
    table = columns[:5].T
    for statistic in ("krippendorff_alpha", "fleiss_kappa", "raw_agreement"):
        check(agreement_interval(table, statistic, clusters, resamples=100))
    check(human_ceiling(table, resamples=100))
    check(paired_bootstrap(columns[0], columns[1], clusters=clusters, resamples=100))
    check(paired_randomisation(columns[0], columns[1], clusters=clusters, permutations=100))
    check(permute_means(columns[0], columns[1], permutations=100))


def test_perfect_and_tiny_data_have_degenerate_but_honest_intervals():
    found = bootstrap_correlations([[1, 2, 3, 4, 5]], [2, 4, 6, 8, 10], resamples=200)
    for method in METHODS:
        e = check(found[method][0])
        assert e.value == pytest.approx(1.0)
        assert (e.low, e.high) == pytest.approx((1.0, 1.0))


def test_extreme_numbers_do_not_warn():
    for x in ([1e300, -1e300, 1e299, 5.0], [1e-300, 2e-300, 3e-300, 9e-300], [1 + 1e-16, 1, 1 + 1e-15, 1]):
        for method in METHODS:
            check(correlate(x, [1, 2, 3, 4], method))
            check(bootstrap_correlations([x], [1, 2, 3, 4], methods=[method], resamples=50)[method][0])


def test_the_room_is_light_to_enter():
    code = "import sys, dialeval.statistics; print(any(m.split('.')[0] == 'scipy' for m in sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "False\n"
    )
