"""Clustered bootstrap of correlations against `scipy.stats.bootstrap`, in one run on the same data.

20 sources, 2,200 dialogues, 10,000 resamples, BCa intervals, one worker on both sides. scipy gets its
vectorised form where one exists (Pearson; Spearman as Pearson between vectorised ranks) and batches that fit
the cache; Kendall has no vectorised form and is called per resample. scipy is run on one source with fewer
resamples and scaled linearly; the output says so. Its BCa jackknife does not grow with the resamples, so it
is timed apart and added once. Times are CPU seconds, so that a busy machine does not decide.

    python benchmarks/bootstrap.py [--full]     --full gives scipy all 10,000 resamples (of one source)
"""

import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: one core for both sides

from time import process_time

import numpy as np
from scipy import stats

from dialeval.statistics import METHODS, bootstrap_correlations

SOURCES, DIALOGUES, RESAMPLES, SEED = 20, 2_200, 10_000, 0
PEER_RESAMPLES = {"pearson": 2_000, "spearman": 1_000, "kendall": 300}


def made_up_data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(SEED)
    gold = rng.normal(size=DIALOGUES)
    return 0.5 * gold + rng.normal(size=(SOURCES, DIALOGUES)), gold


def pearson(x: np.ndarray, y: np.ndarray, axis: int = -1) -> np.ndarray:
    """Moments by hand: leaner than `pearsonr`, which would also compute p-values."""
    x, y = x - x.mean(axis=axis, keepdims=True), y - y.mean(axis=axis, keepdims=True)
    return (x * y).sum(axis=axis) / np.sqrt((x * x).sum(axis=axis) * (y * y).sum(axis=axis))


def spearman(x: np.ndarray, y: np.ndarray, axis: int = -1) -> np.ndarray:
    return pearson(stats.rankdata(x, axis=axis), stats.rankdata(y, axis=axis), axis=axis)


def kendall(x: np.ndarray, y: np.ndarray) -> float:
    return stats.kendalltau(x, y).statistic


STATISTICS = {"pearson": pearson, "spearman": spearman, "kendall": kendall}


def timed_peer(
    column: np.ndarray, gold: np.ndarray, method: str, resamples: int, kind: str
) -> tuple[float, object]:
    """Seconds of scipy for one source; `percentile` leaves the jackknife out."""
    start = process_time()
    found = stats.bootstrap(
        (column, gold),
        STATISTICS[method],
        paired=True,
        vectorized=method != "kendall",
        n_resamples=resamples,
        batch=50,
        method=kind,
        rng=np.random.default_rng(SEED),
    )
    return process_time() - start, found.confidence_interval


def peer_seconds(column: np.ndarray, gold: np.ndarray, method: str, resamples: int) -> tuple[float, object]:
    draws, _ = timed_peer(column, gold, method, resamples, "percentile")
    both, bounds = timed_peer(column, gold, method, resamples, "BCa")
    jackknife = max(0.0, both - draws)
    return SOURCES * (draws * RESAMPLES / resamples + jackknife), bounds


def main() -> None:
    columns, gold = made_up_data()
    bootstrap_correlations(columns[:1], gold, resamples=10)  # imports done before the clock starts
    print(f"{SOURCES} sources x {DIALOGUES} dialogues, {RESAMPLES} draws, BCa, CPU seconds, seed {SEED}")
    for method in METHODS:
        start = process_time()
        found = bootstrap_correlations(columns, gold, methods=[method], resamples=RESAMPLES, seed=SEED)
        mine, ours = process_time() - start, found[method][0]
        resamples = RESAMPLES if "--full" in sys.argv else PEER_RESAMPLES[method]
        theirs, bounds = peer_seconds(columns[0], gold, method, resamples)
        print(
            f"{method:9} dialeval {mine:6.2f} s  scipy {theirs:7.1f} s  {theirs / mine:5.1f} times  "
            f"(scipy: 1 source, {resamples} draws, scaled linearly)\n"
            f"          {ours.low:.4f} to {ours.high:.4f}, scipy {bounds.low:.4f} to {bounds.high:.4f}"
        )


if __name__ == "__main__":
    main()
