"""The points of a report are those that the study correlated."""

import numpy as np
from report_cases import opposite

from dialeval.reports.observations import observe
from dialeval.studies import study


def test_a_combination_turns_the_same_columns_as_the_study() -> None:
    scores = opposite(40)
    combined = "both=zmean:two/self+two/user"
    found = study(scores, combine=(combined,), resamples=100, permutations=100)
    told = next(row for row in found.correlations if row["label"] == "both")
    values, gold = observe(found, scores).pairs("both")
    assert np.isclose(np.corrcoef(values, gold)[0, 1], told["pearson"]["value"], atol=1e-9)
    assert told["pearson"]["value"] > 0.9
