"""Students: what is learned of a teacher, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from dialeval.dialogues import dialogue, scored_turns
from dialeval.dialogues.formats import write
from dialeval.errors import DataError, UsageError
from dialeval.jobs.demo import example_dialogues
from dialeval.jobs.training import train_to
from dialeval.metrics import build
from dialeval.metrics.turn_quality import CONSENSUS, Student
from dialeval.models import artefact
from dialeval.models.card import Card
from dialeval.training.registry import recipe
from dialeval.training.student_recipe import augment, teacher_scores


def test_a_teacher_of_turns_is_asked_about_them_and_one_of_dialogues_about_their_beginnings() -> None:
    said = [("user", "Hi"), ("assistant", "Hello there"), ("user", "Well?"), ("assistant", "Yes")]
    found = augment([dialogue(said, "d")])
    assert teacher_scores(build("length"), found, of_turns=True) == {("d", 1): 2.0, ("d", 3): 1.0}
    assert teacher_scores(build("turns"), found, of_turns=False) == {("d", 1): 2.0, ("d", 3): 4.0}


def test_a_student_learns_from_its_teacher(tmp_path: Path) -> None:
    chats = list(example_dialogues())
    write(chats[:35], tmp_path / "chats.jsonl")
    out = tmp_path / "mine"
    told = train_to("student:teacher=length", [str(tmp_path / "chats.jsonl")], out, settings={"threads": "1"})
    assert told["examples"] > 60
    made = Student(str(out))
    by_teacher = {(row.dialogue_id, row.turn): row.value for row in build("length").score(chats[35:])}
    by_student = {(row.dialogue_id, row.turn): row.value for row in made.score(chats[35:]) if row.turn}
    values = [(value, by_teacher[place]) for place, value in by_student.items() if value is not None]
    assert np.corrcoef(np.array(values).T)[0, 1] > 0.8
    assert made.provenance()["model"] != Student().provenance()["model"]


def test_a_student_of_whole_dialogues_says_of_each_reply_what_came_of_the_dialogue_so_far(
    tmp_path: Path,
) -> None:
    chats = list(example_dialogues())
    write(chats[:35], tmp_path / "chats.jsonl")
    out = tmp_path / "mine"
    train_to("student:teacher=turns", [str(tmp_path / "chats.jsonl")], out, settings={"threads": "1"})
    made = Student(str(out))
    values = {(row.dialogue_id, row.turn): row.value for row in made.score(chats[35:])}
    for chat in chats[35:]:
        so_far = [value for (name, turn), value in values.items() if name == chat.id and turn is not None]
        assert so_far == sorted(so_far)  # a dialogue grows
        assert values[chat.id, None] >= so_far[-1] - 1e-5  # equal, up to rounding, if a reply ends it
    lasts = Student(str(out), aggregate="last").score(chats[35:36])
    assert [row.value for row in lasts][-1] == values[chats[35].id, max(scored_turns(chats[35]))]
    longer = dialogue([*((turn.speaker, turn.text) for turn in chats[35].turns), ("user", "Bye, thanks.")])
    (grown,) = (row.value for row in made.score([longer]) if row.turn is None)
    assert grown > values[chats[35].id, None]  # what the user says last is part of it


def test_a_model_that_judges_what_nobody_knows_is_refused(tmp_path: Path) -> None:
    shipped = artefact.load(artefact.resolve(CONSENSUS))
    fields = {key: value for key, value in shipped.config.items() if key not in ("class", "dialeval")}
    weights = {"model.safetensors": shipped.path("model.safetensors").read_bytes()}
    changed, card = {**fields, "judges": "people"}, Card("odd", "Odd.", licence="mit", command="-")
    artefact.save(tmp_path / "odd", shipped.kind, changed, weights, card)
    with pytest.raises(DataError, match="judges: Invalid enum value"):
        Student(str(tmp_path / "odd")).score(example_dialogues()[:1])


def test_what_cannot_be_learned_is_refused() -> None:
    with pytest.raises(UsageError, match="leave --encoder out"):
        recipe("student", encoder="bert-base-uncased")
    with pytest.raises(UsageError, match="no metric called 'nobody'"):
        recipe("student:teacher=nobody")
    with pytest.raises(UsageError, match="has no field 'colour'"):
        recipe("student:teacher=length;colour=red")
    for longest in ("1", "many", "-3"):
        with pytest.raises(UsageError, match="expected a number of turns"):
            recipe(f"student:teacher=length,longest={longest}")


def test_the_shipped_student_knows_what_users_would_say() -> None:
    said = [("user", "Tell me about your day.")]
    kind, rude = (
        dialogue([*said, ("assistant", text)], text)
        for text in (
            "It was lovely, I went to the sea! How was yours?",
            "I don't understand you. You are stupid.",
        )
    )
    good, bad = (row.value for row in Student().score([kind, rude]) if row.turn)
    assert good is not None and bad is not None and good > bad
