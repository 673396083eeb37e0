"""The ActDial format there and back: what is kept, what is refused, and what a file looks like."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dialeval.dialogues import Turn, dialogue
from dialeval.dialogues.dialogue import clean_text
from dialeval.dialogues.formats.actdial import (
    Written,
    holds_segments,
    indexed,
    join,
    part_of,
    read_dialogues,
    write_segments,
)
from dialeval.errors import DataError


def turn(speaker, *segments):
    made = [
        {"text": text, "act": act, **({"votes": votes} if votes else {})} for text, act, *votes in segments
    ]
    for one in made:
        if "votes" in one:
            (one["votes"],) = one["votes"]
    return Turn(speaker, join([one["text"] for one in made]), {"segments": made})


CHAT = dialogue(
    [
        turn("speaker1", ("Hey", "greeting"), (" how are you?", "greeting", ["greeting", None, "question"])),
        turn("speaker2", ("Fine.", "backchannel_success"), ("You?", None)),
        turn("speaker2", ("Still there?", "question")),
        turn("speaker1", ("Yes", "inform")),
    ],
    "my_chat_7",
)


def test_a_file_looks_like_the_published_ones(tmp_path):
    path = tmp_path / "segments.json"
    assert write_segments(path, [CHAT]) == Written(dialogues=1, segments=6, skipping=1)
    found = json.loads(path.read_text())
    assert found[1] == {
        "index": "my_chat_7_0_1",
        "fs_text": " how are you?",
        "annotation": "greeting",
        "annotation_raw": ["greeting", None, "question"],
    }
    assert [one["index"][10:] for one in found] == ["0_0", "0_1", "1_0", "1_1", "3_0", "4_0"]
    assert set(found[0]) == {"index", "fs_text", "annotation"}
    assert [index for index, _ in indexed(CHAT)] == [one["index"] for one in found]


def test_there_and_back(tmp_path):
    path = tmp_path / "segments.json"
    write_segments(path, [CHAT])
    assert holds_segments(path)
    assert list(read_dialogues(path)) == [CHAT]


words = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=8).map(
    lambda text: clean_text(text)[0]
)
acts = st.sampled_from(["inform", "backchannel_success", None])
segments = st.lists(st.tuples(words.filter(bool), acts), min_size=1, max_size=3)
names = words.filter(bool)


@given(
    st.dictionaries(names, st.lists(st.tuples(st.booleans(), segments), min_size=1, max_size=5), max_size=4)
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_any_dialogues_of_two_speakers_come_back(tmp_path, chats):
    made = []
    for name, turns in chats.items():
        first = turns[0][0]
        spoken = [turn("speaker1" if who == first else "speaker2", *said) for who, said in turns]
        corpus = {"corpus": name.split("_")[0]} if part_of(name) else {}
        made.append(dialogue(spoken, name, meta=corpus))
    path = tmp_path / "segments.json"
    assert write_segments(path, made).dialogues == len(made)
    assert list(read_dialogues(path)) == made


def test_what_is_not_text_is_left_out_and_counted(tmp_path):
    path = tmp_path / "segments.json"
    chat = dialogue(
        [
            Turn("system", "Be kind."),
            turn("user", ("Hi", "greeting")),
            Turn("assistant", ""),
            Turn("tool", ""),
        ],
        "d_1",
        system="bot",
        meta={"note": "x"},
    )
    assert write_segments(path, [chat, dialogue([], "empty")]) == Written(1, 2, left_out=2)
    (found,) = read_dialogues(path)
    assert (found.id, found.system, found.meta) == ("d_1", None, {})
    assert [(one.speaker, one.text) for one in found.turns] == [("speaker1", "Hi"), ("speaker2", "")]
    assert found.turns[1].meta["note"] == "no text"


def test_nothing_to_write_is_an_empty_list(tmp_path):
    path = tmp_path / "segments.json"
    assert write_segments(path, []) == Written()
    assert json.loads(path.read_text()) == []
    assert list(read_dialogues(path)) == []


@pytest.mark.parametrize(
    ("chats", "message"),
    [
        (
            [dialogue([turn(who, ("a", None)) for who in "ABC"], "d1")],
            "dialogue 'd1' has 3 speakers: A, B, C",
        ),
        ([dialogue([("user", "Hi there")], "d1")], "nobody has cut this turn into segments: 'Hi there'"),
        ([CHAT, CHAT], "two dialogues are called 'my_chat_7'"),
        ([dialogue([Turn("user", "Hi", {"segments": "Hi"})], "d1")], "not a list of segments"),
    ],
)
def test_what_cannot_be_written_is_refused_and_leaves_the_old_file(tmp_path, chats, message):
    path = tmp_path / "segments.json"
    path.write_text("old")
    with pytest.raises(DataError, match=message):
        write_segments(path, chats)
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["segments.json"]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("[]", True),
        (' [ {"index": "a_0_0", "fs_text": null, "annotation": null}]', True),
        ('[{"id": "d1", "messages": []}]', False),
        ('[{"id": "d1", "messages": []}, {"index": "", "fs_text": ""}]', False),
        ('{"index": "a_0_0", "fs_text": "x"}', False),
        ("", False),
        ("\x1f\ufffd", False),
    ],
)
def test_a_list_of_segments_is_known_by_its_first(tmp_path, text, is_one):
    path = tmp_path / "file.json"
    path.write_text(text)
    assert holds_segments(path) == is_one
    assert not holds_segments(tmp_path)


def test_a_folder_is_read_whole(tmp_path):
    write_segments(tmp_path / "a.json", [CHAT])
    write_segments(tmp_path / "b.json", [dialogue([turn("speaker1", ("Hm", None))], "daily_valid_3")])
    found = {one.id: one.meta for one in read_dialogues(tmp_path)}
    assert found == {"my_chat_7": {}, "daily_valid_3": {"corpus": "daily"}}
    write_segments(tmp_path / "c.json", [CHAT])
    with pytest.raises(DataError, match=r"the dialogue my_chat_7 is also in .*a\.json"):
        list(read_dialogues(tmp_path))


def test_published_segments_are_written_as_they_were(data_folder, tmp_path):
    path = data_folder / "controllable_dialogue" / "controllable_dialogue.json"
    if not path.is_file():
        pytest.skip("Controllable Dialogue is not there")
    write_segments(tmp_path / "again.json", read_dialogues(path))
    published = {one["index"]: one for one in json.loads(path.read_text())}
    assert {one["index"]: one for one in json.loads((tmp_path / "again.json").read_text())} == published
