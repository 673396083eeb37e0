"""What came after a reply: found in one pass, for any order of speakers."""

import random

import pytest

from dialeval.dialogues import Turn, dialogue
from dialeval.dialogues.dialogue import Dialogue
from dialeval.dialogues.signals import ends_here, logged_sentiment, next_turns


def slow(chat: Dialogue, number: int) -> tuple[int | None, bool]:
    """The same, looked up turn by turn."""
    spoken = [
        place for place, turn in enumerate(chat.turns) if turn.text.strip() and turn.speaker != "system"
    ]
    speaker = chat.turns[number].speaker
    answer = next((one for one in spoken if one > number and chat.turns[one].speaker != speaker), None)
    if answer is None:
        return None, False
    user = chat.turns[answer].speaker
    again = any(one > answer and chat.turns[one].speaker == user for one in spoken)
    return answer, again and not ends_here(chat.turns[answer])


@pytest.mark.parametrize("seed", range(20))
def test_the_same_as_looking_it_up(seed: int) -> None:
    draw = random.Random(seed)
    texts = ["Hi", "", " ", "stop", "I see.", "Bye!"]
    turns = [
        Turn(draw.choice(["user", "assistant", "system", "guest"]), draw.choice(texts)) for _ in range(25)
    ]
    chat = Dialogue("d", tuple(turns))
    found = next_turns(chat)
    assert [tuple(one) for one in found] == [slow(chat, number) for number in range(len(turns))]


def test_a_log_of_fifty_thousand_turns_takes_no_time() -> None:
    turns = [("user" if number % 2 else "assistant", f"turn {number}") for number in range(50_000)]
    found = next_turns(dialogue(turns))
    assert found[0] == (1, True)
    assert found[-1] == (None, False)


@pytest.mark.parametrize(
    "text", ["Stop.", "please stop talking", "quit", "goodbye!", "I have to go now", "bye bye"]
)
def test_users_who_end(text: str) -> None:
    assert ends_here(Turn("user", text))


@pytest.mark.parametrize("text", ["the bus stop", "don't stop, go on", "I quit my job", "no", "", "¡para!"])
def test_users_who_do_not(text: str) -> None:
    assert not ends_here(Turn("user", text))
    assert ends_here(Turn("user", text, {"ended": True}))


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (1, -3.0),
        (5, 3.0),
        (3, 0.0),
        (9, 3.0),
        (True, 3.0),
        (False, -3.0),
        ("good", None),
        (None, None),
        (float("nan"), None),
        (float("inf"), None),
    ],
)
def test_what_a_log_knows_better(value: object, wanted: float | None) -> None:
    assert logged_sentiment({"csat": value}, "csat", 1, 5) == wanted
