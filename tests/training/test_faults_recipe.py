"""The recipe of the reader: what programs put into replies, examples of every kind, a run from end to end."""

import json
import random
from pathlib import Path

import pytest

from dialeval.dialogues import Dialogue, Turn, dialogue
from dialeval.errors import DataError
from dialeval.training import fault_injections as faults
from dialeval.training.fault_examples import fault_examples
from dialeval.training.slot_examples import SlotExamples


@pytest.mark.parametrize(
    ("how", "text", "fresh"),
    [
        ("negate", "I like rain.", {"I don't like rain."}),
        ("negate", "We can't come.", {"We can come."}),
        ("negate", "Do you like rain?", {None}),
        ("change_value", "Nothing of the sort.", {None}),
        ("change_value", "It is hot.", {"It is cold."}),
        ("salad", "Too short.", {None}),
    ],
)
def test_injections(how: str, text: str, fresh: set[str | None]) -> None:
    assert {getattr(faults, how)(text, random.Random(seed)) for seed in range(20)} == fresh


def test_changed_values_differ_and_stay_of_their_kind() -> None:
    for seed in range(50):
        made = faults.change_value("Meet me on Friday at 10:30.", random.Random(seed))
        assert made != "Meet me on Friday at 10:30."
        assert made.startswith("Meet me on ")


def test_examples_of_every_kind_of_dialogue() -> None:
    said = [("assistant", "I have a dog."), ("assistant", "Nobody here has pets.")]
    pair = dialogue(said, "fault-pairs-one-1",
                    meta={"pair": "own", "targets": {"contradicts": 1.0}})  # fmt: skip
    fault = {"turn": 1, "name": "contradicts-user", "evidence": 0, "reply": "Who are you?"}
    marked = dialogue([("user", "I'm Lee."), ("assistant", "Hi Lee!")], "m", meta={"faults": [fault]})
    good = dialogue(
        [
            ("a", "Do you have tea?"),
            ("b", "Yes, black or green?"),
            ("a", "Green, for two."),
            ("b", "Two green teas."),
        ],
        "g",
    )
    first, *rest = fault_examples([pair, marked, good])
    assert first.memory[0] == ("own", "I have a dog.")
    assert first.targets == {"contradicts": 1.0}
    assert any(one.targets == {"contradicts": 1.0} and one.memory[-1].text == "I'm Lee." for one in rest)
    kinds = {memory.kind for one in rest for memory in one.memory}
    assert {"own", "user", "last", "before"} <= kinds
    assert [one.digest() for one in fault_examples([good])] == [
        one.digest() for one in fault_examples([good])
    ]


def test_a_run_from_end_to_end(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from dialeval.jobs.training import train_to
    from dialeval.models.fault_reader import FaultReader

    written = Path(faults.__file__).with_name("faults.jsonl").read_text(encoding="utf-8").splitlines()
    chats = [json.loads(line) for line in written]
    plain = [{**one, "id": f"plain-{one['id']}", "meta": {}} for one in chats[:12]]
    every_fault = [chats[number] for number in (20, 21, 23, 24, 26)]
    for name, some in (("learn", [*chats[:5], *plain[:5]]), ("dev", [*every_fault, *plain[10:]])):
        lines = "\n".join(map(json.dumps, some))
        (tmp_path / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    out = tmp_path / "reader"
    found = train_to("faults", [str(tmp_path / "learn.jsonl")], out, dev=[str(tmp_path / "dev.jsonl")],
                     settings={"batch": "256", "threads": "1"}, storage="int8")  # fmt: skip
    assert found["class"] == "fault-reader.v1"
    reader = FaultReader.load(out)
    assert all(weight >= 0 for some in reader.weights.values() for weight in some.features.values())


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"name": "boring"}, "Invalid enum value 'boring'"),
        ({"turn": 9}, "no such turn"),
        ({"evidence": 1}, "no such turn, or evidence after it"),
        ({"reply": ""}, "length >= 1"),
    ],
)
def test_marks_that_make_no_sense_are_refused(changed: dict[str, object], told: str) -> None:
    fault = {"turn": 1, "name": "ignores", "reply": "Nice weather.", **changed}
    chat = dialogue([("user", "Who?"), ("assistant", "Me.")], "m", meta={"faults": [fault]})
    with pytest.raises(DataError, match=told):
        list(fault_examples([chat]))


def annotated_chat() -> Dialogue:
    """A dialogue about a table, annotated as the Schema-Guided Dialogue corpus is."""

    def turn(speaker: str, text: str, results: list[dict[str, str]] | None = None, **values: str) -> Turn:
        slots = [[slot, text.index(value), text.index(value) + len(value)] for slot, value in values.items()]
        meta: dict[str, object] = {"slots": {"Restaurants_1": slots}}
        return Turn(speaker, text, meta | ({"results": {"Restaurants_1": results}} if results else {}))

    row = {"restaurant": "Olive Yard", "city": "Reno", "time": "19:00"}
    return Dialogue(
        "sgd-1",
        (
            turn("user", "A table in Reno at 7 pm.", city="Reno", time="7 pm"),
            turn("assistant", "Olive Yard in Reno has one.", [row], restaurant="Olive Yard", city="Reno"),
            turn("user", "Fine."),
            turn("assistant", "Olive Yard, Reno, 7 pm?", restaurant="Olive Yard", city="Reno", time="7 pm"),
        ),
    )


def test_wrong_values_of_annotated_replies() -> None:
    maker = SlotExamples()
    list(maker.examples(annotated_chat(), random.Random(0)))
    for slot, value in (("city", "Austin"), ("restaurant", "Casa Luna"), ("time", "9 pm")):
        maker._pool[f"Restaurants/{slot}"].append(value)
    found = [one for seed in range(8) for one in maker.examples(annotated_chat(), random.Random(seed))]
    wrong = [one for one in found if one.targets["contradicts"] == 1.0]
    right = [one for one in found if one.targets["contradicts"] == 0.0]
    replies = {turn.text for turn in annotated_chat().turns}
    assert wrong
    assert {one.reply for one in right} <= replies
    assert all(any(value in one.reply for value in ("Austin", "Casa Luna", "9 pm")) for one in wrong)
    assert {one.memory[0].kind for one in wrong} == {"evidence", "user", "own"}
    assert all(one.targets["supported"] == 0.0 for one in wrong if one.memory[0].kind == "evidence")
