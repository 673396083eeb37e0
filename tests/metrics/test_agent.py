"""What agents did with their tools: rules with evidence, declared goals, and the learned estimate."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from awkward import CASES

from dialeval.dialogues import Dialogue, ToolCall, Turn, dialogue
from dialeval.errors import DataError
from dialeval.metrics import build
from dialeval.metrics.agent import Agent, GoalSuccess, plain
from dialeval.metrics.agent_calls import calls_of, is_yes, kind_of
from dialeval.metrics.outcome import FEATURES, Outcome, features

CANCEL = ToolCall("cancel_order", {"order": "A17", "items": ["b", "a"]}, "c1")


def step(*calls: ToolCall) -> Turn:
    return Turn("assistant", "", tool_calls=calls)


def said(*turns: Turn | tuple[str, str], **meta: Any) -> Dialogue:
    return dialogue(turns, "d1", system="bot", meta=meta)


def good(result: str = '{"order": "A17", "status": "cancelled"}', **meta: Any) -> Dialogue:
    return said(
        ("user", "Please cancel A17, b and a."),
        ("assistant", "Shall I cancel A17?"),
        ("user", "Yes, go ahead."),
        step(CANCEL),
        Turn("tool", result, tool_call_id="c1"),
        ("assistant", "A17 is cancelled, 12.50 comes back to you."),
        ("user", "Thanks, bye!"),
        **meta,
    )


def values(made: Any, one: Dialogue) -> dict[str, float | None]:
    return {row.dimension: row.value for row in made.score([one])}


@pytest.mark.parametrize(
    ("text", "agreed"),
    [
        ("Yes, please proceed with the cancellation.", True),
        ("That sounds good, thanks.", True),
        ("ok", True),
        ("I confirm.", True),
        ("I\u2019d like to proceed.", True),
        ("Please cancel my order A17.", False),
        ("No, yes was too quick. Wait.", False),
        ("Not yet, please don't proceed.", False),
        ("What about yesterday?", False),
    ],
)
def test_a_yes_is_told_from_a_request(text: str, agreed: bool) -> None:
    assert is_yes(text) is agreed


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("get_order_details", "read"),
        ("searchFlights", "read"),
        ("shop.list_items", "read"),
        ("think", "read"),
        ("book_reservation", "write"),
        ("toggleRoaming", "write"),
        ("transfer_to_human_agents", "hand-over"),
        ("", "read"),
    ],
)
def test_the_verb_says_what_a_tool_does(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_a_good_dialogue_has_no_finding() -> None:
    found = values(Agent(), good())
    assert found == {
        "tool-error-ignored": 0.0,
        "same-call-again": 0.0,
        "action-before-yes": 0.0,
        "hand-over": 0.0,
        "turns-to-goal": 2.0,
        "calls-to-goal": 1.0,
        "unanswered-request": 0.0,
    }


def test_each_fault_is_found_with_evidence() -> None:
    look = ToolCall("get_order", {"order": "A17"}, "c2")
    bad = said(
        ("user", "Please cancel A17."),
        step(look),
        Turn("tool", "Error: order not found", tool_call_id="c2"),
        step(CANCEL),
        Turn("tool", "Error: order not found", tool_call_id="c1"),
        ("assistant", "All done, your order is on its way back."),
        ("user", "Really? Which day will I get the money?"),
        step(look),
        Turn("tool", "Error: order not found", tool_call_id="c2"),
        step(ToolCall("transfer_to_human_agents", {}, "c3")),
        Turn("tool", "ok", tool_call_id="c3"),
    )
    found = values(Agent(), bad)
    assert found["tool-error-ignored"] == found["same-call-again"] == found["action-before-yes"] == 1
    assert found["hand-over"] == found["unanswered-request"] == 1
    assert found["turns-to-goal"] is None
    told = {
        piece.label
        for turn in Agent().explain([bad])[0].own.turns
        for piece in turn.pieces
        if piece.label is not None
    }
    for words in (
        "same-call-again: get_order",
        "without a yes",
        "tool transfer_to_human",
        "nothing was said",
    ):
        assert any(words in one for one in told), (words, told)


def test_a_passing_error_may_be_tried_again() -> None:
    look = ToolCall("get_order", {"order": "A17"})
    busy = said(
        ("user", "Where is A17?"),
        step(look),
        Turn("tool", "Error: timed out"),
        step(look),
        Turn("tool", "ok"),
    )
    assert [call.again for call in calls_of(busy)] == [False, False]
    assert values(Agent(), busy)["same-call-again"] == 0


def test_tools_of_your_own_are_named() -> None:
    call = said(("user", "Ping."), step(ToolCall("ping", {})), Turn("tool", "pong"), ("assistant", "Pong."))
    assert values(Agent(), call)["action-before-yes"] == 1
    assert values(build("agent:reads=ping+pong*"), call)["action-before-yes"] == 0


GOALS = """
by = "task"
[goal.cancel]
calls = [{ name = "cancel_order", arguments = { order = "a17", items = ["a", "b"] } }]
said = ["12.50"]
state = [{ where = { order = "A17" }, is = { status = "cancelled" } }]
[goal.nothing]
calls = []
[goal.shown]
[[goal.shown.state]]
where = { order = "A17" }
is = { status = "shipped" }
[[goal.shown.state]]
where = { order = "B2" }
is = { a = 1 }
"""


@pytest.fixture
def goals(tmp_path: Path) -> Path:
    path = tmp_path / "goals.toml"
    path.write_text(GOALS)
    return path


@pytest.mark.parametrize(
    ("one", "value", "words"),
    [
        (good(task="cancel"), 1.0, None),
        (good("Error: no such order", task="cancel"), 0.0, "missing: cancel_order"),
        (good(task="nothing"), 0.0, "not expected: cancel_order"),
        (good(task="shown"), 0.0, 'status is "cancelled"; never seen: {"order": "B2"}'),
        (
            good(task="shown", state={"x": [{"order": "A17", "status": "shipped"}, {"order": "B2", "a": 1}]}),
            1.0,
            None,
        ),
        (good(task="other"), None, "no goal is known"),
        (good(goal={"said": ["13"]}), 0.0, "not said: 13"),
        (good(goal={"said": 13}), None, "cannot be read"),
    ],
)
def test_goals_are_verified(goals: Path, one: Dialogue, value: float | None, words: str | None) -> None:
    (row,) = GoalSuccess(str(goals)).score([one])
    assert row.value == value
    assert (words in row.note) if words else row.note is None


def test_goals_give_the_end_to_the_agent(goals: Path) -> None:
    made = Agent(goals=str(goals))
    assert values(made, good(task="cancel"))["turns-to-goal"] == 2
    assert values(made, good(task="nothing"))["calls-to-goal"] is None
    assert str(goals) not in str(made.score([]).signatures)


@pytest.mark.parametrize(
    "text", ["goal = 3", "[goal.a]\nsaid = 3", "[goal.a]", "[goal.a]\nwords = []", "\x00"]
)
def test_a_bad_file_of_goals_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "goals.toml"
    path.write_text(text)
    with pytest.raises(DataError, match=r"goals\.toml"):
        GoalSuccess(str(path)).score([])


def test_values_are_compared_as_people_write_them() -> None:
    assert plain({"a": [1, "x "]}) == plain({"a": ["X", 1.0]})
    assert plain("12") != plain("12.5")


@pytest.mark.parametrize("case", list(CASES))
def test_awkward_input_with_goals(case: str, tmp_path: Path) -> None:
    path = tmp_path / "goals.toml"
    some = CASES[case][:50]
    lines = [f'[goal.{json.dumps(one.id)}]\ncalls = [{{ name = "x" }}]\nsaid = ["a"]' for one in some]
    try:
        path.write_text("\n".join(dict.fromkeys(lines)) or "goal = {}")
        found = GoalSuccess(str(path)).score(CASES[case])
    except (UnicodeEncodeError, DataError):  # ids that TOML cannot hold
        found = GoalSuccess().score(CASES[case])
    assert len(found.table) == len(CASES[case])
    assert all(row.value is not None or row.note for row in found)


# The estimate


def test_features_are_better_where_there_is_more_of_them() -> None:
    base = features(good(), [1.0, 2.0])
    assert base["finished"] == base["last-call-worked"] == 1
    worse = features(good("Error: no such order"), [1.0, 2.0])
    assert worse["few-errors"] < base["few-errors"] and worse["last-call-worked"] == 0
    longer = Dialogue("d", (*good().turns[:6], *good().turns))
    assert features(longer, [])["brief"] < base["brief"]
    made_up = said(("user", "Cancel it."), step(CANCEL), Turn("tool", "ok"), ("assistant", "Done."))
    assert features(made_up, [])["grounded"] < base["grounded"] == 0
    handed = said(*good().turns[:3], step(ToolCall("transfer_to_human", {})), ("user", "Thanks, bye!"))
    assert features(handed, [])["finished"] == 0


def test_the_estimate_knows_no_outcome_and_no_name() -> None:
    one = good()
    told = good(reward=1.0, goal={"calls": []}, info={"reward": 1})
    renamed = ToolCall("cancel_flight", CANCEL.arguments, "c1")
    other = Dialogue("d1", (*one.turns[:3], step(renamed), *one.turns[4:]), "another bot")
    found = [row.value for one in (one, told, other) for row in Outcome().score([one])]
    assert found[0] == found[1] == found[2]
    assert 0 < found[0] < 1


def test_the_estimate_prefers_the_better_dialogue() -> None:
    upset = said(
        *good("Error: no such order").turns[:6],
        ("user", "That's wrong. This is useless."),
        step(CANCEL),
        Turn("tool", "Error: no such order", tool_call_id="c1"),
    )
    (better,), (worse,) = Outcome().score([good()]), Outcome().score([upset])
    assert better.value > 2 * worse.value
    (why,) = Outcome().explain([good()])
    assert set(why.parts) == set(FEATURES)
    assert math.isclose(why.value, better.value)


def test_a_damaged_head_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        Outcome(model=str(tmp_path)).score([good()])
