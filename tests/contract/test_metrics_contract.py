"""Every registered metric against every awkward input, and the promises on signatures and sameness."""

import copy
import dataclasses
import math
import random
import typing
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from awkward import CASES

from dialeval.dialogues import Dialogue, scored_turns
from dialeval.dialogues.votes import Vote, write_votes
from dialeval.jobs.demo import example_dialogues
from dialeval.metrics import build, metric_names, signature_of
from dialeval.metrics.registry import metric_class
from dialeval.scores import SCHEMA

METRICS = metric_names()


@cache
def copied(case: str) -> list[Dialogue]:
    """Return a copy made before any metric saw the case."""
    return copy.deepcopy(CASES[case])


@cache
def levels(name: str) -> frozenset[bool]:
    """What a metric scores on ordinary dialogues: whole dialogues (True), turns (False), or both."""
    return frozenset(row.turn is None for row in build(name).score(example_dialogues()[::10]))


def units(made: Any, dialogues: list[Dialogue]) -> Counter[tuple[str, int | None, str]]:
    """One row per scorable unit and dimension, no more and no fewer."""
    name = made.name.rpartition(".v")[0]
    wanted: Counter[tuple[str, int | None, str]] = Counter()
    for dialogue in dialogues:
        turns: list[int | None] = [*scored_turns(dialogue)] if False in levels(name) else []
        whole: list[int | None] = [None] if True in levels(name) else []
        wanted.update(
            (dialogue.id, turn, dimension) for turn in turns + whole for dimension in made.dimensions
        )
    return wanted


# Learned metrics of one kind take 10,000 turns alike: `quality` stands for those of turns, `faults` among
# them, which it reads, `floweval` for those that search a corpus. The others take them in `make soak`.
LONG = "10,000 turns"
LIKE_OTHERS = {
    *("bertscore", "coherence", "consensus", "consensus-bertscore", "dialoguescore", "floweval-seg"),
    *("similarity", "student", "turn-quality", "user-reaction", "ruber", "bert-ruber", "pone"),
    *("predictive-engagement", "dynaeval", "flow-score", "outcome", "faults"),
}
TRIED = [
    pytest.param(name, case, marks=[pytest.mark.soak] if case == LONG and name in LIKE_OTHERS else [])
    for name in METRICS
    for case in CASES
]


@pytest.mark.parametrize(("name", "case"), TRIED)
def test_awkward_input_is_data(name: str, case: str) -> None:
    given_dialogues = CASES[case]
    before = copied(case)
    made = build(name)
    scores = made.score(given_dialogues)
    assert given_dialogues == before, "input was changed"
    assert scores.table.schema.equals(SCHEMA)
    assert set(scores.sources) <= {name}
    for row in scores:
        assert row.dimension in made.dimensions
        assert row.value is None or math.isfinite(row.value)
        assert row.value is not None or row.note, "unscored without a reason"
    assert Counter((row.dialogue_id, row.turn, row.dimension) for row in scores) == units(
        made, given_dialogues
    )


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", METRICS)
def test_order_and_company_change_nothing(name: str, every: int) -> None:
    """R1: a dialogue's scores do not depend on its neighbours; rows come in the order of the input."""
    dialogues = example_dialogues()[::every]
    made = build(name)
    alone = {
        dialogue.id: [row[:1] + row[1:2] + row[4:] for row in made.score([dialogue])]
        for dialogue in dialogues
    }
    for seed in range(3):
        mixed = random.Random(seed).sample(dialogues, len(dialogues))
        found: dict[str, list[tuple]] = {}
        for row in made.score(iter(mixed)):  # a generator is enough
            found.setdefault(row.dialogue_id, []).append(row[:1] + row[1:2] + row[4:])
        assert list(found) == [dialogue.id for dialogue in mixed if alone[dialogue.id]]
        for dialogue_id, rows in found.items():
            assert [row[:3] for row in rows] == [row[:3] for row in alone[dialogue_id]]
            for one, other in zip(rows, alone[dialogue_id], strict=True):
                scale = 100.0 if one[2] == "percentile" else 1.0  # of 100, not of 1
                near = None if other[3] is None else pytest.approx(other[3], abs=1e-5 * scale)
                assert one[3] == near


def values_of(hint: typing.Any) -> list[typing.Any]:
    """Return values that a field may have, awkward ones included."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return list(arguments)
    if type(None) in arguments:
        return [None, *(value for one in arguments if one is not type(None) for value in values_of(one))]
    if origin is tuple:
        return [(0.0,) * 8, (0.0,) * 7 + (1.0,), (1.0,) + (0.0,) * 7]
    texts = ["", " ", "-", "None", "a", "A", "a|n:2", "a,b", "é", "e\u0301", "'", '"', "\n", "\\n", "%7C"]
    simple = {int: [1, 2, 9], float: [0.0, 0.1, 0.1 + 2**-54, 1e-9, 1.0], bool: [False, True], str: texts}
    return simple[hint]


@pytest.mark.parametrize("name", METRICS)
def test_signature_follows_the_fields(name: str) -> None:
    """R4: any change of any field changes the signature; equal fields, equal string."""
    cls = metric_class(name)
    hints = typing.get_type_hints(cls)
    for item in dataclasses.fields(cls):
        values = values_of(hints[item.name])
        if name == "multiwoz":  # None is what the task says there, and the signature names that
            values = [value for value in values if value is not None]
        made = [str(signature_of(cls(**{item.name: value}))) for value in values]
        assert made == [str(signature_of(cls(**{item.name: value}))) for value in values]
        assert len(set(made)) == len(values), item.name
        assert all(one.startswith(f"{cls.name}|") for one in made)


@pytest.mark.parametrize("name", METRICS)
def test_metrics_are_frozen_and_documented(name: str) -> None:
    cls = metric_class(name)
    assert dataclasses.is_dataclass(cls)
    assert cls.__dataclass_params__.frozen
    assert cls.__doc__
    assert ">>>" in cls.__doc__, "a docstring shows a real number"
    with pytest.raises(dataclasses.FrozenInstanceError):
        build(name).name = "other"


# What these score needs something that no test has by default; awkward input is tried there with it.
WITH_MORE = {
    "fed": "metrics/test_followup.py",
    "followup": "metrics/test_followup.py",
    "goal": "metrics/test_agent.py",
    "judge": "metrics/test_judge.py",
    "multiwoz": "metrics/test_multiwoz.py",
    "voted-appropriateness": "contract/test_metrics_contract.py",
    "weak-agreement": "contract/test_metrics_contract.py",
}


@pytest.mark.parametrize("name", METRICS)
def test_the_contract_is_about_numbers(name: str) -> None:
    """A metric that scores nothing here would pass everything above without being tried."""
    has_numbers = any(row.value is not None for row in build(name).score(example_dialogues()[:3]))
    there = Path(__file__).parents[1] / WITH_MORE.get(name, "")
    assert has_numbers or there.is_file(), "try awkward input with what the metric needs, and say here where"


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.soak] if case == LONG else []) for case in CASES]
)
def test_awkward_input_for_a_student_of_whole_dialogues(case: str) -> None:
    made = build("student:model=dialeval-consensus-student")
    scores = made.score(CASES[case])
    assert all(math.isfinite(row.value) if row.value is not None else row.note for row in scores)
    assert Counter((row.dialogue_id, row.turn, row.dimension) for row in scores) == units(made, CASES[case])


@pytest.mark.parametrize("case", [case for case in CASES if case != LONG], ids=str)
@pytest.mark.parametrize("name", ["weak-agreement", "voted-appropriateness"])
def test_awkward_input_with_votes(name: str, case: str, tmp_path: Path) -> None:
    places = [(dialogue.id, turn) for dialogue in CASES[case] for turn in range(len(dialogue.turns))]
    texts = ("Hello", "", "\x00 😀", "?!")
    write_votes([Vote(*place, "ann", text) for place in places for text in texts], tmp_path / "votes.jsonl")
    made = metric_class(name)(votes=str(tmp_path / "votes.jsonl"))
    scores = made.score(CASES[case])
    assert all(row.value is None or math.isfinite(row.value) for row in scores)
    assert all(row.value is not None or row.note for row in scores)
    assert Counter((row.dialogue_id, row.turn, row.dimension) for row in scores) == units(made, CASES[case])
