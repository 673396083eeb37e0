"""Agents of thirteen domains: what `agent`, `goal` and `outcome` read must not depend on the domain.

The dialogues of `agent_domains.txt` are invented. An airline and a bank have three successes and three
failures each. The other domains have one of each, which say how often each rule of `RULED` must find
something, and the calls that are their goal.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dialeval.dialogues import Dialogue, ToolCall, Turn
from dialeval.dialogues.formats import read
from dialeval.metrics.agent import Agent, GoalSuccess
from dialeval.metrics.agent_calls import found, is_yes, kind_of, words
from dialeval.metrics.outcome import Outcome, features
from dialeval.metrics.rules import is_error

# A line is a turn: u(ser), a(ssistant), c(all) of a tool with its arguments as JSON, r(esult) of it.
CHATS = Path(__file__).with_name("agent_domains.txt").read_text(encoding="utf-8")
RULED = ("tool-error-ignored", "same-call-again", "action-before-yes", "hand-over", "unanswered-request")


def dialogues() -> Iterator[Dialogue]:
    for block in CHATS.strip().split("\n\n"):
        title, *lines = block.splitlines()
        title, _, calls = title.removeprefix("# ").partition(" | ")
        name, outcome, *counts = title.split()
        turns = []
        for line in lines:
            kind, text = line.split(": ", 1)
            if kind == "c":
                tool, arguments = text.split(" ", 1)
                turns.append(Turn("assistant", "", tool_calls=(ToolCall(tool, json.loads(arguments)),)))
            else:
                turns.append(Turn({"u": "user", "a": "assistant", "r": "tool"}[kind], text))
        meta = {"success": outcome == "success", "counts": [float(count) for count in counts]}
        if calls:
            meta["goal"] = {"calls": json.loads(calls)}
        yield Dialogue(name, tuple(turns), system=name.partition("-")[0], meta=meta)


ALL = {one.id: one for one in dialogues()}
COUNTED = [name for name, one in ALL.items() if one.meta["counts"]]
GOOD = [name for name, one in ALL.items() if one.meta["success"] and name not in COUNTED]
BAD = [name for name in ALL if name not in GOOD + COUNTED]
DOMAINS = {one.system for one in ALL.values()}


@pytest.mark.parametrize("name", GOOD)
def test_nothing_is_found_in_a_success(name: str) -> None:
    found = {row.dimension: row.value for row in Agent().score([ALL[name]])}
    assert {key for key, value in found.items() if value} == {"turns-to-goal", "calls-to-goal"}
    described = features(ALL[name], [])
    assert described["finished"] == described["last-call-worked"] == 1
    assert described["grounded"] == described["few-errors"] == described["one-request"] == 0


@pytest.mark.parametrize("name", BAD)
def test_something_is_found_in_a_failure(name: str) -> None:
    found = {row.dimension: row.value for row in Agent().score([ALL[name]])}
    assert found["same-call-again"] or found["tool-error-ignored"]
    assert features(ALL[name], [])["finished"] == 0


@pytest.mark.parametrize("name", COUNTED)
def test_what_is_wrong_is_found_and_nothing_else(name: str) -> None:
    found = {row.dimension: row.value for row in Agent().score([ALL[name]])}
    assert [found[rule] for rule in RULED] == ALL[name].meta["counts"]
    (verdict,) = GoalSuccess().score([ALL[name]])
    assert verdict.value == ALL[name].meta["success"], verdict.note
    described = features(ALL[name], [])
    assert (described["finished"], described["grounded"]) == (ALL[name].meta["success"], 0)


def test_the_estimate_is_higher_for_every_success_in_its_domain() -> None:
    found = {row.dialogue_id: row.value or 0.0 for row in Outcome().score(ALL.values())}
    assert len(DOMAINS) == 13
    for domain in DOMAINS:
        own = [one for one in ALL.values() if one.system == domain]
        good = [found[one.id] for one in own if one.meta["success"]]
        bad = [found[one.id] for one in own if not one.meta["success"]]
        assert len(good) == len(bad) > 0 and min(good) > 2 * max(bad)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("transfer_funds", "write"),
        ("transfer_to_savings", "write"),
        ("transferCustomerFunds", "write"),
        ("get_transfer_status", "read"),
        ("get_escalation_policy", "read"),
        ("transferToAgent", "hand-over"),
        ("transfer_call", "hand-over"),
        ("transfer_to_refund_agent", "hand-over"),
        ("escalate_ticket", "hand-over"),
        ("request_human", "hand-over"),
        ("check_in", "write"),
        ("checkOutGuest", "write"),
        ("check_eligibility", "read"),
        ("flight_search", "read"),
        ("balance_inquiry", "read"),
        ("enable_roaming", "write"),
        ("track_baggage", "read"),
        ("room_availability", "read"),
        ("update_status", "write"),
        ("last_reading", "read"),
        ("recent_transactions", "read"),
        ("nearby_shops", "read"),
        ("slots", "read"),
        ("trace_parcel", "read"),
        ("authenticate_customer", "read"),
        ("checkout_options", "read"),
        ("run_diagnostics", "read"),
        ("seat_map", "read"),
        ("order_status", "read"),
        ("pay_balance", "write"),
        ("choose_options", "write"),
        ("log_hours", "write"),
        ("share_location_details", "write"),
    ],
)
def test_a_tool_is_read_by_its_name(name: str, kind: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize(
    ("text", "record", "failed"),
    [
        ("412", False, False),
        ("512.40", False, False),
        ("450 points", False, False),
        ("404 Not Found", False, True),
        ("503: Service Unavailable", False, True),
        ('{"id": "P1", "status": "failed"}', True, False),
        ('{"id": "P1", "status": "failed"}', False, True),
        ('{"status": "failed", "reason": "limit"}', True, True),
        ('{"status": 404}', True, True),
    ],
)
def test_a_number_or_a_record_is_no_error(text: str, record: bool, failed: bool) -> None:
    assert is_error(Turn("tool", text), record) is failed


@pytest.mark.parametrize(
    "text",
    [
        "That works, book it.",
        "Sounds great!",
        "Works for me.",
        "This works for us.",
        "Please.",
        "Go on then.",
        "Why not?",
        "That will work.",
        "That would be fine. Is it far?",
        "Everything's exactly right.",
    ],
)
def test_other_words_for_yes(text: str) -> None:
    assert is_yes(text)


@pytest.mark.parametrize(
    "text", ["Please cancel it.", "Why not today?", "Go on a diet.", "Oh, okay. Is there a way back?"]
)
def test_these_are_no_yes(text: str) -> None:
    assert not is_yes(text)


@pytest.mark.parametrize(
    ("text", "leaves"),
    [
        ("Nothing else. You've been very helpful.", True),
        ("Super. Nothing more from me.", True),
        ("Lovely. No, we're sorted.", True),
        ("No thats all i need", True),
        ("No, not right now.", True),
        ("I don't need anything else.", True),
        ("I have to go now.", True),
        ("Nothing else works!", False),
        ("I need help with nothing but the bill.", False),
        ("That was not all of it.", False),
    ],
)
def test_words_for_parting(text: str, leaves: bool) -> None:
    assert found(words("parting"), text) is leaves


def test_yes_and_no_of_people_are_told_apart(data_folder: Path) -> None:
    """Turns of SGD's users that its annotation says affirm, or negate."""
    said: dict[str, list[bool]] = {"AFFIRM": [], "NEGATE": []}
    for one in read("sgd/dev"):
        for turn in one.turns:
            acts = {act for frame in turn.meta["acts"].values() for act, *_ in frame}
            for act in acts & said.keys() if turn.speaker == "user" else ():
                said[act].append(is_yes(turn.text))
    shares = {act: sum(found) / len(found) for act, found in said.items()}
    assert shares["AFFIRM"] > 0.9 and shares["NEGATE"] < 0.02, shares
