"""Text without its values, whoever wrote it and however it is annotated."""

import pytest

from dialeval.dialogues import Turn, dialogue
from dialeval.dialogues.delexicalisation import MARK, delexicalise, delexicalised, values_in


@pytest.mark.parametrize(
    "spellings",
    [
        (
            "[value_name] is a [value_type] in the [value_area] .",
            "[hotel_name] is a [hotel_type] in the [hotel_area].",
            "[name] is a [type] in the [area].",
        ),
        ("There are 33 hotels .", "there are [value_count] hotel -s .", "There are [choice] hotels."),
        ("It does n't leave before 9:15 pm .", "it doesn't leave before [value_leave]."),
        ("Call 01223 355 017, postcode cb21ab.", "call [phone], postcode [postcode]."),
        ("It is in the north, and it is cheap.", "it is in the [value_area], and it is [value_price]."),
    ],
)
def test_all_spellings_become_one(spellings: tuple[str, ...]) -> None:
    assert len({delexicalise(text) for text in spellings}) == 1
    assert MARK in delexicalise(spellings[0])


def test_names_inside_a_sentence_are_values_and_words_are_not() -> None:
    assert delexicalise("I like the Old Mill, do you?") == "i like the [value], do you?"
    assert delexicalise("Milton Country Park is nice. Shall I book?") == "[value] is nice. shall i book?"
    assert delexicalise("Sure, I can help. What do you need?") == "sure, i can help. what do you need?"
    assert delexicalise("WHAT DO YOU NEED?") == "what do you need?"


def test_values_are_known_by_their_annotation() -> None:
    multiwoz = Turn(
        "assistant", "how about don pasquale ?", {"acts": {"R-Inform": [["Name", "don pasquale"]]}}
    )
    sgd = Turn(
        "assistant",
        "Try the pasta bar in the old town.",
        {
            "acts": {"Restaurants_1": [["OFFER", "city", ["old town"]]]},
            "slots": {"Restaurants_1": [["name", 8, 17]]},
        },
    )
    assert values_in(multiwoz) == ["don pasquale"]
    assert values_in(sgd) == ["old town", "pasta bar"]
    assert delexicalise(multiwoz.text, values_in(multiwoz)) == "how about [value]?"
    assert delexicalise(sgd.text, values_in(sgd)) == "try the [value] in the [value]."


@pytest.mark.parametrize(
    "acts", [None, "text", 3, {"A": None}, {"A": ["b"]}, [[]], {"A": [["x", None]]}, [[1, 2, 3]]]
)
def test_other_annotation_is_passed_over(acts: object) -> None:
    assert values_in(Turn("assistant", "Hi", {"acts": acts, "slots": acts})) == []


def test_users_keep_their_words() -> None:
    chat = dialogue([("user", "At 9:15?"), ("assistant", "At 9:15."), ("user", "Yes, 2 seats.")], "d")
    found = delexicalised(chat)
    assert [turn.text for turn in found.turns] == ["At 9:15?", "at [value].", "Yes, 2 seats."]
    assert (found.id, chat.turns[1].text) == ("d", "At 9:15.")
    assert delexicalised(dialogue([])).turns == ()


def test_awkward_text_stays_text() -> None:
    for text in ("", "   ", "[", "]]", "[[a]]", "\x00\ud800", "你好", "[" * 5000, "9" * 5000, "A " * 3000):
        assert isinstance(delexicalise(text, ["", "a"]), str)
