"""What a metric says about which way is good, and where it is to be read."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from dialeval.cli import catalogue
from dialeval.dialogues import Dialogue
from dialeval.errors import UsageError
from dialeval.metrics import build, describe, metric_names, registry, signature_of
from dialeval.metrics.registry import Better, Rows, metric
from dialeval.scores import Scores


def made(way: Better | Mapping[str, Better]) -> type[Any]:
    """Make a metric with three dimensions."""

    @metric("opposite.v1")
    @dataclass(frozen=True)
    class Opposite:
        """Three dimensions of different direction."""

        dimensions: ClassVar[tuple[str, ...]] = ("user", "self", "length")
        better: ClassVar[Better | Mapping[str, Better]] = way

        def score(self, dialogues: Iterable[Dialogue]) -> Scores:
            return Rows(self).scores()

    return Opposite


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Leave the registry to other tests as it was."""
    yield
    registry._REGISTERED.pop("opposite.v1", None)


@pytest.mark.parametrize(
    ("better", "written"),
    [
        ("higher", ""),
        ({}, ""),
        ("lower", "|better:lower"),
        ("neither", "|better:neither"),
        ({"self": "lower"}, "|better:self=lower"),
        ({"self": "lower", "length": "neither"}, "|better:length=neither,self=lower"),
    ],
)
def test_written_into_the_signature(better: Any, written: str) -> None:
    signature = signature_of(made(better)())
    assert f"{written}|dialeval:" in str(signature)
    assert ("better" in str(signature)) == bool(written)
    for dimension in ("user", "self", "length"):
        wanted = better if isinstance(better, str) else better.get(dimension, "higher")
        assert signature.better(dimension) == wanted


def test_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert describe("repetition")["better"] == "lower"
    assert describe("bleu")["better"] == "higher"
    assert describe("similarity")["better"] == {"self": "lower"}
    catalogue.list_("metrics", None, json=True)
    listed = {row["name"]: row["better"] for row in json.loads(capsys.readouterr().out)}
    assert (listed["similarity.v1"], listed["repetition.v1"]) == ({"self": "lower"}, "lower")
    catalogue.list_("metrics", None, json=False)
    assert "self=lower" in capsys.readouterr().out


@pytest.mark.parametrize("name", metric_names())
def test_every_dimension_of_every_metric_has_a_direction(name: str) -> None:
    metric_of_that_name = build(name)
    signature = signature_of(metric_of_that_name)
    assert {signature.better(one) for one in metric_of_that_name.dimensions} <= {"higher", "lower", "neither"}


def test_a_dimension_that_is_not_there_is_refused() -> None:
    class Body:
        dimensions: ClassVar[tuple[str, ...]] = ("user", "self")
        better: ClassVar[Mapping[str, Better]] = {"slef": "lower"}

    with pytest.raises(UsageError, match=r"odd.v1: better names 'slef'; its dimensions are: user, self"):
        metric("odd.v1")(dataclass(frozen=True)(Body))
    assert "odd" not in metric_names()
