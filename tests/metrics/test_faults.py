"""Faults by name: hand-written dialogues that nothing learned from, and rows for whatever comes."""

from pathlib import Path

import numpy as np
import pytest

from dialeval.dialogues import dialogue, formats
from dialeval.metrics import build
from dialeval.metrics.faults import COUNT, FAULTLESS, Faults
from dialeval.models.fault_weights import FAULTS
from dialeval.training.fault_examples import marked

SCENARIOS = list(formats.read(Path(__file__).with_name("faults.jsonl")))
MARKED = [one for scenario in SCENARIOS for one in marked(scenario)]


@pytest.fixture(scope="module")
def judged() -> dict[tuple[str, int | None, str], float | None]:
    rows = Faults().score([one.dialogue for one in MARKED])
    return {(row.dialogue_id, row.turn, row.dimension): row.value for row in rows}


def test_own_test_dialogues_are_not_among_what_was_learned_from() -> None:
    learned = formats.read(Path(__file__).parents[2] / "src/dialeval/training/faults.jsonl")
    known = {
        turn.text.lower()
        for scenario in learned
        for one in marked(scenario)
        for turn in one.dialogue.turns
        if len(turn.text) > 25
    }
    tested = {turn.text.lower() for one in MARKED for turn in one.dialogue.turns}
    assert len(known) > 1500
    assert not known & tested


def test_marked_replies_are_less_faultless_than_good_ones(judged) -> None:
    good, bad = [], []
    for chat, fault in MARKED:
        if fault is not None:
            bad.append(judged[chat.id, fault.turn, FAULTLESS])
            continue
        for turn, said in enumerate(chat.turns):
            if turn and said.speaker == "assistant":
                good.append(judged[chat.id, turn, FAULTLESS])
    assert len(bad) >= 90
    above = np.mean([one > other for one in good for other in bad])  # the area under the ROC curve
    assert above > 0.75


def test_each_fault_is_likelier_where_it_is_marked(judged) -> None:
    for fault in FAULTS:
        wrong = [judged[chat.id, one.turn, fault] for chat, one in MARKED if one and one.name == fault]
        sound = {chat.id for chat, one in MARKED if one is None}
        others = [
            value
            for (id, turn, name), value in judged.items()
            if id in sound and turn is not None and name == fault and value is not None
        ]
        assert np.median(wrong) > np.median(others), fault


def rows(made: Faults, *turns: tuple[str, str]) -> dict[tuple[int | None, str], float | str | None]:
    chat = dialogue(turns, "d")
    return {
        (row.turn, row.dimension): row.note if row.value is None else row.value for row in made.score([chat])
    }


def test_rows_of_a_dialogue() -> None:
    found = rows(
        Faults(), ("user", "Hi, I'm Kim."), ("assistant", "Hello Kim!"), ("user", "And?"), ("assistant", " ")
    )
    assert found[1, "unsupported"] == "no evidence"
    assert found[1, "contradicts-itself"] < 0.2
    assert {found[3, fault] for fault in FAULTS} == {"empty reply"}
    assert (found[3, "empty"], found[1, "empty"], found[3, FAULTLESS]) == (1.0, 0.0, 0.0)
    assert found[None, "empty"] == 50.0
    assert found[None, "unsupported"] == "no evidence"
    assert 0 <= found[None, FAULTLESS] <= 1
    assert found[3, COUNT] == 1.0


def test_another_script_is_unscored_with_a_reason() -> None:
    found = rows(Faults(), ("user", "Когда открыто?"), ("assistant", "Музей открыт до шести."))
    assert found[1, FAULTLESS] == "not English"
    assert found[None, COUNT] == "no reply to score"


def test_thresholds_count_faults_and_are_in_the_signature() -> None:
    turns = [("user", "Do you like tea?"), ("assistant", "Shut up, you idiot.")]
    all_of_them = build("faults:thresholds=" + "+".join(["0.0"] * len(FAULTS)))
    assert rows(all_of_them, *turns)[None, COUNT] == 700.0  # all but unsupported, in one reply
    assert rows(Faults(thresholds=(1.1,) * len(FAULTS)), *turns)[None, COUNT] == 0.0
    signature = Faults().score([]).signatures["faults"]
    assert "thresholds:" in str(signature)


def test_explanation_has_reply_fault_and_proof_side_by_side() -> None:
    chat = dialogue(
        [
            ("user", "My rabbit is ill."),
            ("assistant", "Oh no, poor rabbit."),
            ("user", "What can I do?"),
            ("assistant", "Shut up, you idiot."),
        ],
        "d",
    )
    (found,) = Faults(thresholds=(1.1,) * 7 + (0.85,)).explain([chat])
    assert found.reference is not None
    assert [turn.number for turn in found.own.turns] == [3]
    assert found.own.labels[0].startswith("unkind 0.")
    assert found.aligned == ((0, 0),)
    (sound,) = Faults(thresholds=(1.1,) * 8).explain([chat])
    assert sound.reference is None
    assert sound.note == "no fault was found"


def test_proof_of_a_contradiction_is_an_earlier_turn() -> None:
    chat = dialogue(
        [
            ("user", "Hi!"),
            ("assistant", "I have never been to Spain."),
            ("user", "Where did you go?"),
            ("assistant", "I go to Spain every summer."),
        ],
        "d",
    )
    (found,) = Faults(thresholds=(0.0,) + (1.1,) * 7).explain([chat])
    assert found.reference is not None
    assert found.reference.turns[-1].number == 1
