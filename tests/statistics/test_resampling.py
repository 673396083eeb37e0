"""The bootstrap: counts against gathered rows, workers, clusters, intervals against scipy."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from dialeval.errors import UsageError
from dialeval.statistics import (
    METHODS,
    bootstrap_correlations,
    bootstrap_differences,
    bootstrap_means,
    bootstrap_statistic,
    correlate,
    resampling,
)
from dialeval.statistics import weighted as weighted_room
from dialeval.statistics.resampling import CHUNK, draw, interval, leave_out, spread
from dialeval.statistics.weighted import kernel, row_pairs


def data(n, k=4, steps=None, missing=0.0, seed=0):
    """Columns that go with a gold column, on few steps if asked, with gaps if asked."""
    rng = np.random.default_rng(seed)
    gold = rng.normal(size=n)
    columns = gold * 0.6 + rng.normal(size=(k, n))
    if steps:
        gold, columns[: k - 1] = np.round(gold * steps / 4), np.round(columns[: k - 1] * steps / 4)
    columns[1:][rng.random((k - 1, n)) < missing] = np.nan
    return columns, gold


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("n", "steps", "missing"), list(product([12, 150, 700], [None, 4, 60], [0.0, 0.4])))
def test_counts_say_what_gathered_rows_say(method, n, steps, missing):
    columns, gold = data(n, steps=steps, missing=missing, seed=n)
    counts = draw(np.random.default_rng(1), n, 12)
    fast = kernel(method, columns, gold)(counts)
    for resample, row in enumerate(counts):
        rows = np.repeat(np.arange(n), row)
        for source, column in enumerate(columns):
            slow = correlate(column[rows], gold[rows], method)
            if slow.value is not None:
                assert fast[source, resample] == pytest.approx(slow.value, abs=1e-12)


@pytest.mark.parametrize("block", [1, 2, 7, 96])
@pytest.mark.parametrize("steps", [None, 6])
def test_kendall_does_not_depend_on_where_its_blocks_end(monkeypatch, block, steps):
    columns, gold = data(90, steps=steps, missing=0.2)
    counts = draw(np.random.default_rng(3), 90, 20)
    expected = kernel("kendall", columns, gold)(counts)
    monkeypatch.setattr(weighted_room, "BLOCK", block)
    assert kernel("kendall", columns, gold)(counts) == pytest.approx(expected, abs=1e-14)


def test_kendall_stays_exact_with_heavy_weights():
    columns, gold = data(300, steps=9)
    heavy = np.random.default_rng(0).integers(0, 400, size=(3, 300)).astype(np.int32)
    fast = kernel("kendall", columns, gold)(heavy)
    for resample, row in enumerate(heavy):
        rows = np.repeat(np.arange(300), row)
        assert fast[0, resample] == pytest.approx(
            stats.kendalltau(columns[0, rows], gold[rows]).statistic, abs=1e-12
        )


def test_pearson_survives_a_large_offset_and_tiny_or_huge_scales():
    columns, gold = data(50)
    counts = draw(np.random.default_rng(0), 50, 5)
    plain = kernel("pearson", columns, gold)(counts)
    assert kernel("pearson", columns * 1e-9 + 5.0, gold)(counts) == pytest.approx(plain, abs=1e-6)
    assert kernel("pearson", columns * 1e200, gold * 1e-200)(counts) == pytest.approx(plain, abs=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_a_constant_resample_is_undefined_not_noise(method):
    columns = np.array([[0.1, 0.1, 0.1, 0.7, 0.3]])
    counts = np.array([[2, 2, 1, 0, 0], [0, 0, 0, 5, 0]], dtype=np.int32)
    assert np.isnan(kernel(method, columns, np.array([1.1, 2.3, 3.7, 4.9, 5.1]))(counts)).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("clustered", [False, True])
def test_the_fast_bootstrap_is_the_slow_one(method, clustered):
    columns, gold = data(60, steps=5)
    clusters = np.random.default_rng(0).integers(0, 15, size=60) if clustered else None
    fast = bootstrap_correlations(columns, gold, clusters, methods=[method], resamples=300, seed=4)[method]
    for column, ours in zip(columns, fast, strict=True):
        slow = bootstrap_statistic(
            np.column_stack([column, gold]),
            lambda rows: correlate(rows[:, 0], rows[:, 1], method).value,
            clusters,
            resamples=300,
            seed=4,
        )
        assert (ours.value, ours.low, ours.high) == pytest.approx((slow.value, slow.low, slow.high), abs=1e-9)


def test_r6_workers_change_nothing():
    columns, gold = data(300, k=5, steps=7, missing=0.2)
    clusters = np.arange(300) // 6
    one = bootstrap_correlations(columns, gold, clusters, resamples=1500, seed=11, workers=1)
    four = bootstrap_correlations(columns, gold, clusters, resamples=1500, seed=11, workers=4)
    assert one == four
    assert bootstrap_means(gold, clusters, workers=1) == bootstrap_means(gold, clusters, workers=4)
    other = bootstrap_correlations(columns, gold, clusters, resamples=1500, seed=12, workers=4)
    assert one != other


def test_intervals_come_near_scipys_bca():
    columns, gold = data(400, k=1)
    ours = bootstrap_correlations(columns, gold, methods=["pearson"], resamples=6000)["pearson"][0]
    peer = stats.bootstrap(
        (columns[0], gold),
        lambda x, y, axis=-1: stats.pearsonr(x, y, axis=axis).statistic,
        paired=True,
        n_resamples=6000,
        batch=500,
        rng=np.random.default_rng(1),
    ).confidence_interval
    assert (ours.low, ours.high) == pytest.approx((peer.low, peer.high), abs=0.01)


def test_whole_dialogues_are_drawn():
    """Nine copies of each item are no more evidence than one: only clusters show that."""
    columns, gold = data(40, k=1)
    copies, wide = np.repeat(columns, 9, axis=1), np.repeat(gold, 9)
    single = bootstrap_correlations(columns, gold, methods=["spearman"], resamples=3000)["spearman"][0]
    clustered = bootstrap_correlations(
        copies, wide, np.repeat(np.arange(40), 9), methods=["spearman"], resamples=3000
    )
    naive = bootstrap_correlations(copies, wide, methods=["spearman"], resamples=3000)["spearman"][0]
    found = clustered["spearman"][0]
    assert (found.low, found.high) == pytest.approx((single.low, single.high), abs=1e-9)
    assert naive.high - naive.low < 0.5 * (found.high - found.low)
    assert naive.p < 0.05 < found.p
    assert found.p == pytest.approx(single.p, abs=0.1)


def test_counts_are_multinomial():
    counts = draw(np.random.default_rng(0), 7, 5000)
    assert (counts.sum(axis=1) == 7).all()
    assert counts.mean(axis=0) == pytest.approx(np.ones(7), abs=0.05)
    assert counts.var() == pytest.approx(6 / 7, abs=0.03)


def test_leave_one_out_leaves_each_out_once():
    weights = np.concatenate([leave_out(CHUNK + 3, first) for first in (0, CHUNK)])
    assert (weights == 1 - np.eye(CHUNK + 3)).all()


def test_spread():
    counts = np.array([[2, 0, 1]], dtype=np.int32)
    assert spread(counts, np.array([0, 1, 1, 2, 0])).tolist() == [[2, 0, 0, 1, 2]]


def test_mean_interval_covers_all_draws_at_small_n():
    """With three values the bootstrap has 27 equally likely draws; the percentiles must lie among them."""
    values = [1.0, 2.0, 6.0]
    every = sorted(np.mean(p) for p in product(values, repeat=3))
    found = bootstrap_means(values, resamples=4000)
    assert found.value == 3.0
    assert every[0] <= found.low < 3.0 < found.high <= every[-1]


def test_draws_follow_the_exact_bootstrap_distribution():
    """All 4⁴ resamples of four items, enumerated, against the share of drawn means below the mean."""
    values = np.array([0.0, 1.0, 3.0, 8.0])
    exact = np.mean([np.mean(p) < 3.0 for p in product(values, repeat=4)])
    counts = draw(np.random.default_rng(2), 4, 40_000)
    assert np.mean(counts @ values / 4 < 3.0) == pytest.approx(exact, abs=0.01)


def test_clustered_mean_weighs_rows():
    found = bootstrap_means([1, 1, 1, 5, None], [0, 0, 0, 1, 1])
    assert (found.value, found.n) == (2.0, 4)
    assert (found.low, found.high) == (1.0, 5.0)


def test_percentiles_where_bca_is_undefined():
    draws = np.arange(1.0, 1001.0)
    low, high, reason = interval(0.0, draws, np.array([1.0, 1.0, 1.0]), 0.9)
    assert reason is None
    assert (
        1 <= low < 50 < 950 < high <= 1000
    )  # all draws lie above the value: the bias correction is infinite


def test_no_interval_when_most_draws_are_undefined():
    draws = np.array([np.nan, np.nan, 0.3])
    assert interval(0.3, draws, np.ones(3), 0.95) == (None, None, "undefined in most resamples")


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95])
def test_confidence_is_a_probability(confidence):
    with pytest.raises(UsageError, match="between 0 and 1"):
        bootstrap_means([1, 2, 3], confidence=confidence)


def test_shapes_are_checked():
    with pytest.raises(UsageError, match="length 3 against a gold column of length 2"):
        bootstrap_correlations([[1, 2, 3]], [1, 2])
    with pytest.raises(UsageError, match="cluster labels"):
        bootstrap_correlations([[1, 2, 3]], [1, 2, 3], [0, 1])
    with pytest.raises(UsageError, match="at least 1"):
        bootstrap_correlations([[1, 2, 3, 4, 5]], [1, 2, 4, 5, 3], resamples=0)


def test_a_higher_confidence_is_wider():
    columns, gold = data(80, k=1)
    narrow, wide = (
        bootstrap_correlations(columns, gold, methods=["kendall"], resamples=2000, confidence=c)["kendall"][0]
        for c in (0.8, 0.99)
    )
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high


@pytest.mark.parametrize("steps", [None, 5])
def test_row_pairs_are_counted_as_by_hand(steps):
    columns, gold = data(200, k=1, steps=steps)
    for x, y in ((columns[0], gold), (np.round(columns[0], 1), gold), (columns[0][:1], gold[:1])):
        signs = np.sign(x[:, None] - x) * np.sign(y[:, None] - y)
        assert row_pairs(x, y).tolist() == signs.sum(axis=1).tolist()


@pytest.mark.parametrize("steps", [None, 5])
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("count", [200, 1000])
def test_kendalls_interval_of_many_rows_is_near_the_exact_one(monkeypatch, steps, missing, count):
    """Beyond 10,000 rows the draws are first-order; the bounds move by less than 2 % of its width."""
    columns, gold = data(2_000, k=2, steps=steps, missing=missing)
    clusters = np.arange(2_000) % count
    draws = {"methods": ["kendall"], "resamples": 4_000}
    exact = bootstrap_correlations(columns, gold, clusters, **draws)["kendall"]
    monkeypatch.setattr(resampling, "MOST_PAIRED_ROWS", 1_000)
    near = bootstrap_correlations(columns, gold, clusters, **draws)["kendall"]
    assert near != exact
    for one, other in zip(near, exact, strict=True):
        assert (one.value, one.n) == (other.value, other.n)
        width = other.high - other.low
        assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=0.02 * width)
        assert one.p == pytest.approx(other.p, rel=0.05, abs=1e-6)
    gaps = [bootstrap_differences(columns, gold, [(0, 1)], "kendall", resamples=4_000, clusters=clusters)[0]]
    monkeypatch.undo()
    gaps.append(
        bootstrap_differences(columns, gold, [(0, 1)], "kendall", resamples=4_000, clusters=clusters)[0]
    )
    width = gaps[1].high - gaps[1].low
    assert (gaps[0].low, gaps[0].high) == pytest.approx((gaps[1].low, gaps[1].high), abs=0.02 * width)


def test_no_pairs_are_looked_at_in_the_draws_of_many_rows(monkeypatch):
    def refuse(*_):
        raise AssertionError("all pairs")

    monkeypatch.setattr(weighted_room.PairCount, "of", refuse)
    columns, gold = data(10_001, k=1)
    found = bootstrap_correlations(columns, gold, methods=["kendall"], resamples=100)["kendall"][0]
    assert found.low < stats.kendalltau(columns[0], gold).statistic < found.high
    with pytest.raises(AssertionError, match="all pairs"):
        bootstrap_correlations(columns[:, 1:], gold[1:], methods=["kendall"], resamples=100)


def test_the_interval_of_a_mean_stays_inside_the_data() -> None:
    values = np.zeros(20)
    values[3] = 1 / 3
    found = bootstrap_means(values, resamples=999)
    assert found.low == 0.0


@pytest.mark.parametrize("share", [1 / 3, 1 / 7, 100 / 6])
def test_an_end_of_the_data_is_no_rounding_error(share: float) -> None:
    values = np.zeros(35)
    values[:2] = share
    found = bootstrap_means(values, resamples=999)
    assert found.low is not None and (found.low == 0.0 or found.low > 1e-3)
