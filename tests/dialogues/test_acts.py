"""The tagset as data: complete, canonical, with examples that are segments; annotations in a turn's meta."""

from collections import Counter
from pathlib import Path

import pytest

from dialeval.dialogues import Turn
from dialeval.dialogues.acts import ACTS, Annotation, acts, annotations, canonical
from dialeval.dialogues.segments import split
from dialeval.errors import DataError


def test_eleven_acts_in_three_dimensions():
    assert tuple(act.name for act in acts()) == ACTS
    assert Counter(act.dimension for act in acts()) == {
        "general task": 4,
        "social obligation management": 4,
        "simple feedback": 3,
    }


@pytest.mark.parametrize("act", acts(), ids=lambda act: act.name)
def test_every_act_is_defined_and_has_examples_that_are_one_segment_each(act):
    assert act.definition.endswith(".")
    assert len(act.examples) >= 6
    assert len({example.text for example in act.examples}) == len(act.examples)
    for example in act.examples:
        assert split(example.text) == [example.text]
        assert example.before is None or example.before.strip()


def test_a_segment_with_what_was_said_before_is_an_example_of_one_act():
    seen = Counter((example.text, example.before) for act in acts() for example in act.examples)
    assert max(seen.values()) == 1


def test_feedback_about_understanding_is_told_from_its_look_alikes():
    found = {example.text: act.name for act in acts() for example in act.examples}
    assert found["Sorry?"] == "backchannel-failure"
    assert found["Sorry."] == "apology"
    assert found["Got it?"] == "check-understanding"
    assert found["Got it."] == "backchannel-success"


@pytest.mark.parametrize(
    "label", ["backchannel-success", "backchannel_success", "Backchannel_Success", " BACKCHANNEL success "]
)
def test_spellings(label):
    assert canonical(label) == "backchannel-success"


@pytest.mark.parametrize("label", ["", "statement", "backchannelsuccess", "inform,question", "-"])
def test_other_labels_are_refused_with_the_known_ones(label):
    with pytest.raises(DataError, match=r"unknown act .*; known: inform, question, .*, check-understanding"):
        canonical(label)


def test_annotations_keep_spelling_votes_and_blanks():
    segments = [
        {"text": "Hm", "act": "backchannel_success", "votes": ["inform", None]},
        {"text": "", "act": None},
    ]
    turn = Turn("user", "Hm", {"segments": segments})
    assert annotations(turn) == [
        Annotation("Hm", "backchannel_success", ("inform", None)),
        Annotation("", None),
    ]
    assert annotations(Turn("user", "Hm")) is None
    assert annotations(Turn("user", "", {"segments": []})) == []


@pytest.mark.parametrize(
    "segments",
    ["Hm", {"text": "Hm"}, ["Hm"], [{"act": "inform"}], [{"text": 1}], [{"text": "a", "act": 3}]]
    + [[{"text": "a", "votes": votes}] for votes in ("inform", [1], {"ann": "inform"})],
)
def test_malformed_annotations_are_refused(segments):
    with pytest.raises(DataError, match="not a list of segments"):
        annotations(Turn("user", "Hm", {"segments": segments}))


def test_the_page_has_the_same_table():
    page = (Path(__file__).parents[2] / "docs" / "acts.md").read_text(encoding="utf-8")
    for act in acts():
        assert f"| {act.dimension} | `{act.name}` | {act.definition} | {act.examples[0].text} |" in page
