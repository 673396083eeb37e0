"""Students: what is learned of a teacher, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from dialeval.dialogues import dialogue
from dialeval.dialogues.formats import write
from dialeval.errors import UsageError
from dialeval.jobs.demo import example_dialogues
from dialeval.jobs.training import train_to
from dialeval.metrics import build
from dialeval.metrics.lessons import lessons
from dialeval.metrics.recipes import recipe
from dialeval.metrics.student import Student, taught


def test_what_a_teacher_says_of_turns_comes_before_what_it_says_of_dialogues() -> None:
    found = lessons([dialogue([("user", "Hi"), ("assistant", "Hello there")], "d")])
    assert taught(build("length"), found) == {("d", 1): 2.0}
    assert taught(build("turns"), found) == {("d", 1): 2.0}


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


def test_what_cannot_be_learned_is_refused() -> None:
    with pytest.raises(UsageError, match="leave --encoder out"):
        recipe("student", encoder="bert-base-uncased")
    with pytest.raises(UsageError, match="no metric called 'nobody'"):
        recipe("student:teacher=nobody")
    with pytest.raises(UsageError, match="has no field 'colour'"):
        recipe("student:teacher=length;colour=red")


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
