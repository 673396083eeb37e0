"""Power and sample size of labels, with and without a judge.

The mean of n labels has the variance s² / n. With a judge that scores N units and correlates with the labels
by r, prediction-powered inference reduces it to s² / n · (1 - r² (1 - n / N)). `design` is the design effect
of clusters: the ratio of the variance of a mean over clusters to that over single units.
"""

from dataclasses import dataclass

import numpy as np

from dialeval.errors import UsageError

MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class Precision:
    """The precision of labels.

    Attributes:
        sd: Standard deviation of the labels.
        correlation: Correlation of the judge with the labels; 0 without a judge.
        scored: Units of a system that the judge scores; None if unlimited.
        design: Design effect of clusters.
        pairing: Correlation of the labels of two systems on the same item; 0 where items differ.
    """

    sd: float
    correlation: float = 0.0
    scored: int | None = None
    design: float = 1.0
    pairing: float = 0.0

    def error(self, n: float) -> float:
        """Return the standard error of the mean of one system, from n labels.

        >>> round(Precision(1.0).error(100), 4), round(Precision(1.0, 0.6).error(100), 4)
        (0.1, 0.08)
        """
        rest = 1.0 if self.scored is None else max(0.0, 1 - n / self.scored)
        return float(self.sd * np.sqrt(self.design / n * (1 - self.correlation**2 * rest)))

    def power(self, difference: float, n: float, alpha: float = 0.05) -> float:
        """Return the power of n labels per system for a true difference, two-sided.

        >>> round(Precision(1.0).power(0.4, 100), 3)
        0.804
        """
        from scipy import stats

        df = max(1.0, 2 * (n / self.design - 1))
        shift = abs(difference) / (self.error(n) * np.sqrt(2 * (1 - self.pairing)))
        edge = stats.t.isf(alpha / 2, df)
        return float(stats.nct.sf(edge, df, shift) + stats.nct.cdf(-edge, df, shift))

    def labels_for(self, difference: float, power: float = 0.8, alpha: float = 0.05) -> int | None:
        """Return the labels per system that show a difference with this power; None if above a million.

        >>> Precision(1.0).labels_for(0.4), Precision(1.0, 0.6).labels_for(0.4)
        (100, 64)
        """
        if difference == 0 or not 0 < power < 1:
            raise UsageError("a difference other than 0 and a power between 0 and 1 are needed")
        low, high = 2, 4
        while self.power(difference, high, alpha) < power:
            low, high = high, high * 2
            if high > MOST:
                return None
        while low < high:
            middle = (low + high) // 2
            low, high = (
                (low, middle) if self.power(difference, middle, alpha) >= power else (middle + 1, high)
            )
        return high
