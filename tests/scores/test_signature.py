"""A signature says everything, and no two settings look alike (R4)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialeval.errors import DataError
from dialeval.scores import Signature
from dialeval.scores.signature import better, render

TRICKY = ["", "-", "none", "None", "true", "True", "1", "1.0", "-3", "nan", "1e+16", "a,b", "a,", "()", "(=)"]
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.sampled_from([*TRICKY, "a=1", "x|y:z", "%2D", "%", "set()"]),
    st.text(max_size=8),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
names = st.from_regex(r"[a-z_]{1,5}", fullmatch=True)


def kind(value: object) -> Any:
    """A copy that is equal only for the same value of the same type: True is not 1, 1 is not 1.0."""
    if isinstance(value, dict):
        return ("dict", frozenset((kind(k), kind(v)) for k, v in value.items()))
    if isinstance(value, tuple):
        return ("tuple", tuple(map(kind, value)))
    return (type(value).__name__, repr(value))


@given(values, values)
def test_different_values_look_different(a: object, b: object) -> None:
    assert (render(a) == render(b)) == (kind(a) == kind(b))


@given(st.sampled_from(TRICKY), st.sampled_from(TRICKY), st.sampled_from([tuple, list]))
def test_texts_that_read_like_something_else(a: str, b: str, holder: Any) -> None:
    others = [None, True, False, 1, 1.0, -3, (), (a,), (a, b), ((a, b),), (a, (b,)), {}, {"a": 1}, {"a": a}]
    assert render(a) not in [render(other) for other in others]
    assert render(holder([a, b])) != render(f"{a},{b}")


@given(st.dictionaries(names, values, max_size=4), st.data())
def test_any_change_of_any_field_changes_the_string(fields: dict[str, object], data: st.DataObject) -> None:
    whole = Signature.of("metric.v1", fields)
    for name, value in fields.items():
        other = data.draw(values)
        changed = Signature.of("metric.v1", {**fields, name: other})
        assert (str(changed) == str(whole)) == (kind(other) == kind(value))
        without = Signature.of("metric.v1", {k: v for k, v in fields.items() if k != name})
        assert str(without) != str(whole)
    assert str(Signature.of("metric.v2", fields)) != str(whole)


@given(st.dictionaries(names, values, max_size=4))
def test_written_and_read_back(fields: dict[str, object]) -> None:
    made = Signature.of("metric.v1", fields)
    assert Signature.parse(str(made)) == made
    assert [name for name, _ in made.fields] == list(fields)
    assert str(made).isprintable()


def test_equal_values_of_other_types_are_equal() -> None:
    assert render([1, "a"]) == render((1, "a"))
    assert render(np.float64(0.1)) == render(0.1) == "0.1"
    assert render({"a": 1, "b": 2}) == render({"b": 2, "a": 1})
    assert render(frozenset("bca")) == "set(a,b,c)"


def test_dataclasses_say_their_fields() -> None:
    @dataclass
    class Inner:
        size: int
        name: str = "x"

    assert render(Inner(3)) == "Inner(size=3,name=x)"
    assert render(Inner(3)) != render("Inner(size=3,name=x)")


def test_ordinary_settings_stay_readable() -> None:
    fields = {"ka": 40, "w": 0.1, "lower": False, "field": None, "encoder": "all-MiniLM v2: a/b"}
    assert str(Signature.of("floweval.v1", fields)) == (
        "floweval.v1|ka:40|w:0.1|lower:false|field:-|encoder:all-MiniLM v2: a/b"
    )


@given(
    st.dictionaries(
        st.sampled_from(TRICKY) | st.text(max_size=6), st.sampled_from(["higher", "lower", "neither"])
    ),
    st.sampled_from(TRICKY) | st.text(max_size=6),
)
def test_each_dimension_has_its_direction(ways: dict[str, str], other: str) -> None:
    made = Signature.of("m.v1", {"k": 3, "better": ways, "dialeval": "0.1.0"})
    for signature in (made, Signature.parse(str(made))):
        for dimension in (*ways, other):
            assert signature.better(dimension) == ways.get(dimension, "higher")


@pytest.mark.parametrize(
    ("text", "user", "self"),
    [
        ("m.v1", "higher", "higher"),
        ("m.v1|better:lower|dialeval:0.1.0", "lower", "lower"),
        ("m.v1|better:neither", "neither", "neither"),
        ("m.v1|better:self=lower|dialeval:0.1.0", "higher", "lower"),
        ("m.v1|better:self=lower,user=neither", "neither", "lower"),
        ("m.v1|better:self=lower,user", "", "lower"),
        ("m.v1|file:self better=lower", "higher", "higher"),
        ("judge, better:lower", "higher", "higher"),
        ("", "higher", "higher"),
    ],
)
def test_directions_of_stored_text(text: str, user: str, self: str) -> None:
    assert (better({"m": text}, "m", "user"), better({"m": text}, "m", "self")) == (user, self)
    assert better({"m": text}, "human:ann", "self") == "higher"


@pytest.mark.parametrize("text", ["", "|a:b", "name|field", "name.v1|a:1|"])
def test_what_is_no_signature(text: str) -> None:
    with pytest.raises(DataError, match="not a signature"):
        Signature.parse(text)
