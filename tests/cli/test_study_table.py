"""A study on the terminal says of each row whether it is meant to be low."""

import pytest

from dialeval.cli.tables import show_correlations
from dialeval.scores import Score, Scores, Signature
from dialeval.studies import study


def test_lower_is_better_is_said_of_the_dimension(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        Score(f"d{i}", None, None, source, dimension, sign * (i + i % 3))
        for i in range(8)
        for source, dimension, sign in (
            ("human:a", "overall", 1.0),
            ("two", "user", 1.0),
            ("two", "self", -1.0),
            ("rep", "rep", -1.0),
        )
    ]
    signatures = {
        name: Signature.parse(f"{name}.v1|better:{better}")
        for name, better in (("two", "self=lower"), ("rep", "lower"))
    }
    show_correlations(study(Scores.of(rows, signatures), resamples=20, permutations=20))
    names = {line.partition("\t")[0] for line in capsys.readouterr().out.splitlines()[1:]}
    assert names == {"two/user", "two/self (lower is better)", "rep (lower is better)"}
