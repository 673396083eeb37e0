"""Schemes: the ready ones are what the papers describe, and a mistake in a file is named by its place."""

from pathlib import Path

import pytest

from dialeval.annotation import parse_scheme, read_scheme, scheme_names
from dialeval.annotation.answers import agrees, fields_of, is_asked, parse, swap_sides
from dialeval.annotation.items import filled_meta, item_view
from dialeval.annotation.pages import keys_of
from dialeval.annotation.project import create
from dialeval.dialogues import dialogue
from dialeval.dialogues.acts import ACTS
from dialeval.errors import DataError, UsageError

PLAIN = """
name = "mine"
title = "Mine"
unit = "turn"
instructions = "Look."
[[questions]]
name = "good"
type = "choice"
text = "Good?"
choices = [{ value = 0, label = "No" }, { value = 1, label = "Yes" }]
"""
MORE = """
[[questions]]
name = "why"
type = "several"
text = "What is wrong?"
when = { question = "good", one_of = [0] }
choices = [{ value = "rude", label = "Rude" }, { value = "long", label = "Long" }]
[[questions]]
name = "words"
type = "text"
text = "Say more."
required = false
"""


def test_ready_schemes_are_all_there() -> None:
    assert set(scheme_names()) == {
        "appropriateness",
        "coherence",
        "dialogue",
        "pairwise",
        "pairwise-replies",
        "segment-acts",
        "support",
        "support-reply",
        "turn-quality",
        "turn-quality-binary",
        "wizard",
        "wizard-acts",
    }
    for name in scheme_names():
        assert read_scheme(name).name == name


def test_ready_schemes_are_those_of_the_papers() -> None:
    acts = read_scheme("segment-acts")
    assert [one.value for one in acts.questions[0].choices] == list(ACTS)
    assert acts.raters_per_item == 3 and acts.rounds is not None
    assert [one.value for one in read_scheme("appropriateness").questions[0].options] == [1, 2, 3, 4, 5]
    assert [one.value for one in read_scheme("turn-quality").questions[0].options] == [0, 1, 2]
    assert [one.value for one in read_scheme("turn-quality-binary").questions[0].options] == [0, 1]
    coherence = read_scheme("coherence")
    assert (coherence.history, coherence.following) == (4, 1)
    assert [one.value for one in coherence.questions[0].options] == [0, 1, 2]
    wizard = read_scheme("wizard")
    assert (wizard.role, wizard.unit, wizard.raters_per_item) == ("wizard", "context", 4)
    assert wizard.marks is not None
    assert not wizard.marks.choices
    chosen = read_scheme("wizard-acts")
    assert (chosen.role, chosen.unit, chosen.raters_per_item, chosen.merge) == ("wizard", "context", 4, True)
    assert chosen.marks is not None
    assert chosen.marks.choices == acts.questions[0].choices


def test_two_of_the_six_questions_about_a_dialogue_depend_on_the_persona() -> None:
    scheme = read_scheme("dialogue")
    assert len(scheme.questions) == 6
    asked = [[one.name for one in scheme.questions if is_asked(one, {}, meta)] for meta in (["persona"], [])]
    assert len(asked[0]) == len(asked[1]) == 5
    assert set(asked[0]) ^ set(asked[1]) == {"persona-inconsistent", "topic-shift"}
    answers, missing = parse(scheme, {"q0": ["0"], "q1": ["1"], "q2": ["0"], "q4": ["1"], "q5": ["4"]})
    assert not missing
    assert answers == {"irrelevant": 0, "contradictory": 1, "repetitive": 0, "topic-shift": 1, "overall": 5}


def test_question_under_a_condition() -> None:
    scheme = parse_scheme(PLAIN + MORE)
    assert parse(scheme, {"q0": ["1"]}) == ({"good": 1}, {})
    assert parse(scheme, {"q0": ["0"]}) == ({"good": 0}, {1: "Choose at least one."})
    both = {"good": 0, "why": ["rude", "long"], "words": "so\nand so"}
    assert parse(scheme, {"q0": ["0"], "q1": ["1", "0"], "q2": ["so\r\nand so"]}) == (both, {})
    assert parse(scheme, fields_of(scheme, both)) == (both, {})
    ignored, _ = parse(scheme, {"q0": ["1"], "q1": ["0"]})  # a hidden question cannot be answered
    assert ignored == {"good": 1}


@pytest.mark.parametrize("given", [["2"], ["-1"], ["x"], [""], ["0", "1"], ["٣"], ["9" * 5000], ["1.0"]])
def test_what_is_no_answer_is_not_taken(given: list[str]) -> None:
    assert parse(parse_scheme(PLAIN), {"q0": given})[1] == {0: "Choose one."}


def test_marks() -> None:
    scheme = read_scheme("wizard")
    assert parse(scheme, {"q0": ["2", "0", "99"]}, candidates=3) == ({"replies": [0, 2]}, {})
    assert parse(scheme, {}, candidates=3)[1] == {0: "Mark at least one, or choose that none fits."}
    assert parse(scheme, {"q0.none": ["1"]}, candidates=3) == ({"replies": []}, {})
    assert fields_of(scheme, {"replies": []}) == {"q0": [], "q0.none": ["1"]}


def test_agreement_of_two_ignores_texts_and_order() -> None:
    scheme = parse_scheme(PLAIN + MORE)
    one = {"good": 0, "why": ["rude", "long"], "words": "x"}
    assert agrees(scheme, one, {"good": 0, "why": ["long", "rude"]})
    assert not agrees(scheme, one, {"good": 0, "why": ["long"]})


def test_a_preference_turned_twice_is_as_before() -> None:
    scheme = read_scheme("pairwise")
    for value in ("first", "second", "tie"):
        answers = {"preference": value}
        assert swap_sides(scheme, swap_sides(scheme, answers)) == answers
    assert swap_sides(scheme, {"preference": "tie"}) == {"preference": "tie"}


def test_every_option_has_a_key_of_its_own() -> None:
    for name in scheme_names():
        for question in read_scheme(name).questions:
            keys = keys_of(question)
            assert len(set(keys)) == len(keys)
            assert not {"u", "s", "/"} & set(keys)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (('unit = "turn"', 'unit = "word"'), "unit"),
        (('type = "choice"', 'type = "slider"'), "questions[0].type"),
        (('title = "Mine"\n', ""), "title"),
        (('title = "Mine"', 'titel = "x"\ntitle = "Mine"'), "titel"),
        (('name = "good"', 'name = "so good"'), "questions[0].name"),
        (("value = 1,", "value = 0,"), "questions[0].choices"),
        (("value = 1,", 'value = "yes",'), "questions[0].choices"),
        (('{ value = 0, label = "No" }, ', ""), "questions[0].choices"),
        (("one_of = [0]", "one_of = [7]"), "questions[1].when"),
        (('question = "good"', 'question = "words"'), "questions[1].when"),
        (('name = "words"', 'name = "why"'), "questions[2].name"),
        (('instructions = "Look."', 'instructions = "Look."\nraters_per_item = 0'), "raters_per_item"),
        (('unit = "turn"', 'unit = "pair"'), "questions[0].choices"),
    ],
)
def test_a_mistake_is_named_by_its_place(change: tuple[str, str], place: str) -> None:
    text = PLAIN + MORE
    assert change[0] in text
    with pytest.raises(DataError) as caught:
        parse_scheme(text.replace(*change), "mine.toml")
    assert "mine.toml" in str(caught.value)
    assert place in str(caught.value)


def test_gold_must_be_answerable() -> None:
    gold = '[[gold]]\ndialogue = "d1"\nturn = 1\nanswers = { good = [5] }\n'
    with pytest.raises(DataError, match="gold"):
        parse_scheme(PLAIN + gold)
    assert parse_scheme(PLAIN + gold.replace("[5]", "[1]")).gold[0].answers == {"good": (1,)}


def test_files_that_are_no_schemes(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="ready ones"):
        read_scheme("nonsense")
    with pytest.raises(DataError, match="no such file"):
        read_scheme(tmp_path / "missing.toml")
    bad = tmp_path / "bad.toml"
    bad.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="UTF-8"):
        read_scheme(bad)
    bad.write_text("x = [", encoding="utf-8")
    with pytest.raises(DataError, match="not TOML"):
        read_scheme(bad)


def test_evidence_and_instructions_are_shown_beside_a_reply(tmp_path: Path) -> None:
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Fee?"}]
    turns += [{"role": "tool", "content": "fee: 5"}, {"role": "assistant", "content": "Five."}]
    chat = dialogue(turns, "d1", evidence=["Fees are fixed."])
    project = create(tmp_path / "p", read_scheme("support-reply"), [chat], ["ann"])
    view = item_view(project, project.items[0], 0, "ann")
    assert view.facts == [("instructions", ["Be brief."]), ("evidence", ["Fees are fixed.", "fee: 5"])]
    assert filled_meta(chat) == {"instructions", "evidence"}
    assert filled_meta(dialogue([("user", "Hi")])) == frozenset()
