"""Steps are no replies, instructions no names, and old dialogues keep their ids."""

import pytest

from dialeval.dialogues import (
    Passage,
    ToolCall,
    Turn,
    context_of,
    dialogue,
    evidence_before,
    instructions_of,
    scored_turns,
    steps_before,
)
from dialeval.dialogues.contexts import contexts
from dialeval.dialogues.formats import read

CALL = Turn("assistant", "", tool_calls=(ToolCall("stock", {"item": "lamp"}, "c1"),))
SHOP = dialogue(
    [
        Turn("system", "Be brief."),
        Turn("user", "Any lamps?"),
        CALL,
        Turn("tool", "3 left", tool_call_id="c1", name="stock"),
        Turn("assistant", "Three.", evidence=(Passage("Lamps are on floor 2.", "floors"),)),
        Turn("user", "And rugs?", evidence=(Passage("Rugs are sold out."),)),
        Turn("assistant", "I look.", tool_calls=(ToolCall("stock", {"item": "rug"}, "c2"),)),
        Turn("tool", "0 left", tool_call_id="c2"),
        Turn("assistant", "None."),
    ],
    "d1",
    evidence=["Prices are fixed."],
)


def test_a_message_that_only_calls_a_tool_is_no_reply() -> None:
    assert scored_turns(SHOP) == scored_turns(SHOP, "assistant") == [4, 6, 8]
    assert [turn.text for turn in context_of(SHOP, 6)] == ["Any lamps?", "Three.", "And rugs?"]
    assert [one.turn for one in contexts([SHOP])] == [4, 6, 8]


def test_an_empty_message_without_a_call_is_a_reply() -> None:
    assert scored_turns(dialogue([("user", "Hi"), ("assistant", "")])) == [1]


def test_prompts_and_results_are_not_scored_where_two_people_talk() -> None:
    assert scored_turns(dialogue([("A", "Hi"), ("system", "x"), ("B", "Ho"), ("tool", "y")])) == [2]


def test_steps_and_evidence_of_a_reply() -> None:
    assert [steps_before(SHOP, turn) for turn in (4, 6, 8)] == [[2, 3], [], [7]]
    texts = [[passage.text for passage in evidence_before(SHOP, turn)] for turn in (4, 6, 8)]
    assert texts == [
        ["Prices are fixed.", "3 left", "Lamps are on floor 2."],
        ["Prices are fixed.", "3 left", "Rugs are sold out."],
        ["Prices are fixed.", "3 left", "0 left"],
    ]
    assert evidence_before(SHOP, 4)[1].source == "stock"


def test_instructions_come_from_the_dialogue_or_its_messages() -> None:
    assert instructions_of(SHOP) == "Be brief."
    assert instructions_of(dialogue([("user", "Hi")], instructions="Be kind.")) == "Be kind."
    assert instructions_of(dialogue([("user", "Hi")])) is None


@pytest.mark.parametrize(
    ("system", "name"), [("shop-bot v2", "shop-bot v2"), ("You are the clerk of a shop.", "claude")]
)
def test_a_prompt_is_not_the_name_of_the_bot(system: str, name: str) -> None:
    record = {"model": "claude", "system": system, "messages": [{"role": "user", "content": "Hi"}]}
    (found,) = read([record])
    assert found.system == name
    assert found.instructions == (None if system == name else system)


def test_old_dialogues_keep_their_ids() -> None:
    turns = [("user", "Hi!"), Turn("assistant", "Hello!", {"mood": "calm"})]
    made = dialogue(turns, system="bot", references={1: ["Hey!"]}, meta={"topic": "none"})
    assert made.id == "53a2cea41555cbf5"
