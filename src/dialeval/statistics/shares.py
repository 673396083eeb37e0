"""How many of so many: a share with its interval."""

from statistics import NormalDist

from dialeval.statistics.estimate import Estimate


def share(hits: int, n: int, confidence: float = 0.95) -> Estimate:
    """Return a share with Wilson's interval, which has a width even where all or none are hits.

    >>> found = share(28, 28)
    >>> found.value, round(found.low, 3), found.high
    (1.0, 0.879, 1.0)
    """
    if not n:
        return Estimate.undefined("n = 0")
    z, value = NormalDist().inv_cdf((1 + confidence) / 2), hits / n
    middle, scale = value + z * z / (2 * n), 1 + z * z / n
    half = z * (value * (1 - value) / n + z * z / (4 * n * n)) ** 0.5
    return Estimate(value, n, max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale))
