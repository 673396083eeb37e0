"""A study on the terminal says of each row whether it is meant to be low."""

import pytest

from dialeval.cli.tables import show_classes, show_correlations, show_subsets
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


def test_classes_are_printed_with_their_line(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [Score(f"d{i:02}", None, None, "human:a", "overall", float(i % 3)) for i in range(30)]
    rows += [Score(f"d{i:02}", None, None, "m", "x", float(i % 3 + i / 100)) for i in range(30)]
    show_classes(study(Scores.of(rows), resamples=20, permutations=20))
    tables = [part.splitlines() for part in capsys.readouterr().out.strip().split("\n\n")]
    assert [table[0] for table in tables] == [
        "# Classes of human / overall",
        "# AUC: how well a score separates labels of human / overall",
        "# Where to draw the line: human / overall, ≥ 1",
        "# Scores of the units of each label of human / overall",
    ]
    assert [line.split("\t")[:2] for line in tables[0][2:]] == [["0", "10"], ["1", "10"], ["2", "10"]]
    assert tables[1][2].split("\t") == ["m", "1.000 [1.000, 1.000]", "1.000", "30", "0"]
    assert tables[2][2].split("\t")[:4] == ["m", "≥ 0.640", "1.000 [1.000, 1.000]", "1.000"]
    assert tables[3][2].split("\t")[:4] == ["m", "0", "10", "0.135"]


def test_subsets_are_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        Score(f"d{i}", None, f"bot{i % 2}", source, "x", float(i + i % 3))
        for i in range(12)
        for source in ("human:a", "m")
    ]
    show_subsets(study(Scores.of(rows), by="system", resamples=20, permutations=20))
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines[0] == "# By system"
    assert [line.split("\t")[:3] for line in lines[2:]] == [["bot0", "m", "6"], ["bot1", "m", "6"]]
