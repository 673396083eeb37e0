"""The manifest of splits, and keeping test dialogues out of training by their text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialeval.dialogues import dialogue, splits
from dialeval.dialogues.datasets import NAMES, data_folder, public_set
from dialeval.dialogues.dialogue import Dialogue, Turn
from dialeval.errors import UsageError

LONG = [
    "Good morning, I would like to return this coat.",
    "Of course. What is wrong with it?",
    "The second button from the top fell off on Tuesday.",
    "I can have it sewn on again while you wait.",
    "That is kind, but my bus leaves in ten minutes.",
    "Then take this voucher and come back whenever you like.",
]


def chat(*texts, name=None):
    return dialogue(
        [("user" if place % 2 == 0 else "assistant", text) for place, text in enumerate(texts)], name
    )


def matches(one, other):
    """Say whether two dialogues match; it must not matter which of them is the one to be kept out."""
    there = splits.leave_out([one], [other])[1]
    assert splits.leave_out([other], [one])[1] == there
    return bool(there)


# The manifest


def test_every_public_set_is_in_the_manifest_and_no_other():
    assert set(splits._manifest()) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_manifest_names_parts_that_exist_and_uses_no_dialogue_twice(name):
    split = splits.split_of(name)
    used = [
        (part, bucket)
        for role in splits.ROLES
        for part, buckets in map(splits.parse_selector, getattr(split, role))
        for bucket in buckets
    ]
    assert {part for part, _ in used} == set(public_set(name).parts)
    assert len(used) == len(set(used)) == splits.BUCKETS * len(public_set(name).parts)
    assert split.note


def test_overlaps_go_both_ways():
    for name in NAMES:
        for other in splits.split_of(name).overlaps:
            assert name in splits.split_of(other).overlaps
    assert splits.overlap_group("conture") == ("conture", "dstc9")
    assert splits.split_of("fed").overlaps == ("fed",)
    assert splits.overlap_group("swda") == ("swda",)
    assert {"dailydialog", "dailydialog++", "convai2", "personachat"} < set(splits.overlap_group("actdial"))


def test_what_is_measured_on_is_never_trained_on_as_a_whole():
    for name in ("fed", "dstc9", "conture", "convai2-wild"):
        assert name in splits.test_sets()
        assert splits.split_of(name).train == ()


def test_controllable_teaches_acts_with_dialogues_that_are_not_measured_on():
    split = splits.split_of("controllable")
    (learned, low), (tested, high) = map(splits.parse_selector, (split.train[0], split.test[0]))
    assert learned == tested == "test"
    assert set(low).isdisjoint(high)
    assert len(low) + len(high) == splits.BUCKETS


@pytest.mark.parametrize(
    "call", [splits.split_of, splits.overlap_group, lambda name: list(splits.portion(name, "test"))]
)
def test_an_unknown_set_is_a_usage_error_that_lists_the_known(call):
    with pytest.raises(UsageError, match="unknown public set 'frd'; known: abceval"):
        call("frd")


def test_an_unknown_portion_is_a_usage_error():
    with pytest.raises(UsageError, match="known: train, dev, test"):
        list(splits.portion("fed", "validation"))


@pytest.mark.parametrize("selector", ["test#", "test#8-", "#1", "test#8-10", ""])
def test_a_selector_that_is_none_is_refused(selector):
    with pytest.raises(UsageError, match="not a part"):
        splits.parse_selector(selector)


def test_portions_cut_by_id_are_disjoint_complete_and_stable(tmp_path, monkeypatch):
    monkeypatch.setenv("DIALEVAL_DATA", str(tmp_path))
    (tmp_path / "uss").mkdir()
    blocks = [f"USER\tturn {n}\t\t3\nSYSTEM\treply {n}\t\t\nUSER\tOVERALL\t\t3\n" for n in range(200)]
    (tmp_path / "uss" / "SGD.txt").write_text("\n" + "\n".join(blocks))
    portions = {role: [made.id for made in splits.portion("uss", role)] for role in splits.ROLES}
    assert sum(map(len, portions.values())) == len(set().union(*portions.values())) == 200
    assert 120 < len(portions["train"]) < 160
    (tmp_path / "uss" / "SGD.txt").write_text("\n" + "\n".join(reversed(blocks)))
    assert {made.id for made in splits.portion("uss", "test")} == set(portions["test"])


# Text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  It's\t20:15,\nOK?!", "its 2015 ok"),
        ("\u201c\uff26\uff35\uff2c\uff2c\u201d width", "full width"),
        ("a_b - c", "ab c"),
        ("Ünï 日本。", "ünï 日本"),
        ("?!", ""),
        ("", ""),
    ],
)
def test_normalise(text, expected):
    assert splits.normalise(text) == expected


@given(st.text())
def test_normalise_twice_is_normalise_once_and_any_text_has_a_fingerprint(text):
    once = splits.normalise(text)
    assert splits.normalise(once) == once
    assert len(splits.fingerprint(Dialogue("d", (Turn("user", text),)))) == 64


def test_the_fingerprint_sees_words_and_order_but_not_spelling_or_speakers():
    one = dialogue([("user", "Do n't go !"), ("assistant", "Why?")])
    assert splits.fingerprint(one) == splits.fingerprint(dialogue([("B", "don't go"), ("A", "why")]))
    assert splits.fingerprint(one) != splits.fingerprint(dialogue([("A", "why"), ("B", "don't go")]))
    assert splits.fingerprint(one) != splits.fingerprint(dialogue([("B", "don't"), ("A", "go why")]))
    assert splits.fingerprint(chat(":)")) != splits.fingerprint(chat(":("))


# Matching


def test_equal_dialogues_match_however_short():
    assert matches(chat("hi", "hello"), chat("Hi!", "hello."))
    assert matches(chat(*LONG), chat(*(text.upper() for text in LONG)))


def test_an_opening_alone_is_no_match():
    opening = ["Hi!", "Hello, how are you?", "I am fine, and you?"]
    assert not matches(chat(*opening, *LONG[:3]), chat(*opening, *LONG[3:]))
    assert not matches(chat("hi", "hello"), chat("hi", "hello", *LONG))


def test_beginnings_endings_and_middles_match():
    for part in (LONG[:3], LONG[-3:], LONG[1:5]):
        assert matches(chat(*part), chat(*LONG))
        assert matches(chat("Excuse me?", *part, "And so on."), chat(*LONG))


def test_a_changed_utterance_and_empty_turns_do_not_hide_a_copy():
    changed = [*LONG[:1], "Something else altogether.", *LONG[2:]]
    assert matches(chat(*changed), chat(*LONG))
    assert matches(chat(LONG[0], "", LONG[1], " ... ", LONG[2]), chat(*LONG))


def test_single_turns_in_common_are_no_match():
    assert not matches(chat(LONG[0], "Why?", LONG[2], "Aha."), chat(*LONG))


def test_a_run_of_very_short_turns_counts_by_its_sum():
    counting = [f"number {n}" for n in range(10)]
    assert matches(chat("Count!", *counting), chat(*counting, "Well done."))
    assert not matches(chat("Count!", *counting[:6]), chat(*counting[:6], "Well done."))


def test_short_dialogues_match_the_longer_one_they_are_taken_from():
    assert matches(chat(LONG[0], LONG[1]), chat(*LONG))
    assert matches(chat(LONG[5]), chat(*LONG))
    assert not matches(chat(LONG[0], "Another reply."), chat(*LONG))


def test_two_long_turns_are_telling():
    story = "I was walking home along the river when a grey heron landed on the bridge right in front of me."
    assert matches(
        chat("So?", story, "A heron! Did it move when you came?", "No."),
        chat(story, "A heron! Did it move when you came?", "Yes."),
    )


@pytest.mark.parametrize("nothing", [(), ("",), ("...", "?!")])
def test_dialogues_without_words_match_no_others(nothing):
    assert not matches(chat(*nothing, name="empty"), chat(*LONG))
    assert not matches(chat(*nothing, name="empty"), chat("..", "!!", name="other"))


def test_leave_out_keeps_order_and_counts():
    others = [
        chat(f"A question about thing number {n}?", f"An answer about {n}.", name=f"d{n}") for n in range(5)
    ]
    kept, dropped = splits.leave_out([others[3], chat(*LONG), others[1], others[0]], [chat(*LONG), others[1]])
    assert ([made.id for made in kept], dropped) == (["d3", "d0"], 2)
    assert splits.leave_out(iter(others), iter([])) == (others, 0)


turns = st.lists(st.sampled_from([*LONG, "hi", "", "Yes.", "No, thank you very much indeed."]), max_size=8)


@given(turns, turns)
def test_matching_is_symmetric_and_reflexive(one, other):
    matches(chat(*one, name="a"), chat(*other, name="b"))
    assert splits.leave_out([chat(*one, name="a")], [chat(*one, name="b")])[1] == any(one)


@given(turns, turns, turns)
def test_a_telling_stretch_is_found_wherever_it_stands(before, after, other):
    assert matches(chat(*before, *LONG[1:4], *after, name="a"), chat(*LONG[1:4], *other, name="b"))


# The real sets


def real(name, part="all"):
    found = public_set(name)
    if not (data_folder() / found.folder).is_dir():
        pytest.skip(f"the set {name!r} is not in {data_folder()} (set DIALEVAL_DATA)")
    return list(found.dialogues(part))


def dropped(dialogues, against):
    return splits.leave_out(dialogues, against)[1]


def test_real_conture_is_found_in_dstc9_both_ways_round():
    conture, dstc9 = real("conture"), real("dstc9")
    assert (dropped(conture, dstc9), dropped(dstc9, conture)) == (59, 59)


def test_real_fed_turn_records_are_found_in_fed_dialogues():
    records = real("fed")
    turn_level = [made for made in records if made.id.startswith("fed-t-")]
    dialogue_level = [made for made in records if made.id.startswith("fed-d-")]
    assert dropped(dialogue_level, turn_level) == len(dialogue_level)
    assert dropped(turn_level, dialogue_level) >= len(turn_level) - 2  # two are too short to tell


def test_real_dailydialog_parts_overlap():
    train, validation = real("dailydialog", "train"), real("dailydialog", "validation")
    assert (dropped(train, validation), dropped(validation, train)) == (250, 206)


def test_real_uss_is_found_in_its_sources():
    uss, multiwoz, sgd = real("uss"), real("multiwoz"), real("sgd")
    taken = {
        corpus: [made for made in uss if made.meta["corpus"] == corpus]
        for corpus in ("MWOZ", "SGD", "ReDial")
    }
    assert dropped(taken["MWOZ"], multiwoz) == len(taken["MWOZ"])
    assert dropped(taken["SGD"], sgd) > 180  # of the part of SGD that is here
    assert dropped(taken["ReDial"], multiwoz + sgd) == 0


def test_real_unrelated_sets_do_not_match():
    assert dropped(real("personachat"), real("topicalchat")) == 0
    assert dropped(real("swda", "train"), real("swda", "test")) == 0
    assert dropped(real("dstc9"), real("fed")) == 0
