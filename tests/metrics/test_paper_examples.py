"""Figures 4 to 6 of Ghazarian et al. (2022): the same situations, in sentences of our own."""

import pytest

from dialeval.dialogues import dialogue
from dialeval.metrics.turn_quality import TurnQuality


def quality(*said: str) -> float:
    """Return the quality of the last reply; speakers take turns."""
    last = len(said) - 1
    turns = [(("assistant", "user")[(last - place) % 2], text) for place, text in enumerate(said)]
    found = [row.value for row in TurnQuality().score([dialogue(turns)]) if row.turn == last]
    assert found[0] is not None
    return found[0]


def test_figure_4_a_wordy_answer_is_above_one_to_another_question() -> None:
    wordy = quality(
        "Who is Queen Victoria?",
        "what a thing to ask, well it is no wonder that she isn't one of the three youngest queens in "
        "british history, i know they count from the crowning but still.",
    )
    astray = quality(
        "Measles is an illness that comes back in many countries",
        "i suppose it is her song then, do you like to sing?",
    )
    assert wordy > astray


@pytest.mark.xfail(
    strict=True,
    reason="the poor reply takes up the user's words and the good one changes the subject, as it should: "
    "similarity is most of what the shipped head has learned, and it does not see that a speaker contradicts "
    "himself",
)
def test_figure_5_a_change_of_subject_is_above_a_contradiction() -> None:
    changed = quality(
        "ah, i see. i find football so thrilling.",
        "i don't",
        "fine, let us talk about something else. i love faraway places. do you like to travel?",
    )
    contradicted = quality(
        "i like cats too. i think cats are far nicer than cats. so, which city do you like best?",
        "i don't like cats",
        "i am no friend of cats either. i would rather stay in my own country. so, what did you eat?",
    )
    assert changed > contradicted


def test_figure_6_what_ignores_the_user_is_below_what_is_on_topic_and_wrong() -> None:
    """The last two are poor as well, false and repetitive, which the paper's model does not see either."""
    ignoring = [
        quality("perhaps!", "you are a bad chat bot", "i have never been there"),
        quality("do you like cows?", "No", "no, not much. and you?"),
    ]
    on_topic = [
        quality(
            "hi! how is it going? i just read that the singer gets $ 400,000 for a concert!",
            "wow, really! what does the drummer get?",
            "he gets paid $ 400",
        ),
        quality(
            "I love silver! Above all when I buy boats with it!",
            "hell yes mate",
            "Yes. I also like silver, fame, loud music, and boats.",
        ),
    ]
    assert max(ignoring) < min(on_topic)
