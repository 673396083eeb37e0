"""Inform and Success: the rules one by one on a task of our own, awkward files, and published figures."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialeval.dialogues import Dialogue, Turn, dialogue, formats
from dialeval.dialogues.datasets.task_oriented import published_figures, system_files
from dialeval.errors import DataError
from dialeval.jobs.demo import example_dialogues, example_predictions
from dialeval.jobs.scoring import score_to
from dialeval.metrics import build, signature_of
from dialeval.metrics.multiwoz import MultiWoz


def replies(name: str, *turns: tuple[str, Any], **more: Any) -> Dialogue:
    """Make a dialogue of replies, each with the state it knew."""
    made = [
        Turn("assistant", text, {"state": state, **more} if state is not None else more)
        for text, state in turns
    ]
    return dialogue(made, name)


def judged(one: Dialogue, **fields: Any) -> tuple[float | None, float | None, str | None]:
    inform, success = MultiWoz(**{"schema": "example", **fields}).score([one])
    assert inform.note == success.note
    return inform.value, success.value, inform.note


CHEAP = {"cafe": {"area": "harbour", "pricerange": "cheap"}}
SHUT = "which price ?"  # a reply that gives nothing, to be as long as the log


def test_informed_and_successful() -> None:
    assert judged(replies("ex01", (SHUT, CHEAP), ("[name] , [phone]", CHEAP))) == (1, 1, None)


def test_a_right_venue_without_what_was_asked_for() -> None:
    assert judged(replies("ex01", (SHUT, CHEAP), ("[name] .", CHEAP))) == (1, 0, None)


def test_what_was_asked_for_without_a_venue() -> None:
    assert judged(replies("ex01", (SHUT, CHEAP), ("[phone] .", CHEAP))) == (0, 0, None)


def test_a_venue_that_may_be_a_wrong_one() -> None:
    """By the state, the name may mean an expensive café, too."""
    harbour = {"cafe": {"area": "harbour"}}
    wide = replies("ex01", (SHUT, harbour), ("[name] , [phone]", harbour))
    assert judged(wide) == (0, 0, None)
    assert judged(wide, venues="any") == (1, 1, None)


def test_an_earlier_offer_is_kept_while_it_is_among_the_later_ones() -> None:
    harbour = {"cafe": {"area": "harbour"}}
    both = replies("ex01", ("[name] ?", CHEAP), ("[name] , [phone]", harbour))
    assert judged(both) == (1, 1, None)
    assert judged(both, offers="last") == (0, 0, None)
    north = {"cafe": {"area": "north"}}
    assert judged(replies("ex01", ("[name] ?", CHEAP), ("[name] , [phone]", north))) == (0, 0, None)


def test_a_name_in_the_goal_leaves_nothing_to_inform() -> None:
    assert judged(replies("ex05", ("on [address] .", {"cafe": {"name": "old mill"}}))) == (1, 1, None)


def test_a_domain_without_a_table_and_one_that_needs_no_offer() -> None:
    assert judged(replies("ex06", ("[phone]", {}), active_domains=["police"])) == (1, 1, None)
    pier = {"boat": {"pier": "stone steps"}}
    assert judged(replies("ex04", ("at [time]", pier))) == (1, 1, None)
    assert judged(replies("ex04", ("[name] at [time]", {"boat": {"pier": "long pier"}}))) == (0, 0, None)
    asked = replies("ex03", ("at [time]", {"boat": {"pier": "long pier"}}))
    assert judged(asked) == (0, 0, None), "the goal asks for the name"


def test_when_a_booking_counts() -> None:
    north = {"cafe": {"area": "north"}}
    filled = {"cafe": {"area": "north", "day": "friday", "people": "2"}}
    early = replies("ex02", ("[name] [reference]", north), ("bye [area]", filled))
    assert judged(early) == (1, 0, None)
    assert judged(early, booked="said") == (1, 1, None)
    assert judged(replies("ex02", ("[name]", north), ("[reference]", filled))) == (1, 1, None)


def test_placeholders_count_for_the_domain_that_is_talked_about() -> None:
    wrong = replies("ex01", (SHUT, CHEAP), ("[name] [phone]", CHEAP), active_domains=["boat"])
    assert judged(wrong) == (0, 0, None)
    assert judged(wrong, domains="states") == (1, 1, None)


def test_gold_states_where_the_file_has_none() -> None:
    without = replies("ex01", (SHUT, None), ("[name] [phone]", None))
    assert judged(without) == (1, 1, "gold states, since turns lack one: 2")
    assert judged(without, states="gold") == (1, 1, None)
    assert judged(without, states="file") == (0, 0, None)
    wrong = replies("ex01", (SHUT, {}), ("[name] [phone]", {"cafe": {"area": "north"}}))
    assert judged(wrong)[:2] == (0, 0)
    assert judged(wrong, states="gold") == (1, 1, None)


def test_a_dialogue_may_bring_its_goal() -> None:
    goal = {"cafe": {"informable": {"area": "south"}, "requestable": ["phone"]}}
    turns = [("user", "hi"), Turn("assistant", "[name] [phone]", {"state": {"cafe": {"area": "south"}}})]
    assert judged(dialogue(turns, "mine", meta={"goal": goal})) == (1, 1, None)
    assert judged(dialogue(turns, "mine")) == (None, None, "no goal is known for this dialogue")
    for odd in ({"cafe": {"info": {}}}, {"pub": {}}, "drinks", 3):
        value, _, note = judged(dialogue(turns, "mine", meta={"goal": odd}))
        assert value is None
        assert note
    assert judged(dialogue(turns, "mine", meta={"goal": {}})) == (None, None, "its goal names no domain")


# --- awkward files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("turns", "wanted"),
    [
        ([SHUT, "[NAME] [Value_Phone]"], (1, 1, None)),
        ([SHUT, "[name] [phone]", "[reference]", "bye"], (1, 1, "extra turns, left out: 2")),
        (["[name] [phone]"], (1, 1, "missing turns: 1")),
        ([SHUT, "[name] [phone] [fax]"], (1, 1, "unknown placeholders: [fax]")),
        ([SHUT, "the blue kettle, 20101"], (0, 0, "no placeholder in any reply")),
        (["", "[name] [phone]"], (1, 1, "empty replies: 1")),
    ],
)
def test_odd_replies_are_judged_and_named(turns: list[str], wanted: Any) -> None:
    assert judged(replies("EX01.json", *((text, CHEAP) for text in turns))) == wanted


@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        ({"Cafe": {"AREA": "Harbor", "Price": "CHEAP"}}, (1, None)),
        ({"cafe": {"area": ["harbour", "north"], "pricerange": "cheap", "cakes": None}}, (1, None)),
        ({"cafe": CHEAP["cafe"] | {"wifi": "yes", "pool": "no"}}, (1, "unknown slots: cafe.pool, cafe.wifi")),
        (CHEAP | {"zoo": {}}, (1, "unknown domains: zoo")),
        # two domains changed at once: the second reply is taken for one about the other
        (CHEAP | {"zoo": {"animal": "owl"}}, (0, "unknown domains: zoo")),
        ({"cafe": "harbour"}, (0, "wrong types: cafe is not an object")),
        ("harbour", (0, "wrong types: state is not an object")),
        ({"cafe": {"area": 3, "pricerange": True}}, (0, None)),
        ({"cafe": {"area": {"x": []}}}, (0, None)),
    ],
)
def test_odd_states_are_judged_and_named(state: Any, wanted: Any) -> None:
    value, _, note = judged(replies("ex01", (SHUT, state), ("[name] [phone]", state)))
    assert (value, note) == wanted


@pytest.mark.parametrize("domains", ["cafe", ["CAFE", "boat"]])
def test_odd_domains(domains: Any) -> None:
    assert judged(replies("ex01", (SHUT, CHEAP), ("[name] [phone]", CHEAP), active_domains=domains)) == (
        1,
        1,
        None,
    )
    wrong = replies("ex01", (SHUT, CHEAP), ("[name] [phone]", CHEAP), active_domains=7)
    assert judged(wrong) == (0, 0, "wrong types: active_domains is not a list")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "cafe", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["cafe", "area", "Boat", "fare", "leave", "", "zoo"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(state=JSON, domains=JSON, goal=JSON, text=st.text(alphabet="[]_namephor \n"))
def test_whatever_a_turn_holds_is_judged(state: Any, domains: Any, goal: Any, text: str) -> None:
    meta = {"state": state, "active_domains": domains}
    turns = [Turn("assistant", text, meta), Turn("assistant", "[name] [phone]", meta)]
    for name in ("ex01", "ex07", "other"):
        inform, success, note = judged(dialogue(turns, name, meta={"goal": goal}))
        assert (inform is None) == (success is None)
        assert note or inform is not None
        assert (success or 0) <= (inform or 0)


def test_a_file_is_told_what_is_odd_about_it(tmp_path: Path) -> None:
    summary = score_to(example_predictions(), ["multiwoz:schema=example"], tmp_path / "s.parquet")
    assert summary.remarks == {
        "multiwoz": [
            "unknown placeholders ([value_street]): 1 dialogue, ex05",
            "extra turns, left out: 1 dialogue, ex07",
            "unknown slots (cafe.wifi): 1 dialogue, ex08",
            "no goal is known for this dialogue: 1 dialogue, ex99",
            "no prediction: 1 dialogue, ex09",
        ]
    }
    means = {row["dimension"]: (row["mean"], row["n"], row["n_unscored"]) for row in summary.rows()}
    assert means == {"inform": (pytest.approx(8 / 9), 9, 1), "success": (pytest.approx(6 / 9), 9, 1)}


def test_explanations_name_the_domain_and_what_is_missing() -> None:
    found = {one.dialogue_id: one for one in build("multiwoz:schema=example").explain(example_predictions())}
    assert "ex99" not in found
    assert found["EX02.json"].parts == {"cafe inform": 1, "cafe success": 0}
    assert found["EX02.json"].note == "cafe: not given: reference"
    assert found["ex08"].note == "cafe: what was offered does not fit the goal; unknown slots: cafe.wifi"
    assert found["ex01"].own.labels == (None, "name, phone, price")


# --- what is named, and what is not there -------------------------------------------------------------------


def test_signature_names_rules_and_content(tmp_path: Path) -> None:
    fields = dict(signature_of(MultiWoz(schema="example", venues="any")).fields)
    assert fields["schema"].startswith("example@")
    assert (fields["venues"], fields["offers"], fields["times"]) == ("any", "narrowest", "read")
    assert fields["booked"] == "slots"
    goals = tmp_path / "goals.json"
    goals.write_text(json.dumps({"x": {"police": {}}}))
    other = signature_of(MultiWoz(schema="example", goals=str(goals)))
    assert dict(other.fields)["data"] != fields["data"]


def test_without_data_nothing_is_scored_and_why_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIALEVAL_DATA", str(tmp_path))
    rows = list(build("multiwoz").score(example_dialogues()[:2]))
    assert [row.value for row in rows] == [None] * 4
    assert "goals_test_val_rebuilt.json: this file of the task is missing" in str(rows[0].note)
    assert build("multiwoz").tally().remarks() == []
    with pytest.raises(DataError, match="missing"):
        build(f"multiwoz:data={tmp_path}").score(example_dialogues()[:2])
    with pytest.raises(DataError, match="nowhere"):
        build("multiwoz:schema=nowhere.toml").score(example_dialogues()[:2])


# --- published figures --------------------------------------------------------------------------------------

EXACT = ("pptod", "ubar", "mintl", "damd", "augpt", "labes", "galaxy-e2e", "uniconv", "sfn")


@pytest.mark.parametrize(("system", "within"), [*((name, 0.1) for name in EXACT), ("hdsa", 0.3)])
def test_published_figures(data_folder: Path, system: str, within: float) -> None:
    if not (data_folder / "multiwoz" / "leaderboard.json").is_file():
        pytest.skip("the public set multiwoz is not there")
    scores = build("multiwoz").score(formats.read(system_files()[system]))
    found = {row["dimension"]: row for row in scores.summary()}
    for name in ("inform", "success"):
        assert 100 * found[name]["mean"] == pytest.approx(published_figures()[system][name], abs=within)
        assert found[name]["n_unscored"] == 0
    assert found["inform"]["n"] == {"mintl": 999, "damd": 999, "labes": 944}.get(system, 1000)
