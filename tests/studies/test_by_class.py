"""Classes of the gold: which they are, how sources score them, the line between them; on ConTurE too."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from dialeval.jobs.benchmark import benchmark
from dialeval.scores import Score, Scores, Signature
from dialeval.studies import study

QUICK: dict[str, Any] = {"resamples": 50, "permutations": 50}


def rated(ratings: list[list[float]], **sources: list[float | None]) -> Scores:
    """Dialogues with one list of ratings a rater, and one of values a source."""
    rows = [
        Score(f"d{i:03}", None, None, f"human:{rater}", "overall", value)
        for rater, values in enumerate(ratings)
        for i, value in enumerate(values)
    ]
    rows += [
        Score(f"d{i:03}", None, None, source, "x", value)
        for source, values in sources.items()
        for i, value in enumerate(values)
    ]
    return Scores.of(rows, {"less": Signature.parse("less.v1|better:lower")} if "less" in sources else {})


def numbers(seed: int, n: int = 60) -> tuple[list[float], list[float]]:
    random = np.random.default_rng(seed)
    labels = random.integers(0, 3, n)
    return labels.astype(float).tolist(), (labels + random.normal(size=n)).tolist()


def test_labels_are_counted_and_the_middle_one_is_upper() -> None:
    labels, values = numbers(0)
    found = study(rated([labels], m=values), **QUICK)
    members = found.labels.classes
    assert [(one.label, one.name, one.upper, one.n) for one in members] == [
        (label, f"{label:g}", label >= 1, labels.count(label)) for label in (0.0, 1.0, 2.0)
    ]
    assert [one.share.value for one in members] == pytest.approx(
        [labels.count(label) / 60 for label in (0.0, 1.0, 2.0)]
    )
    assert (found.labels.rule, found.labels.cut, found.labels.reason) == ("values", 1.0, None)
    (row,) = found.classes
    auc = row.cuts[0].auc
    assert auc.value == pytest.approx(roc_auc_score(np.array(labels) >= 1, values))
    assert auc.low < auc.value < auc.high
    assert row.threshold.accuracy.value > 0.6
    assert row.threshold.lowest <= row.threshold.highest


def test_of_several_raters_the_majority_decides() -> None:
    first, second, third = [0, 0, 1, 1, 0, 1, 2, 2], [0, 1, 1, 1, 0, 1, 2, 2], [0, 2, 1, 0, 0, 1, 1, 2]
    scores = rated([first, second, third], m=[float(i) for i in range(8)])
    found = study(scores, **QUICK)
    assert [one.n for one in found.labels.classes] == [2, 3, 2]
    assert found.labels.n_unlabelled == 1  # 0, 1, 2: nobody agrees
    assert sum(one.n for one in study(scores, tie="lowest", **QUICK).labels.classes) == 8


def test_ratings_with_many_values_are_split_at_their_median() -> None:
    gold = np.random.default_rng(1).normal(size=41)
    found = study(rated([gold.tolist()], m=gold.tolist()), **QUICK)
    assert (found.labels.rule, found.labels.median) == ("halves", pytest.approx(np.median(gold)))
    assert [(one.name, one.n) for one in found.labels.classes] == [
        ("lower half", 20),
        ("upper half", 21),
    ]
    (row,) = found.classes
    assert [cut.at for cut in row.cuts] == [1.0]
    assert row.cuts[0].auc.value == 1.0


def test_where_less_is_better_the_line_is_from_above() -> None:
    labels, values = numbers(2)
    found = study(rated([labels], more=values, less=[-value for value in values]), **QUICK)
    more, less = ({row.label: row.threshold for row in found.classes}[name] for name in ("more", "less"))
    assert (more.upper, less.upper) == ("above", "below")
    assert less.value == -more.value
    assert (less.lowest, less.highest) == (-more.highest, -more.lowest)
    assert less.accuracy == more.accuracy


def test_one_class_and_silent_sources_are_said() -> None:
    same = study(rated([[1.0] * 8], m=[float(i) for i in range(8)]), **QUICK)
    assert (same.labels.cut, same.labels.reason, same.classes) == (None, "one class", ())
    assert same.labels.classes[0].share.value == 1.0
    labels, _ = numbers(3)
    flat = study(rated([labels], m=[2.0] * 60), **QUICK).classes[0]
    assert (flat.cuts[0].auc.value, flat.threshold.value) == (0.5, None)
    assert flat.threshold.accuracy.reason == "constant"


def test_conture_has_the_classes_of_its_file(data_folder: Path) -> None:
    found = benchmark("conture", ["length"], **QUICK).study
    chats = json.loads((data_folder / "conture" / "data.json").read_text(encoding="utf-8"))
    counts = Counter(float(turn["overall impression"]) for chat in chats for turn in chat["turns"])
    assert {one.label: one.n for one in found.labels.classes} == dict(counts)
    assert [one.n for one in found.labels.classes] == [155, 109, 266]
    assert [round(one.share.value, 3) for one in found.labels.classes] == [0.292, 0.206, 0.502]
