"""Faults by name: hand-written dialogues that nothing learned from, and rows for whatever comes."""

from pathlib import Path

import numpy as np
import pytest

from dialeval.dialogues import dialogue, formats
from dialeval.metrics import build
from dialeval.metrics.faults import COUNT, FAULTLESS, Faults
from dialeval.models.fault_weights import FAULTS
from dialeval.training.fault_examples import marked

FILES = [Path(__file__).with_name(name) for name in ("faults.jsonl", "unseen_faults.jsonl")]
MARKED = [one for file in FILES for scenario in formats.read(file) for one in marked(scenario)]


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


def test_a_threshold_counts_faults_and_is_in_the_signature() -> None:
    turns = [("user", "Do you like tea?"), ("assistant", "Shut up, you idiot.")]
    assert (
        rows(build("faults:threshold=0"), *turns)[None, COUNT] == 700.0
    )  # all but unsupported, in one reply
    assert rows(Faults(threshold=1.1), *turns)[None, COUNT] == 0.0
    signature = Faults().score([]).signatures["faults"]
    assert "|threshold:contradicts-itself=0." in str(signature)
    assert "unkind=0.7" in str(Faults(threshold=0.7).score([]).signatures["faults"])


def test_explanation_has_reply_fault_and_proof_side_by_side() -> None:
    chat = dialogue(
        [
            ("user", "My rabbit is ill."),
            ("assistant", "I'm so sorry to hear that. How long has it been ill?"),
            ("user", "Two days. What can I do?"),
            ("assistant", "Shut up, you idiot."),
        ],
        "d",
    )
    (found,) = Faults().explain([chat])
    assert found.reference is not None
    told = {
        (turn.number, label.split()[0]) for turn, label in zip(found.own.turns, found.own.labels, strict=True)
    }
    assert (3, "unkind") in told and (1, "unkind") not in told
    assert found.aligned[0] == (0, 0)
    (sound,) = Faults(threshold=1.1).explain([chat])
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
    (found,) = Faults(threshold=0.0).explain([chat])
    assert found.reference is not None
    proofs = zip(found.own.turns, found.own.labels, found.reference.turns, strict=True)
    assert [
        proof.number
        for turn, label, proof in proofs
        if turn.number == 3 and label.startswith("contradicts-itself")
    ] == [1]
