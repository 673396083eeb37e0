"""Public sets that people rated: each format's traps on small files, then the real sets where they are."""

import gzip
import hashlib
import json
from collections import Counter, defaultdict
from pathlib import Path
from statistics import fmean

import pytest
from scipy import stats

from dialeval import __version__
from dialeval.dialogues.datasets import GoldDimension, PublicSet, data_folder, public_set
from dialeval.dialogues.datasets.publicset import MissingPartError
from dialeval.errors import DataError

RATED = ("fed", "dstc9", "conture", "controllable", "convai2-wild", "dbdc3", "uss")
WITH_PEERS = ("fed", "dstc9", "conture", "controllable", "convai2-wild")


class Shelf:
    """A data folder made by a test."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, path: str, content: object) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((content if isinstance(content, str) else json.dumps(content)).encode())
        return target


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    monkeypatch.setenv("DIALEVAL_DATA", str(tmp_path))
    return Shelf(tmp_path)


@pytest.fixture
def real():
    """Give a public set by name, or skip the test where the data are not at hand."""

    def find(name: str) -> PublicSet:
        found = public_set(name)
        if not (data_folder() / found.folder).is_dir():
            pytest.skip(f"the set {name!r} is not in {data_folder()} (set DIALEVAL_DATA)")
        return found

    return find


def sha1(text: str) -> str:
    return hashlib.sha1(text.encode()).hexdigest()[:12]


def spoken(made):
    return [(turn.speaker, turn.text) for turn in made.turns]


def values(scores, **where):
    rows = scores.where(**where)
    return [(row.dialogue_id, row.turn, row.source, row.dimension, row.value, row.note) for row in rows]


# ---------------------------------------------------------------- fed


FED = [
    {
        "context": "User: Hi!\nSystem: Hey",
        "response": "System:  ",
        "system": "Meena",
        "annotations": {"Fluent": [2, "1"], "Overall": [4, "N/A (cut off)"]},
    },
    {
        "context": "User: Hi!\nSystem: Cafe\u0301?\n\nOr not\nUser: ",
        "system": "Human",
        "annotations": {"Error recovery": ["N/A (no errors)", None]},
    },
]


def test_fed_has_turn_level_and_dialogue_level_records(shelf):
    shelf.put("fed/fed_data.json", FED)
    turn, whole = public_set("fed").dialogues()
    assert turn.id == "fed-t-" + sha1("User: Hi!\nSystem: Hey\nSystem:  ")
    assert spoken(turn) == [("user", "Hi!"), ("assistant", "Hey"), ("assistant", " ")]
    assert whole.id == "fed-d-" + sha1("User: Hi!\nSystem: Cafe\u0301?\n\nOr not\nUser: ")
    assert spoken(whole) == [("user", "Hi!"), ("assistant", "Café?\n\nOr not"), ("user", "")]
    assert (turn.system, whole.system) == ("Meena", "Human")


def test_fed_ratings_keep_words_as_notes(shelf):
    shelf.put("fed/fed_data.json", FED)
    turn, whole = (made.id for made in public_set("fed").dialogues())
    ratings = public_set("fed").ratings()
    assert values(ratings) == [
        (turn, 2, "human:1", "fluent", 2.0, None),
        (turn, 2, "human:2", "fluent", 1.0, None),
        (turn, 2, "human:1", "overall", 4.0, None),
        (turn, 2, "human:2", "overall", None, "N/A (cut off)"),
        (whole, None, "human:1", "error recovery", None, "N/A (no errors)"),
        (whole, None, "human:2", "error recovery", None, "no rating"),
    ]
    assert str(ratings.signatures["human:2"]) == f"ratings.v1|set:fed|dialeval:{__version__}"
    assert {row.system for row in ratings.where(level="turn")} == {"Meena"}


def test_the_same_dialogue_twice_gets_two_ids_and_keeps_its_ratings_apart(shelf):
    shelf.put("fed/fed_data.json", [FED[1], FED[1]])
    first, second = (made.id for made in public_set("fed").dialogues())
    assert second == f"{first}-2"
    assert [row.dialogue_id for row in public_set("fed").ratings()] == [first, first, second, second]


def test_a_transcript_that_begins_with_nobody_is_refused(shelf):
    shelf.put("fed/fed_data.json", [{**FED[1], "context": "\nUser: Hi!"}])
    with pytest.raises(DataError, match=r"fed_data\.json: fed-d-\w{12}: no speaker before"):
        list(public_set("fed").dialogues())


# ---------------------------------------------------------------- dstc9 and conture


CONTEXT = "User: hello\nSystem: first line\nsecond line\n\nUser: \nSystem:  two blanks\n"


def test_dstc9_groups_raters_and_continues_lines(shelf):
    rows = [
        {"context": CONTEXT, "human (overall)": 4, "error recovery": "N/A"},
        {"context": "User: other\n", "human (overall)": 1, "error recovery": 2},
        {"context": CONTEXT, "human (overall)": "5", "error recovery": 3},
    ]
    shelf.put("dstc9/chatbot10.json", [rows[1]])
    shelf.put("dstc9/chatbot2.json", rows)
    made = list(public_set("dstc9").dialogues())
    assert [item.system for item in made] == ["chatbot2", "chatbot2", "chatbot10"]
    assert made[0].id == "dstc9-" + sha1(CONTEXT)
    assert made[2].id == made[1].id + "-2"
    assert spoken(made[0]) == [
        ("user", "hello"),
        ("assistant", "first line\nsecond line\n"),
        ("user", ""),
        ("assistant", " two blanks"),
    ]
    ratings = public_set("dstc9").ratings()
    assert values(ratings)[:4] == [
        (made[0].id, None, "human:1", "overall", 4.0, None),
        (made[0].id, None, "human:2", "overall", 5.0, None),
        (made[0].id, None, "human:1", "error recovery", None, "N/A"),
        (made[0].id, None, "human:2", "error recovery", 3.0, None),
    ]
    assert ratings.duplicates() == []


def test_dstc9_says_which_row_has_no_dialogue(shelf):
    shelf.put("dstc9/chatbot1.json", [{"context": None, "human (overall)": 4}])
    with pytest.raises(DataError, match=r"chatbot1\.json: context: row 1 has no dialogue"):
        list(public_set("dstc9").dialogues())


def test_conture_removes_prefixes_and_rates_chatbot_turns(shelf):
    shelf.put(
        "conture/data.json",
        [
            {
                "dialog_id": 7,
                "turns": [
                    {"user": "User: hi User: you", "chatbot": "Chatbot:", "overall impression": 0},
                    {"user": "User:", "chatbot": "Chatbot:  ok", "overall impression": 2},
                    {"user": None, "chatbot": "no prefix", "overall impression": None},
                ],
                "dialog_ratings": [{"human (overall)": 3, "error recovery": "N/A"}, {"human (overall)": 5}],
            }
        ],
    )
    (made,) = public_set("conture").dialogues()
    assert (made.id, made.system) == ("conture-7", None)
    assert [turn.text for turn in made.turns] == ["hi User: you", "", "", " ok", "", "no prefix"]
    assert made.turns[4].meta == {"note": "no text"}
    assert values(public_set("conture").ratings()) == [
        ("conture-7", 1, "human:majority", "overall", 0.0, None),
        ("conture-7", 3, "human:majority", "overall", 2.0, None),
        ("conture-7", 5, "human:majority", "overall", None, "no rating"),
        ("conture-7", None, "human:1", "overall", 3.0, None),
        ("conture-7", None, "human:2", "overall", 5.0, None),
        ("conture-7", None, "human:1", "error recovery", None, "N/A"),
        ("conture-7", None, "human:2", "error recovery", None, "no rating"),
    ]


# ---------------------------------------------------------------- controllable and actdial


def segment(index, text, act="inform", **more):
    return {"index": index, "fs_text": text, "annotation": act, **more}


@pytest.fixture
def controllable(shelf):
    folder = "controllable_dialogue"
    segments = [
        segment("baseline_model_2_1_1", " then what"),
        segment("baseline_model_2_0_0", "Hey!", "greeting"),
        segment("baseline_model_2_0_1", "You?", "question"),
        segment("baseline_model_2_0_2", None),
        segment("baseline_model_2_1_0", "Well"),
        segment("repetition_model_10_0_0", None),
        segment("repetition_model_10_1_0", "Why?", "question"),
        segment("repetition_model_10_1_1", "?", "question"),
    ]
    shelf.put(f"{folder}/controllable_dialogue.json", segments)
    shelf.put(f"{folder}/controllable_dialogue_split.json", {"valid": ["repetition_model_10"]})
    shelf.put(f"{folder}/dialog_id_to_persona.json", {"baseline_model_2": ["i like tea."]})
    ratings = {"relevant": 1, "contradict": 0, "consistent": "1", "repeat": None, "overall": [4, 5]}
    shelf.put(f"{folder}/dialog_id_to_score.json", {"baseline_model_2": ratings})
    opener = {"baseline_model_2": "model", "repetition_model_10": None}
    shelf.put(f"{folder}/first_speaker.json", opener)
    return shelf


def test_controllable_joins_segments_and_finds_the_speakers(controllable):
    (test,) = public_set("controllable").dialogues("test")
    assert spoken(test) == [("assistant", "Hey! You?"), ("user", "Well then what")]
    assert (test.id, test.system) == ("baseline_model_2", "baseline_model")
    assert test.meta == {"personas": ["i like tea."]}
    assert test.turns[0].meta["segments"] == [
        {"text": "Hey!", "act": "greeting"},
        {"text": "You?", "act": "question"},
        {"text": "", "act": "inform"},
    ]


def test_controllable_says_where_the_speakers_are_not_known(controllable):
    (dev,) = public_set("controllable").dialogues("dev")
    assert spoken(dev) == [("speaker1", ""), ("speaker2", "Why??")]
    assert dev.meta["note"] == "unknown which speaker is the system"
    assert dev.turns[0].meta["note"] == "no text"
    (controllable.root / "controllable_dialogue/first_speaker.json").unlink()
    made = list(public_set("controllable").dialogues())
    assert {turn.speaker for item in made for turn in item.turns} == {"speaker1", "speaker2"}


def test_controllable_names_dimensions_so_that_higher_is_better(controllable):
    assert [row[2:] for row in values(public_set("controllable").ratings())] == [
        ("human:1", "relevancy", 1.0, None),
        ("human:1", "no contradiction", 0.0, None),
        ("human:1", "consistency", 1.0, None),
        ("human:1", "no repetition", None, "no rating"),
        ("human:1", "overall", 4.0, None),
        ("human:2", "overall", 5.0, None),
    ]


def test_actdial_reads_every_file_and_takes_the_part_from_the_index(shelf):
    votes = ["greeting", "greeting", "inform"]
    persona = [segment("persona_train_1_0_0", "hi ", "greeting", annotation_raw=votes)]
    persona += [segment("persona_train_1_0_1", "there"), segment("persona_train_1_1_0", "yes . ")]
    shelf.put("actdial/persona.json", persona)
    shelf.put("actdial/inner/daily.json", [segment("daily_valid_3_0_0", "Hm.")])
    shelf.put("actdial/inner/._daily.json", "left by an unpacker")
    (train,) = public_set("actdial").dialogues("train")
    assert spoken(train) == [("speaker1", "hi there"), ("speaker2", "yes . ")]
    assert (train.id, train.meta) == ("persona_train_1", {"corpus": "persona"})
    assert train.turns[0].meta["segments"][0] == {"text": "hi ", "act": "greeting", "votes": votes}
    assert [made.id for made in public_set("actdial").dialogues("dev")] == ["daily_valid_3"]
    assert len(list(public_set("actdial").dialogues())) == 2
    with pytest.raises(MissingPartError, match="no dialogue of the part 'test'"):
        list(public_set("actdial").dialogues("test"))


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            [segment("persona_train_1_0_0", "a")] * 2,
            [],
            r"a\.json: index: persona_train_1_0_0 is there twice",
        ),
        (
            [segment("persona_train_1_0_0", "a")],
            [segment("persona_train_1_1_0", "b")],
            r"is also in .*a\.json",
        ),
        ([segment("persona_1_0_0", "a")], [], "no <corpus>_<split>_"),
        ([segment("one", "a")], [], "not <dialogue>_<utterance>_<segment>: 'one'"),
        ([{"index": "persona_train_1_0_0"}], [], r"fs_text"),
    ],
)
def test_actdial_names_what_is_wrong(shelf, first, second, message):
    shelf.put("actdial/a.json", first)
    shelf.put("actdial/b.json", second)
    with pytest.raises(DataError, match=message):
        list(public_set("actdial").dialogues("train"))


# ---------------------------------------------------------------- convai2


LINES = """1 your persona: i read.
2 partner's persona: i run.
3 __SILENCE__\thello your persona: none\t\tone|two
4 hi !\tbye  \t\tthree|four
1 alone
"""


def test_convai2_reads_numbered_lines(shelf):
    shelf.put("convai2/valid_self_original.txt", LINES)
    first, second = public_set("convai2").dialogues("dev")
    assert spoken(first) == [
        ("speaker2", "hello your persona: none"),
        ("speaker1", "hi !"),
        ("speaker2", "bye  "),
    ]
    assert first.meta == {"personas": {"speaker2": ["i read."], "speaker1": ["i run."]}}
    assert (first.id[:8], len(first.id)) == ("convai2-", 20)
    assert spoken(second) == [("speaker1", "alone")]


def test_convai2_reads_one_view_of_the_same_dialogues_and_only_parts_that_are_there(shelf):
    shelf.put("convai2/valid_self_original.txt", LINES)
    shelf.put("convai2/valid_both_revised_no_cands.txt", LINES)
    shelf.put("convai2/valid_other_original.txt", LINES + "1 x\ty\n")
    assert len(list(public_set("convai2").dialogues())) == 2
    with pytest.raises(MissingPartError, match="train_both_original_no_cands"):
        list(public_set("convai2").dialogues("train"))
    (shelf.root / "convai2/valid_self_original.txt").unlink()
    assert len(list(public_set("convai2").dialogues())) == 3


def test_convai2_without_any_file_or_with_a_bad_line_is_an_error(shelf):
    shelf.put("convai2/valid_self_original.txt", "1 a\tb\n\nno number\n")
    with pytest.raises(DataError, match=r"valid_self_original\.txt:3: expected a line number"):
        list(public_set("convai2").dialogues())
    (shelf.root / "convai2/valid_self_original.txt").unlink()
    with pytest.raises(MissingPartError, match="no file of the part 'train'"):
        list(public_set("convai2").dialogues())


WILD = {
    "dialog_id": "0x1",
    "dialog": [
        {"id": 0, "sender": "participant2", "text": "Hi\n\u263a"},
        {"id": 1, "sender": "participant2", "text": ""},
        {"id": 2, "sender": "participant1", "text": None},
    ],
    "bot_profile": ["i run."],
    "user_profile": [],
    "eval_score": None,
    "profile_match": "",
}


def test_convai2_wild_is_rated_by_its_users(shelf):
    shelf.put("convai2_wild/convai2_data.json", [WILD, {**WILD, "dialog_id": "0x2", "eval_score": 3}])
    first, _ = public_set("convai2-wild").dialogues()
    assert spoken(first) == [("assistant", "Hi\n☺"), ("assistant", ""), ("user", "")]
    assert first.meta == {"personas": {"assistant": ["i run."], "user": []}}
    assert values(public_set("convai2-wild").ratings()) == [
        ("0x1", None, "human:user", "overall", None, "no rating"),
        ("0x1", None, "human:user", "profile match", None, "no rating"),
        ("0x2", None, "human:user", "overall", 3.0, None),
        ("0x2", None, "human:user", "profile match", None, "no rating"),
    ]


def test_convai2_wild_refuses_a_third_party(shelf):
    third = {"id": 0, "sender": "moderator", "text": "stop"}
    shelf.put("convai2_wild/convai2_data.json", [{**WILD, "dialog": [third]}])
    with pytest.raises(DataError, match=r"convai2_data\.json: sender: 'moderator' in 0x1"):
        list(public_set("convai2-wild").dialogues())


# ---------------------------------------------------------------- dbdc3


def log(name, *labels, rater="r{}"):
    annotations = [{"breakdown": label, "annotator-id": rater.format(n)} for n, label in enumerate(labels)]
    turns = [
        {"speaker": "S", "utterance": "welcome", "annotations": []},
        {"speaker": "U", "utterance": "hi", "annotations": []},
        {"speaker": "S", "utterance": None, "annotations": annotations},
    ]
    return {"dialogue-id": name, "turns": turns, "speaker-id": ""}


def test_dbdc3_prefers_revised_labels(shelf):
    shelf.put("dbdc3/dev/CIC_json_data/CIC0003.log.json", log("CIC0003", "X", "X"))
    shelf.put("dbdc3/dev/CIC_json_data/CIC0003.log.context", "a paragraph")
    shelf.put("dbdc3/dev/json_data_100/ticktock_00001.log.json", log("ticktock_00001", "O", "Z", rater=""))
    shelf.put("dbdc3/dev_revised/CIC_115/CIC0003.log.json", log("CIC0003", "O", "T", "X", None))
    made = {item.id: item for item in public_set("dbdc3").dialogues()}
    assert {name: item.system for name, item in made.items()} == {
        "dbdc3-CIC0003": "CIC",
        "dbdc3-ticktock_00001": "TickTock",
    }
    assert spoken(made["dbdc3-CIC0003"]) == [("assistant", "welcome"), ("user", "hi"), ("assistant", "")]
    assert values(public_set("dbdc3").ratings()) == [
        ("dbdc3-CIC0003", 2, "human:r0", "no-breakdown", 1.0, None),
        ("dbdc3-CIC0003", 2, "human:r1", "no-breakdown", 0.5, None),
        ("dbdc3-CIC0003", 2, "human:r2", "no-breakdown", 0.0, None),
        ("dbdc3-CIC0003", 2, "human:r3", "no-breakdown", None, "no label"),
        ("dbdc3-ticktock_00001", 2, "human:1", "no-breakdown", 1.0, None),
        ("dbdc3-ticktock_00001", 2, "human:2", "no-breakdown", None, "Z"),
    ]


def test_dbdc3_refuses_an_unknown_speaker(shelf):
    bad = {"dialogue-id": "YI1", "turns": [{"speaker": "A", "utterance": "x", "annotations": []}]}
    shelf.put("dbdc3/dev/YI/YI1.log.json", bad)
    with pytest.raises(DataError, match=r"YI1\.log\.json: speaker: 'A' is neither S nor U"):
        list(public_set("dbdc3").dialogues())


# ---------------------------------------------------------------- uss


BLOCK = (
    "USER\tbook a\ttable\tINFORM\t3,3\n"
    "SYSTEM\tWhere?\tREQUEST\t\n"
    "SYSTEM\tAnd when?\t\t\n"
    "USER\tOVERALL\t\t4,N/A\n"
    "USER\tnow\t\t2,N/A\n"
    "SYSTEM\tDone.\t\t\n"
    "USER\t\tTHANK\t5,1"
)


def test_uss_stores_a_rating_at_the_reply_it_is_about(shelf):
    shelf.put("uss/SGD.txt", f"\n{BLOCK}\nUSER\tOVERALL\t\t4,2\n\nSYSTEM\tHi\t\t\n")
    first, second = public_set("uss").dialogues()
    assert first.id == "uss-sgd-" + sha1(f"{BLOCK}\nUSER\tOVERALL\t\t4,2")
    assert spoken(first) == [
        ("user", "book a\ttable"),
        ("assistant", "Where?"),
        ("assistant", "And when?"),
        ("user", "OVERALL"),
        ("user", "now"),
        ("assistant", "Done."),
        ("user", ""),
    ]
    assert first.turns[0].meta == {"action": "INFORM", "ratings": [3.0, 3.0]}
    assert (first.meta, spoken(second)) == ({"corpus": "SGD"}, [("assistant", "Hi")])
    assert [row[1:] for row in values(public_set("uss").ratings())] == [
        (2, "human:1", "satisfaction", 3.0, "mean over 2 user turns"),
        (2, "human:2", "satisfaction", None, "N/A"),
        (5, "human:1", "satisfaction", 5.0, None),
        (5, "human:2", "satisfaction", 1.0, None),
        (None, "human:1", "satisfaction", 4.0, None),
        (None, "human:2", "satisfaction", 2.0, None),
    ]


@pytest.mark.parametrize("line", ["USER\tno ratings", "ROBOT\thi\t\t", "USER"])
def test_uss_names_a_broken_line(shelf, line):
    shelf.put("uss/CCPE.txt", f"\nSYSTEM\thi\t\t\n{line}\n")
    with pytest.raises(DataError, match=r"CCPE\.txt:3: expected USER or SYSTEM"):
        list(public_set("uss").dialogues())


# ---------------------------------------------------------------- every set


FILES = {
    "fed": "fed/fed_data.json",
    "dstc9": "dstc9/chatbot1.json",
    "conture": "conture/data.json",
    "controllable": "controllable_dialogue/controllable_dialogue.json",
    "actdial": "actdial/a.json",
    "convai2-wild": "convai2_wild/convai2_data.json",
    "dbdc3": "dbdc3/dev/CIC/CIC1.log.json",
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", ['[{"index": "a_train', '{"a": 1}', "[3]", ""], ids=repr)
def test_a_broken_file_is_named(shelf, name, content):
    path = shelf.put(FILES[name], content)
    with pytest.raises(DataError) as caught:
        list(public_set(name).dialogues())
    assert str(path) in str(caught.value)
    assert caught.value.fix


@pytest.mark.parametrize("name", [*FILES, "convai2", "uss"])
def test_a_missing_file_and_a_missing_set_are_named(shelf, name):
    with pytest.raises(DataError, match=r"was not found.*DIALEVAL_DATA"):
        list(public_set(name).dialogues())
    folder = shelf.root / public_set(name).folder
    folder.mkdir()
    with pytest.raises(DataError) as caught:
        list(public_set(name).dialogues())
    assert str(folder) in str(caught.value)
    assert caught.value.fix


def test_a_gzipped_original_is_read_as_it_is(shelf):
    (shelf.root / "fed").mkdir()
    (shelf.root / "fed/fed_data.json.gz").write_bytes(gzip.compress(json.dumps(FED).encode()))
    assert len(list(public_set("fed").dialogues())) == 2


def test_peers_of_turns_and_of_dialogues_may_share_a_file(shelf):
    lines = [
        {"id": "fed-d-1", "source": "flow", "value": 0.5},
        {"id": "fed-t-1", "source": "flow", "value": None, "turn": 3},
    ]
    shelf.put("fed/peers.jsonl", "\n".join(map(json.dumps, lines)) + "\n")
    assert values(public_set("fed").peer_scores()) == [
        ("fed-d-1", None, "flow", "peer", 0.5, None),
        ("fed-t-1", 3, "flow", "peer", None, "unscored"),
    ]
    shelf.put("fed/peers.jsonl", json.dumps(lines[0]) + '\n{"id": "fed-d-2", "source": "flow"}\n')
    with pytest.raises(DataError, match=r"peers\.jsonl:2: .*value"):
        public_set("fed").peer_scores()


def test_golds_come_with_the_default_first():
    assert {name: public_set(name).golds for name in RATED} == {
        "fed": (GoldDimension("overall", "dialogue"), GoldDimension("overall", "turn")),
        "dstc9": (GoldDimension("overall", "dialogue"),),
        "conture": (GoldDimension("overall", "turn"), GoldDimension("overall", "dialogue")),
        "controllable": (GoldDimension("overall", "dialogue"),),
        "convai2-wild": (GoldDimension("overall", "dialogue"),),
        "dbdc3": (GoldDimension("no-breakdown", "turn"),),
        "uss": (GoldDimension("satisfaction", "turn"), GoldDimension("satisfaction", "dialogue")),
    }


# ---------------------------------------------------------------- the real sets


@pytest.mark.parametrize(
    ("name", "dialogues", "turns"),
    [
        ("fed", 240, 2732),
        ("dstc9", 1100, 31470),
        ("conture", 59, 1060),
        ("controllable", 153, 1836),
        ("convai2", 20, 304),
        ("convai2-wild", 708, 10280),
        ("dbdc3", 415, 8509),
        ("uss", 1750, 40499),
    ],
)
def test_counts_and_unique_ids(real, name, dialogues, turns):
    made = list(real(name).dialogues())
    assert (len(made), sum(len(item.turns) for item in made)) == (dialogues, turns)
    assert len({item.id for item in made}) == dialogues


@pytest.mark.parametrize("name", RATED)
def test_ratings_join_to_turns_of_the_rated_side(real, name):
    one = real(name)
    made = {item.id: item for item in one.dialogues()}
    ratings = one.ratings()
    assert ratings.duplicates() == []
    assert set(ratings.signatures) == set(ratings.sources)
    for row in ratings:
        assert row.system == made[row.dialogue_id].system
        assert row.turn is None or made[row.dialogue_id].turns[row.turn].speaker == "assistant"
    for gold in one.golds:
        assert len(ratings.where(dimension=gold.dimension, level=gold.level)) > 0


@pytest.mark.parametrize("name", WITH_PEERS)
def test_every_peer_score_joins(real, name):
    made = {item.id: item for item in real(name).dialogues()}
    for row in real(name).peer_scores():
        assert row.turn is None or row.turn == len(made[row.dialogue_id].turns) - 1
        assert row.dialogue_id in made


def test_fed_counts(real):
    whole = [made for made in real("fed").dialogues() if made.id.startswith("fed-d-")]
    assert Counter(made.system for made in whole) == {"Human": 20, "Meena": 19, "Mitsuku": 21}
    ratings = real("fed").ratings()
    assert ratings.table["value"].null_count == 75
    assert len(ratings.where(level="turn").dimensions) == 9
    assert len(ratings.where(level="dialogue").dimensions) == 11
    assert len(ratings.where(level="turn", dimension="overall")) == 180 * 5


def test_dstc9_counts(real):
    made = list(real("dstc9").dialogues())
    assert Counter(item.system for item in made) == {f"chatbot{n}": 100 for n in range(1, 12)}
    texts = [turn.text for item in made for turn in item.turns]
    assert sum("\n" in text for text in texts) == 611
    assert sum(not text.strip() for text in texts) == 218
    overall = real("dstc9").ratings().where(dimension="overall")
    assert Counter(Counter(row.dialogue_id for row in overall).values()) == {1: 1, 2: 72, 3: 1027}
    assert real("dstc9").ratings().table["value"].null_count == 114


def test_conture_counts(real):
    assert len(real("conture").ratings().where(level="turn", source="human:majority")) == 530
    assert len(real("conture").ratings().where(level="dialogue", dimension="overall")) == 174


def test_controllable_counts(real):
    one = real("controllable")
    assert (len(list(one.dialogues("dev"))), len(list(one.dialogues("test")))) == (28, 125)
    made = list(one.dialogues())
    systems = {"baseline_model": 50, "repetition_model": 53, "interesting_nidf_model": 50}
    assert Counter(item.system for item in made) == systems
    segments = [part for item in made for turn in item.turns for part in turn.meta["segments"]]
    assert (len(segments), sum(not part["text"] for part in segments)) == (2720, 1)
    assert sum("note" in item.meta for item in made) == 2
    assert all(item.meta["personas"] for item in made)


def test_convai2_wild_counts(real):
    overall = real("convai2-wild").ratings().where(dimension="overall")
    assert (len(overall), overall.table["value"].null_count) == (708, 20)


def test_dbdc3_counts(real):
    ratings = real("dbdc3").ratings()
    assert len(ratings) == 30 * (1150 + 1000 + 1000 + 1000)
    fine = Counter(row.system for row in ratings if row.value == 1)
    assert fine == {"CIC": 10912, "YI": 9592, "IRIS": 9861, "TickTock": 10535}


def test_uss_counts(real):
    rated = Counter(
        made.meta["corpus"]
        for made in real("uss").dialogues()
        for turn in made.turns
        if turn.meta.get("ratings")
    )
    assert rated == {"SGD": 6261, "MWOZ": 5714, "ReDial": 5470, "CCPE": 3226}
    whole = real("uss").ratings().where(level="dialogue", source="human:1")
    assert len(whole) == 1750


def correlations(one, part, source, *, by_system=False):
    """Pearson, Spearman and Kendall between a peer and the mean of the overall ratings of a dialogue."""
    level = "fed-d-" if one.name == "fed" else ""  # the set holds the items of both levels
    systems = {made.id: made.system for made in one.dialogues(part) if made.id.startswith(level)}
    given = defaultdict(list)
    for row in one.ratings().where(dimension="overall", level="dialogue"):
        if row.dialogue_id in systems and row.value is not None:
            given[row.dialogue_id].append(row.value)
    peer = {row.dialogue_id: row.value for row in one.peer_scores().where(source=source, level="dialogue")}
    assert set(systems) == set(given)
    assert set(systems) <= set(peer)
    pairs = [(fmean(ratings), peer[name], systems[name]) for name, ratings in given.items()]
    if by_system:
        groups = defaultdict(list)
        for gold, score, system in pairs:
            groups[system].append((gold, score))
        pairs = [(*map(fmean, zip(*group, strict=True)), name) for name, group in groups.items()]
    gold, scores, _ = zip(*pairs, strict=True)
    tests = (stats.pearsonr, stats.spearmanr, stats.kendalltau)
    return len(pairs), tuple(float(test(gold, scores).statistic) for test in tests)


@pytest.mark.parametrize(
    ("name", "part", "source", "n", "expected"),
    [
        ("controllable", "test", "floweval_v3", 125, (0.306, 0.294, 0.223)),
        ("controllable", "test", "bertscore", 125, (0.246, 0.205, 0.152)),
        ("fed", "test", "dynaeval_empathetic", 60, (0.462, 0.496, 0.347)),
        ("fed", "test", "floweval_v3", 60, (0.405, 0.372, 0.257)),
        ("dstc9", "test", "flow_flipped", 1100, (0.166, 0.156, 0.113)),
        ("dstc9", "test", "floweval_v3", 1100, (0.091, 0.113, 0.082)),
        ("dstc9", "test", "judge_gpt4_overall_mean5", 1100, (0.242, 0.233, 0.173)),
    ],
)
def test_published_metrics_correlate_with_people_as_expected(real, name, part, source, n, expected):
    count, found = correlations(real(name), part, source)
    assert count == n
    assert found == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("judge_gpt4_overall_mean5", (0.970, 0.991, 0.964)),
        ("flow_flipped", (0.971, 0.973, 0.891)),
    ],
)
def test_published_metrics_rank_the_dstc9_systems_as_expected(real, source, expected):
    count, found = correlations(real("dstc9"), "test", source, by_system=True)
    assert count == 11
    assert found == pytest.approx(expected, abs=5e-4)
