"""Sources made of others, and that a fit never sees what it predicts."""

import numpy as np
import pytest

from dialeval.errors import UsageError
from dialeval.studies import Combination
from dialeval.studies.combination import combine
from dialeval.studies.units import Column, Floats, Key, Units


def made(units: Units, text: str, gold: Floats | None = None) -> Floats:
    combination = Combination.parse(text)
    return combine(units, combination, gold).columns[Column(combination.name, "combined")]


def units(**columns: Floats) -> Units:
    n = len(next(iter(columns.values())))
    keys = tuple(Key(f"d{i // 2:03}", f"s{i % 4}", i % 2) for i in range(n))
    return Units("turn", keys, {Column(name, "x"): np.asarray(values) for name, values in columns.items()})


def test_plain_average_and_average_of_zscores() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=30), 100 + 50 * rng.normal(size=30)
    a[3] = np.nan
    both = units(a=a, b=b)
    np.testing.assert_array_equal(made(both, "m=mean:a+b"), (a + b) / 2)
    z = [(v - np.nanmean(v)) / np.nanstd(v) for v in (a, b)]
    np.testing.assert_allclose(made(both, "m=zmean:a/x+b"), (z[0] + z[1]) / 2, atol=1e-12)


def test_a_mean_of_zscores_turns_one_dimension_only() -> None:
    rng = np.random.default_rng(4)
    columns = {Column("m", name): rng.normal(size=20) for name in ("user", "self")}
    both = Units("dialogue", tuple(Key(f"d{i}", None) for i in range(20)), columns)
    user, itself = ((v - v.mean()) / v.std() for v in columns.values())
    combination = Combination.parse("z=zmean:m/user+m/self")
    found = combine(both, combination, None, lower=frozenset({Column("m", "self")}))
    np.testing.assert_allclose(found.columns[Column("z", "combined")], (user - itself) / 2, atol=1e-12)
    found = combine(both, combination, None, lower=frozenset({Column("other", "self")}))
    np.testing.assert_allclose(found.columns[Column("z", "combined")], (user + itself) / 2, atol=1e-12)


def test_a_constant_part_adds_nothing() -> None:
    both = units(a=np.arange(6.0), c=np.full(6, 3.0))
    np.testing.assert_allclose(made(both, "m=zmean:a+c"), made(both, "m=zmean:a") / 2, atol=1e-12)


@pytest.mark.parametrize("folds", ["dialogue", "system", "5"])
def test_a_fit_never_sees_its_own_group(folds: str) -> None:
    """A feature that names each dialogue lets a leaking fit learn every rating by heart; ours learns none."""
    rng = np.random.default_rng(1)
    n = 80
    gold = np.repeat(rng.normal(size=n // 2), 2)
    names = {f"f{i}": (np.arange(n) // 2 == i).astype(float) for i in range(n // 2)}
    parts = "+".join(names)
    found = made(units(**names), f"m=fit:{parts},folds={folds}", gold)
    if folds == "system":  # the same dialogue is in two systems here, so its mark is of use
        assert np.corrcoef(found, gold)[0, 1] > 0.9
    else:
        assert np.corrcoef(found, gold)[0, 1] < 0.2
    for place in (0, 17):
        moved = gold.copy()
        group = [k for k in range(n) if k // 2 == place // 2] if folds != "system" else range(place % 4, n, 4)
        moved[list(group)] += 1000.0
        again = made(units(**names), f"m=fit:{parts},folds={folds}", moved)
        np.testing.assert_allclose(again[list(group)], found[list(group)], atol=1e-9)


def test_a_fit_finds_the_weights() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 200))
    gold = 3 * a - b + 0.1 * rng.normal(size=200)
    gold[:20] = np.nan
    found = made(units(a=a, b=b), "m=fit:a+b", gold)
    assert np.corrcoef(found[20:], gold[20:])[0, 1] > 0.99
    assert np.isfinite(found).all()


@pytest.mark.parametrize(
    "text",
    ["", "m", "m=mean", "m=mean:", "=mean:a", "m=sum:a+b", "m=fit:a,k=3", "mean:a+b"],
)
def test_notation(text: str) -> None:
    with pytest.raises(UsageError, match="expected name="):
        Combination.parse(text)


@pytest.mark.parametrize("folds", ["1", "0", "-2", "many", "99"])
def test_impossible_folds(folds: str) -> None:
    with pytest.raises(UsageError, match="folds"):
        made(units(a=np.arange(6.0)), f"m=fit:a,folds={folds}", np.arange(6.0))


def test_missing_parts_and_missing_gold() -> None:
    with pytest.raises(UsageError, match="no source 'b'; there are: a"):
        made(units(a=np.arange(6.0)), "m=mean:a+b")
    with pytest.raises(UsageError, match="need ratings to fit to"):
        made(units(a=np.arange(6.0)), "m=fit:a")


def test_the_signature_says_how() -> None:
    assert str(Combination.parse("m=fit:a+b/x").signature) == "combination.v1|method:fit|parts:a,b/x|folds:10"
    assert str(Combination.parse("m=mean:a+b").signature) == "combination.v1|method:mean|parts:a,b"
    assert Combination.parse("m=fit:a,folds=dialogue").signature != Combination.parse("m=fit:a").signature
