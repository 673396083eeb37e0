"""The metric by numbers worked out by hand; the format by a record."""

import pytest

import dialeval

RECORD = {
    "call": "c7",
    "lines": [["agent", "Hello!"], ["customer", "I like trains"], ["agent", "You like trains"]],
}


@pytest.mark.parametrize(
    ("reply", "value"), [("You like trains", 2 / 3), ("Good for you", 0.0), ("Yes", None)]
)
def test_echo(reply: str, value: float | None) -> None:
    chat = dialeval.dialogue([("user", "I like trains"), ("assistant", reply)], "d1")
    assert [row.value for row in dialeval.score([chat], "echo")] == [value]


def test_calls() -> None:
    (found,) = dialeval.read([RECORD])
    assert [turn.speaker for turn in found.turns] == ["assistant", "user", "assistant"]
