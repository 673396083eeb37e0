"""Kinds of dialogue: told by what users say, by tools and by passages, and shares that add up."""

import numpy as np
import pytest

from dialeval.dialogues import Dialogue, Passage, ToolCall, Turn, dialogue
from dialeval.models.kinds import KINDS, kind_shares


def kind_of(*turns: tuple[str, str] | Turn) -> str:
    return KINDS[int(kind_shares([dialogue(turns, "d")])[0].argmax())]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("chat", "My cat fell asleep on my keyboard again, so I gave up and made pancakes."),
        ("information", "Which documents does a landlord need, and what does the law say?"),
        ("support", "Your website took my money, but I never got the voucher."),
        ("task", "Could you get me a room for two nights in York from the 3rd of May?"),
        ("recommendation", "I'm in the mood for a film noir, got anything good?"),
        ("tutoring", "I multiplied 7 by 8 and wrote 54, where did I go wrong?"),
    ],
)
def test_what_the_user_says_tells_the_kind(kind: str, said: str) -> None:
    assert kind_of(("user", said), ("assistant", "Let me see.")) == kind


def test_shares_add_up_and_nothing_said_is_of_no_kind() -> None:
    chats = [dialogue([("user", "Hi"), ("assistant", "Hello!")], "d"), Dialogue("empty", (Turn("user", ""),))]
    found = kind_shares(chats)
    assert found.sum(1) == pytest.approx([1.0, 1.0], abs=1e-5)
    assert found[1] == pytest.approx(np.full(len(KINDS), 1 / len(KINDS)))
    assert kind_shares([]).shape == (0, len(KINDS))


def test_tools_and_passages_are_cues() -> None:
    said = Turn("user", "What about the blue one?")
    call = Turn("assistant", "", tool_calls=(ToolCall("look", {}, "1"),))
    answer = Turn("assistant", "It is in stock.")
    plain, tools, passages = kind_shares(
        [
            dialogue([said, answer], "plain"),
            dialogue([said, call, Turn("tool", "stock: 3"), answer], "tools"),
            dialogue(
                [said, Turn("assistant", "It is in stock.", evidence=(Passage("Blue: 3 left."),))], "passages"
            ),
        ]
    )
    assert tools[KINDS.index("task")] > plain[KINDS.index("task")]
    assert passages[KINDS.index("information")] > plain[KINDS.index("information")]


def test_company_changes_nothing() -> None:
    one = dialogue([("user", "I lost my card."), ("assistant", "Sorry to hear that.")], "one")
    other = dialogue([("user", "Do you like rain?"), ("assistant", "I do.")], "other")
    assert kind_shares([one, other])[0] == pytest.approx(kind_shares([one])[0], abs=1e-5)
