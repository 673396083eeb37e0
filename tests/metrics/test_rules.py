"""Rules on samples that were labelled by hand before the rules were run, and what surrounds them."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from dialeval.dialogues import Dialogue, Turn, dialogue
from dialeval.metrics.rules import RULES, Rules, replies
from dialeval.statistics.estimate import share

SAMPLES = Path(__file__).parent / "rules_samples"
PAGE = Path(__file__).parents[2] / "docs" / "metrics" / "rules.md"
FIRST = {  # hits, positives, false alarms, negatives when the rules met the samples for the first time
    "empty": (28, 31, 0, 116),
    "cut-off": (28, 30, 1, 120),
    "refusal": (22, 33, 0, 120),
    "error-text": (21, 31, 1, 120),
    "leak": (30, 33, 0, 120),
    "wrong-language": (28, 31, 1, 120),
    "loop": (28, 30, 0, 125),
    "repeats": (22, 32, 0, 127),
    "unanswered-question": (21, 31, 0, 121),
    "same-tool-call": (29, 30, 0, 126),
    "tool-error-ignored": (26, 31, 3, 132),
    "hand-over": (15, 31, 1, 123),
    "asks-again": (22, 30, 1, 122),
    "gives-up": (21, 30, 2, 126),
}


def load(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SAMPLES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def fires(rule: str, sample: dict[str, Any]) -> bool:
    found = dict(replies(dialogue(sample["messages"], "d")))  # a call that is written as text is no reply
    return sample["turn"] in found and RULES[rule](found[sample["turn"]]) is not None


def figures(rule: str) -> tuple[int, int, int, int]:
    samples = [*load(rule), *load("negatives")]
    hits = sum(fires(rule, one) for one in samples if one["label"])
    alarms = sum(fires(rule, one) for one in samples if not one["label"])
    positives = sum(one["label"] for one in samples)
    return hits, positives, alarms, len(samples) - positives


def as_row(rule: str, now: tuple[int, int, int, int]) -> str:
    cells = [f"`{rule}`"]
    for hits, positives, alarms, _ in (FIRST[rule], now):
        for count, of in ((hits, hits + alarms), (hits, positives)):
            made = share(count, of)
            cells.append(f"{made.value:.2f} [{made.low:.2f}, {made.high:.2f}]")
    return "| " + " | ".join(cells) + " |"


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_finds_what_its_page_says(rule: str) -> None:
    now = figures(rule)
    assert now[1] >= 30 and now[3] >= 100
    assert now[0] >= FIRST[rule][0] and now[2] <= FIRST[rule][2]
    assert as_row(rule, now) in PAGE.read_text(encoding="utf-8")


def test_every_rule_has_samples_and_a_line() -> None:
    assert {path.stem for path in SAMPLES.iterdir()} == {*RULES, "negatives"}
    assert list(FIRST) == list(RULES)


UNSEEN = tomllib.loads(Path(__file__).with_name("rules_unseen.toml").read_text(encoding="utf-8"))
UNSEEN_FIRST = {"refusal": (16, 1), "hand-over": (15, 1), "cut-off": (17, 2), "leak": (16, 2)}  # hits, alarms


@pytest.mark.parametrize("rule", UNSEEN)
def test_what_was_unseen_is_found_as_the_page_says(rule: str) -> None:
    def found(texts: list[str]) -> int:
        said = [[("user", "Can you help me with this?"), ("assistant", text)] for text in texts]
        return sum(RULES[rule](dict(replies(dialogue(one, "d")))[1]) is not None for one in said)

    wanted, others = UNSEEN[rule]["positives"], UNSEEN[rule]["negatives"]
    assert (len(set(wanted)), len(set(others))) == (30, 60)
    cells = [f"`{rule}`"]
    for hits, alarms in (UNSEEN_FIRST[rule], (found(wanted), found(others))):
        shares = (share(hits, hits + alarms), share(hits, 30))
        cells += [f"{made.value:.2f} [{made.low:.2f}, {made.high:.2f}]" for made in shares]
    assert "| " + " | ".join(cells) + " |" in PAGE.read_text(encoding="utf-8"), cells


THIRD = tomllib.loads(Path(__file__).with_name("rules_third.toml").read_text(encoding="utf-8"))
THIRD_FIRST = {  # hits of 30, alarms of 50 when version 1 met them
    "refusal": (12, 0),
    "hand-over": (16, 4),
    "cut-off": (23, 0),
    "leak": (23, 2),
    "error-text": (16, 3),
    "unanswered-question": (17, 0),
    "asks-again": (19, 1),
    "gives-up": (21, 6),
}


def fires_in(rule: str, sample: str | dict[str, Any]) -> bool:
    """Whether a rule finds something in any reply of a sample."""
    asked = [("user", "Can you help me with this?")]
    turns = [*asked, ("assistant", sample)] if isinstance(sample, str) else map(tuple, sample["messages"])
    return any(RULES[rule](reply) is not None for _, reply in replies(dialogue(list(turns), "d")))


@pytest.mark.parametrize("rule", THIRD_FIRST)
def test_the_half_that_was_not_looked_at_is_found_as_the_page_says(rule: str) -> None:
    assert list(THIRD) == list(THIRD_FIRST)
    hits, alarms = ([fires_in(rule, one) for one in THIRD[rule][kind]] for kind in ("positives", "negatives"))
    assert (len(hits), len(alarms)) == (30, 50)
    cells = [f"`{rule}`"]
    counts = [(*THIRD_FIRST[rule], 30), *((sum(hits[at::2]), sum(alarms[at::2]), 15) for at in (1, 0))]
    for found, false, wanted in counts:  # all of them before, the unseen half, the half that was looked at
        shares = (share(found, found + false), share(found, wanted))
        cells += [f"{made.value:.2f} [{made.low:.2f}, {made.high:.2f}]" for made in shares]
    assert "| " + " | ".join(cells) + " |" in PAGE.read_text(encoding="utf-8"), cells


FOURTH = tomllib.loads(Path(__file__).with_name("rules_fourth.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("rule", FOURTH)
def test_a_fourth_set_is_found_as_the_page_says(rule: str) -> None:
    def found(text: str) -> bool:
        said = list(zip(("user", "assistant", "user"), text.split("|"), strict=False))
        return fires_in(rule, text if rule == "error-text" else {"messages": said})

    hits, alarms = ([found(one) for one in FOURTH[rule][kind]] for kind in ("positives", "negatives"))
    assert (len(hits), len(alarms)) == (30, 60)
    shares = (share(sum(hits), sum(hits) + sum(alarms)), share(sum(hits), 30))
    cells = [f"`{rule}`", *(f"{made.value:.2f} [{made.low:.2f}, {made.high:.2f}]" for made in shares)]
    assert "| " + " | ".join(cells) + " |" in PAGE.read_text(encoding="utf-8"), cells


def test_what_somebody_quotes_or_drafts_is_not_their_own() -> None:
    for text in (
        'The bot says "I\'m transferring you to a colleague".',
        "> I can't help with that.\n\nThat is how it declined.",
        "Here is a draft:\n\nDear Ann,\nI'm afraid I can't help with the move.",
    ):
        assert not fires_in("refusal", text) and not fires_in("hand-over", text)


def test_a_speaker_who_never_ends_with_a_stop_is_not_cut_off() -> None:
    said = "We looked at it. It is the best of all the things that we saw in town on our last visit there"
    chat = [
        ("user", "Hi"),
        ("assistant", said),
        ("user", "Nice"),
        ("assistant", said.replace("best", "worst")),
    ]
    first, second = (RULES["cut-off"](reply) for _, reply in replies(dialogue(chat, "d")))
    assert first is not None and second is None


def test_json_in_a_code_block_or_after_a_label_is_a_leak() -> None:
    record = '{"order": "A12", "status": "shipped"}'
    for text in (f"Tool result: {record}", f"```json\n{record}\n```"):
        assert fires_in("leak", text) and not fires_in("leak", f"Here you are:\n{text}")


def test_bold_text_without_an_end_is_cut_off() -> None:
    assert fires_in("cut-off", "I suggest:\n- **Fast**: by air\n- **Cheap")
    assert not fires_in("cut-off", "I suggest:\n- **Fast**: by air\n- **Cheap**")
    assert not fires_in("cut-off", "Now compute\n2**n")


def test_explanations_show_the_evidence() -> None:
    chat = dialogue(
        [("user", "Where is it?"), ("assistant", "HTTP 503 Service Unavailable"), ("user", "Forget it.")], "d"
    )
    (why,) = Rules().explain([chat])
    assert why.value == 1 and set(why.parts) == {"error-text", "gives-up"}
    assert (
        why.own.turns[1].pieces[0].label
        == "error-text: HTTP 503 Service Unavailable; gives-up: the user: Forget it"
    )


def test_rows_of_a_dialogue_with_and_without_replies() -> None:
    rows = list(
        Rules().score([dialogue([("user", "Hi"), ("assistant", "")], "a"), dialogue([("user", "Hi")], "b")])
    )
    assert len(rows) == 3 * len(RULES)
    assert {(row.turn, row.value) for row in rows if row.dialogue_id == "a" and row.dimension == "empty"} == {
        (1, 1.0),
        (None, 1.0),
    }
    assert {(row.value, row.note) for row in rows if row.dialogue_id == "b"} == {(None, "no reply to score")}


def test_two_people_are_each_others_users() -> None:
    chat = Dialogue(
        "d", (Turn("Ann", "Is it open?"), Turn("Ben", "Let me check."), Turn("Ann", "Never mind."))
    )
    found = {(row.turn, row.dimension) for row in Rules().score([chat]) if row.turn and row.value}
    assert found == {(1, "unanswered-question"), (1, "gives-up")}
