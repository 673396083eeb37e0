"""Do the intervals of `trust` cover as often as they say? Simulations with known truth.

Dialogues of one to four turns with a quality of their own (clusters); three raters on a scale of five (ties);
two systems; labels are whole dialogues drawn at random. Counts and seeds stand in the tests.
"""

import numpy as np
import pytest
from scipy import special

from dialeval.errors import UsageError
from dialeval.statistics import agreement_interval, gwet_ac
from dialeval.statistics.pairwise import bradley_terry
from dialeval.statistics.prediction_powered import (
    calibrated,
    conformal_intervals,
    mean_of,
    prediction_powered,
)

pytestmark = pytest.mark.soak
LABELS = (50, 100, 300)
JUDGES = ("useless", "good", "biased")


def turns(rng: np.random.Generator, dialogues: int, judge: str) -> tuple[np.ndarray, ...]:
    """Return ratings, scores, systems and dialogues of many turns."""
    sizes = rng.integers(1, 5, dialogues)
    place = np.repeat(np.arange(dialogues), sizes)
    system = (np.arange(dialogues) % 2)[place]
    quality = 3.2 + 0.3 * system + rng.normal(0, 0.6, dialogues)[place] + rng.normal(0, 0.6, place.size)
    seats = np.clip(np.round(quality[:, None] + rng.normal(0, 0.8, (place.size, 3))), 1, 5)
    noise = rng.normal(0, 0.5, dialogues)[place] + rng.normal(0, 0.5, place.size)
    scores = noise if judge == "useless" else np.exp((quality + noise) / 3)
    return seats.mean(axis=1), scores + (0.8 * system if judge == "biased" else 0.0), system, place


def labelled(rng: np.random.Generator, ratings: np.ndarray, place: np.ndarray, n: int) -> np.ndarray:
    """Keep the ratings of random dialogues, n of each system at most."""
    kept = np.full(ratings.size, np.nan)
    for first in (0, 1):
        order = rng.permutation(np.arange(first, place[-1] + 1, 2))
        wanted = order[np.cumsum(np.bincount(place)[order]) <= n]
        kept = np.where(np.isin(place, wanted), ratings, kept)
    return kept


TRUTH = [
    float(ratings[system == one].mean())
    for ratings, _, system, _ in [turns(np.random.default_rng(99), 1_000_000, "good")]
    for one in (0, 1)
]


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize("n", LABELS)
def test_estimates_cover(judge: str, n: int) -> None:
    """2,000 draws, seed n: mean and difference of two systems, PPI++ and isotonic, cover in 93 to 97 %."""
    rng, draws = np.random.default_rng(n), 2_000
    hits: dict[str, list[bool]] = {}
    widths: dict[str, list[float]] = {}
    for _ in range(draws):
        ratings, scores, system, place = turns(rng, 800, judge)
        given = labelled(rng, ratings, place, n)
        curve = calibrated(given, scores, place)
        found = {}
        sides = [np.where(system == one, given, np.nan) for one in (0, 1)]
        for name, by, bounds in (
            ("labels", None, ()),
            ("PPI++", scores, (-np.inf, np.inf)),
            ("isotonic", curve, (0, 1)),
        ):
            means = [
                mean_of(side, place)
                if by is None
                else prediction_powered(side, np.where(system == one, by, np.nan), place, bounds=bounds)
                for one, side in enumerate(sides)
            ]
            found[f"{name} mean"] = means[0].estimate(), TRUTH[0]
            found[f"{name} difference"] = (means[1] - means[0]).estimate(), TRUTH[1] - TRUTH[0]
        for name, (one, truth) in found.items():
            hits.setdefault(name, []).append(one.low <= truth <= one.high)
            widths.setdefault(name, []).append(one.high - one.low)
    for name, hit in hits.items():
        against = np.mean(widths[name]) / np.mean(widths[f"labels {name.split()[-1]}"])
        print(f"{judge} n={n} {name}: coverage {np.mean(hit):.3f}, width x {against:.3f}")
    assert all(0.93 <= np.mean(one) <= 0.97 for one in hits.values())
    if judge == "useless":
        for name in ("PPI++ mean", "PPI++ difference"):
            assert np.mean(widths[name]) <= 1.03 * np.mean(widths[f"labels {name.split()[-1]}"])


@pytest.mark.parametrize("judge", ("useless", "good"))
@pytest.mark.parametrize("share", (0.2, 0.5))
@pytest.mark.parametrize("n", (30, 50, 100))
def test_rates_cover(judge: str, share: float, n: int) -> None:
    """3,000 draws, seed 24,000 + n: a yes or no of 1,000 dialogues, two of a task, covers in 93 to 97 %."""
    rng, draws = np.random.default_rng(24_000 + n), 3_000
    hits: dict[str, list[bool]] = {"labels": [], "PPI++": []}
    widths: dict[str, list[float]] = {name: [] for name in hits}
    task = np.repeat(np.arange(500), 2)
    for _ in range(draws):
        chance = rng.normal(0, 0.7, 500)[task] + rng.normal(0, 1, 1_000)
        passed = (chance < 1.49**0.5 * special.ndtri(share)).astype(float)
        scores = rng.normal(0, 1, 1_000) - (0.0 if judge == "useless" else chance)
        given = np.full(1_000, np.nan)
        chosen = rng.choice(1_000, n, replace=False)
        given[chosen] = passed[chosen]
        found = {"labels": mean_of(given, task), "PPI++": prediction_powered(given, scores, task)}
        for name, one in found.items():
            made = one.estimate()
            if made.low is not None:  # labels that are all the same: said, not guessed
                hits[name].append(made.low <= share <= made.high)
                widths[name].append(made.high - made.low)
    against = np.mean(widths["PPI++"]) / np.mean(widths["labels"])
    covered = {name: float(np.mean(hit)) for name, hit in hits.items()}
    print(f"rate {share} {judge} n={n}: coverage {covered}, width x {against:.3f}")
    assert all(0.93 <= one <= 0.97 for one in covered.values())
    assert judge != "useless" or against <= 1.03


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize("n", LABELS)
def test_conformal_intervals_cover(judge: str, n: int) -> None:
    """1,000 draws, seed n: the rating of a turn of a new dialogue lies in its interval in 93 to 97 %."""
    rng, hits = np.random.default_rng(n), []
    for _ in range(1_000):
        ratings, scores, _, place = turns(rng, 400, judge)
        given = labelled(rng, ratings, place, n // 2)
        low, high, half = conformal_intervals(given, scores, place)
        if half is None:  # too few dialogues: said, not guessed
            continue
        one = rng.choice(np.flatnonzero(~np.isnan(low)), 20)
        hits.append(np.mean((low[one] <= ratings[one]) & (ratings[one] <= high[one])))
    print(f"conformal {judge} n={n}: coverage {np.mean(hits):.3f} in {len(hits)} draws")
    assert 0.93 <= np.mean(hits) <= 0.97


def paired_labels(rng: np.random.Generator, dialogues: int) -> tuple[np.ndarray, np.ndarray]:
    """Return yes/no labels of two raters, seven of ten yes, in dialogues of two turns each."""
    place = np.repeat(np.arange(dialogues), 2)
    truth = rng.normal(0.6, 0.6, dialogues)[place] + rng.normal(0, 0.8, place.size)
    return (truth[:, None] + rng.normal(0, 0.5, (place.size, 2)) > 0).astype(float), place


@pytest.mark.parametrize("n", LABELS)
def test_gwet_covers(n: int) -> None:
    """1,000 draws, seed n, 999 resamples."""
    rng = np.random.default_rng(n)
    truth = gwet_ac(paired_labels(np.random.default_rng(98), 500_000)[0]).value
    hits = []
    for draw in range(1_000):
        ratings, place = paired_labels(rng, n // 2)
        found = agreement_interval(ratings, "gwet_ac", place, resamples=999, seed=draw)
        hits.append(found.low <= truth <= found.high)
    print(f"AC1 n={n}, truth {truth:.3f}: coverage {np.mean(hits):.3f}")
    assert 0.93 <= np.mean(hits) <= 0.97


@pytest.mark.parametrize("n", LABELS)
def test_bradley_terry_covers(n: int) -> None:
    """500 draws, seed n, 499 resamples: four systems, ties, two votes on an item that resemble each other."""
    rng, strengths = np.random.default_rng(n), np.array([-0.45, -0.15, 0.15, 0.45])
    hits = []
    for draw in range(500):
        item = np.repeat(np.arange(n // 2), 2)
        first = rng.integers(0, 4, n // 2)
        second = (first + rng.integers(1, 4, n // 2)) % 4
        m = (strengths[first] - strengths[second])[item]
        chance = np.exp(np.stack([m / 2, -m / 2, np.full(n, -0.7)]))
        chance = np.cumsum(chance / chance.sum(axis=0), axis=0)
        shared = np.where(rng.random(n) < 0.5, rng.random(n // 2)[item], rng.random(n))
        votes = np.array([1.0, 0.0, 0.5])[(shared > chance).sum(axis=0)]
        names = np.array(list("abcd"))
        try:
            found = bradley_terry(
                names[first[item]], names[second[item]], votes, item, resamples=499, seed=draw
            )
        except UsageError:  # a system that won or lost everything: refused, not guessed
            continue
        by_name = {one.system: one.strength for one in found.standings}
        hits += [by_name[x].low <= s <= by_name[x].high for x, s in zip("abcd", strengths, strict=True)]
    print(f"Bradley-Terry n={n}: coverage {np.mean(hits):.3f} of {len(hits)}")
    assert 0.93 <= np.mean(hits) <= 0.97
