"""Public sets beside the rated ones: each format's traps on small files, then the real sets if at hand."""

import gzip
import json
from collections import Counter

import pytest

from dialeval import __version__
from dialeval.dialogues.datasets import data_folder, public_set
from dialeval.errors import DataError

# set, part, dialogues, turns: as counted when the data were collected
COUNTS = [
    ("personachat", "test", 967, 15008),
    ("blended-skill-talk", "val", 1009, 13485),
    ("blended-skill-talk", "test", 980, 13114),
    ("empathetic", "val", 2767, 12068),
    ("dailydialog", "train", 11118, 87171),
    ("dailydialog", "validation", 1000, 8069),
    ("dailydialog++", "dev", 1028 * 15, 67500),
    ("diasafety", "train", 9017, 9017 * 2),
    ("multiwoz", "train", 8437, 113552),
    ("multiwoz", "dev", 999, 14730),
    ("multiwoz", "test", 1000, 14744),
    ("sgd", "train", 3810, 69124),
    ("sgd", "dev", 768, 13570),
    ("sgd", "test", 768, 12598),
    ("swda", "train", 1115, 192390),
    ("swda", "val", 21, 3272),
    ("swda", "test", 19, 4078),
    ("topicalchat", "valid_freq", 539, 11681),
    ("topicalchat", "valid_rare", 539, 11692),
    ("topicalchat", "test_freq", 539, 11760),
    ("topicalchat", "test_rare", 539, 11770),
]
NAMES = tuple(dict.fromkeys(name for name, *_ in COUNTS))
RATED = ("dailydialog++", "diasafety", "topicalchat")


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Write a file of a data folder made for this test; what is no text is written as JSON."""
    monkeypatch.setenv("DIALEVAL_DATA", str(tmp_path))

    def write(path, content):
        data = (content if isinstance(content, str) else json.dumps(content)).encode()
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(gzip.compress(data) if path.endswith(".gz") else data)
        return target

    return write


def dialogues(name, part="all"):
    return list(public_set(name).dialogues(part))


def spoken(made):
    return [(turn.speaker, turn.text) for turn in made.turns]


# Chit-chat


def test_chitchat_keeps_text_and_place_and_says_whose_persona_it_is(put):
    chat = {
        "dialogue": [" Hi  there ", "", "so ?"],
        "speaker persona": ["i ski."],
        "listener persona": ["i cook."],
    }
    put("chitchat/persona_chat/test_original.json", [chat, chat])
    first, second = dialogues("personachat")
    assert spoken(first) == [("speaker1", " Hi  there "), ("speaker2", ""), ("speaker1", "so ?")]
    assert first.meta == {"personas": {"speaker1": ["i ski."], "speaker2": ["i cook."]}}
    assert (first.id, second.id) == ("personachat-test-0", "personachat-test-1")


def test_empathetic_carries_the_feeling(put):
    put(
        "chitchat/empathetic_dialogues/val.json",
        [{"dialogue": ["a", "b"], "emotion": "proud", "intent": "neutral"}],
    )
    assert dialogues("empathetic")[0].meta == {"emotion": "proud", "intent": "neutral"}


def test_all_passes_over_a_part_that_is_not_there_but_asking_for_it_is_an_error(put):
    put("chitchat/blended_skill_talk/test.json", [{"dialogue": ["a", "b"]}])
    assert [made.id for made in dialogues("blended-skill-talk")] == ["blended-skill-talk-test-0"]
    with pytest.raises(DataError, match=r"val\.json.*missing.*download it"):
        dialogues("blended-skill-talk", "val")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ('[{"dialogue": ["a", "b"', "truncated"),
        ('[{"dialogue": ["a", null]}]', r"\$\[0\]\.dialogue\[1\]"),
        ('[{"text": ["a"]}]', "dialogue"),
        ("", "truncated"),
    ],
)
def test_a_broken_json_file_is_named_with_the_field_and_a_fix(put, content, complaint):
    path = put("chitchat/persona_chat/test_original.json", content)
    with pytest.raises(DataError, match=complaint) as caught:
        dialogues("personachat")
    assert caught.value.file == path
    assert "download it again" in str(caught.value)


# DailyDialog


def daily(put, part="validation", text="", acts="", emotions=""):
    put(f"dailydialog/{part}/dialogues_{part}.txt", text)
    put(f"dailydialog/{part}/dialogues_act_{part}.txt", acts)
    put(f"dailydialog/{part}/dialogues_emotion_{part}.txt", emotions)


def test_dailydialog_takes_away_its_separators_and_nothing_else(put):
    text = (
        "Say , Jim !  __eou__ What \u2028 now ? __eou__\nOne . __eou__ Two . __eou__"  # no newline at the end
    )
    daily(put, text=text, acts="3 2 \n1 1 ", emotions="0 6 \n4 0 ")
    first, second = dialogues("dailydialog", "validation")
    assert spoken(first) == [("speaker1", "Say , Jim ! "), ("speaker2", "What \u2028 now ?")]
    assert [turn.meta for turn in first.turns] == [
        {"act": "directive", "emotion": "no emotion"},
        {"act": "question", "emotion": "surprise"},
    ]
    assert (first.id, second.id) == ("dailydialog-validation-1", "dailydialog-validation-2")


def test_dailydialog_leaves_labels_out_where_one_is_missing(put):
    daily(put, text="a __eou__ b __eou__ c __eou__\n", acts="1 2\n", emotions="0 0\n")
    (made,) = dialogues("dailydialog", "validation")
    assert [turn.meta for turn in made.turns] == [{}, {}, {}]
    assert "3 utterances but 2 acts" in made.meta["note"]


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"text": "a __eou__ b\n", "acts": "1\n", "emotions": "0\n"}, r"validation\.txt:1: .*__eou__"),
        ({"text": "a __eou__\n", "acts": "1\n1\n", "emotions": "0\n"}, r"act_validation.*2 lines for 1"),
        ({"text": "a __eou__\n", "acts": "1\n", "emotions": "9\n"}, r"emotion_validation.*unknown label '9'"),
    ],
)
def test_dailydialog_refuses_files_that_do_not_fit(put, files, complaint):
    daily(put, **files)
    with pytest.raises(DataError, match=complaint):
        dialogues("dailydialog", "validation")


def test_dailydialog_without_its_labels_is_broken_not_absent(put):
    put("dailydialog/train/dialogues_train.txt", "a __eou__\n")
    with pytest.raises(DataError, match=r"dialogues_act_train\.txt.*missing"):
        dialogues("dailydialog")


def replies(**changes):
    record = {
        "id": 7,
        "context": ["Hi.", "Hello."],
        "positive_responses": ["good one", "good two", "good one"],
        "adversarial_negative_responses": ["sly"],
        "random_negative_responses": ["odd"],
    }
    return json.dumps(record | changes) + "\n"


def test_dailydialog_plus_makes_a_dialogue_of_every_reply(put):
    put("dailydialog_plusplus/dev.json", replies())
    made = {item.id.removeprefix("dailydialog++-7-"): item for item in dialogues("dailydialog++")}
    assert list(made) == ["pos0", "pos1", "pos2", "adv0", "rnd0"]
    assert spoken(made["adv0"]) == [("speaker1", "Hi."), ("speaker2", "Hello."), ("speaker1", "sly")]
    assert made["adv0"].references == {2: ["good one", "good two", "good one"]}
    assert made["pos0"].references == {2: ["good two"]}  # never the reply itself, not even its twin
    assert made["rnd0"].meta == {"context": 7, "reply": "random"}


def test_dailydialog_plus_rates_the_reply(put):
    put("dailydialog_plusplus/dev.json", replies() + "\n" + replies(id=8, context=["Hi."]))
    ratings = public_set("dailydialog++").ratings()
    assert [(row.turn, row.value) for row in ratings][:5] == [(2, 1), (2, 1), (2, 1), (2, 0), (2, 0)]
    assert {row.turn for row in ratings if "-8-" in row.dialogue_id} == {1}
    signature = str(ratings.signatures["human:label"])
    assert signature == f"ratings.v1|set:dailydialog++|dialeval:{__version__}"


def test_dailydialog_plus_names_the_broken_line(put):
    put("dailydialog_plusplus/dev.json", replies() + '{"id": "x"}\n')
    with pytest.raises(DataError, match=r"dev\.json:2: .*id"):
        dialogues("dailydialog++")


# DiaSafety


def test_diasafety_pairs(put):
    pair = {"context": "c", "response": "", "category": "Risk Ignorance", "label": "Unsafe"}
    put("diasafety/train.json", [pair, pair | {"response": "r", "label": "Safe"}])
    first, second = dialogues("diasafety")
    assert spoken(first) == [("user", "c"), ("assistant", "")]
    assert second.id == "diasafety-train-1"
    assert second.meta == {"category": "Risk Ignorance"}
    assert [(row.dialogue_id, row.turn, row.value) for row in public_set("diasafety").ratings()] == [
        ("diasafety-train-0", 1, 0.0),
        ("diasafety-train-1", 1, 1.0),
    ]


def test_diasafety_refuses_an_unknown_label(put):
    put("diasafety/train.json", [{"context": "c", "response": "r", "category": "x", "label": "safe"}])
    with pytest.raises(DataError, match=r"\$\[0\]\.label"):
        public_set("diasafety").ratings()


# MultiWOZ


def message(text, acts, forms=None):
    return {"text": text, "metadata": forms or {}, "dialog_act": acts, "span_info": []}


def test_multiwoz_annotation_is_compact_and_ids_are_canonical(put):
    forms = {
        "hotel": {
            "semi": {"area": "east", "name": "not mentioned", "type": "", "stars": "dontcare"},
            "book": {"people": "3", "day": "", "booked": [{"name": "x", "reference": "R1"}]},
        },
        "taxi": {"semi": {"leaveAt": "none"}, "book": {"booked": []}},
    }
    log = [
        message("In the east .", {"Hotel-Inform": [["Area", "east"]], "general-thank": [["none", "none"]]}),
        message("Booked !", {"Booking-Book": [["Ref", "R1"]]}, forms),
    ]
    goal = {"hotel": {"info": {"area": "east"}}, "taxi": {}, "topic": {"taxi": False}, "message": ["Go."]}
    put("multiwoz/convlab2_multiwoz21/test.json.gz", {"SNG0073.json": {"goal": goal, "log": log}})
    (made,) = dialogues("multiwoz", "test")
    assert made.id == "sng0073"
    assert made.meta == {"goal": {"hotel": {"info": {"area": "east"}}, "message": ["Go."]}}
    assert made.references == {}
    user, clerk = made.turns
    assert (user.speaker, user.meta["domain"]) == ("user", ["hotel"])
    assert user.meta["acts"]["Hotel-Inform"] == [["Area", "east"]]
    assert "state" not in user.meta
    assert (clerk.speaker, clerk.meta["domain"]) == ("assistant", [])
    assert clerk.meta["state"] == {"hotel": {"area": "east", "stars": "dontcare", "book people": "3"}}
    assert clerk.meta["booked"] == {"hotel": [{"name": "x", "reference": "R1"}]}


def test_multiwoz_training_text_is_named_by_its_place(put):
    put("multiwoz/text22/mwz22_text_train.json", [["I need [food].", "Yes?"], ["a", "b"]])
    first, second = dialogues("multiwoz")
    assert spoken(first) == [("user", "I need [food]."), ("assistant", "Yes?")]
    assert (first.id, second.id) == ("multiwoz-train-0", "multiwoz-train-1")


def test_a_gzip_file_that_breaks_off_is_named(put):
    path = put("multiwoz/text22/mwz22_text_train.json.gz", [["a", "b"]] * 500)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"mwz22_text_train\.json\.gz: the compressed file is broken"):
        dialogues("multiwoz", "train")


# SGD


def frame(service, **more):
    action = {"act": "INFORM", "slot": "city", "values": ["Rome"], "canonical_values": ["Rome"]}
    return {"service": service, "actions": [action], "slots": []} | more


def session(name, *turns):
    return {"dialogue_id": name, "services": ["Events_2"], "turns": list(turns)}


def test_sgd_frames_by_service_and_files_by_name(put):
    state = {"active_intent": "Find", "requested_slots": ["date"], "slot_values": {"city": ["Rome"]}}
    asked = {"method": "Find", "parameters": {"city": "Rome"}}
    span = {"slot": "city", "start": 3, "exclusive_end": 7}
    user = {
        "speaker": "USER",
        "utterance": "In Rome.",
        "frames": [frame("Events_2", state=state, slots=[span]), frame("Hotels_1")],
    }
    system = {
        "speaker": "SYSTEM",
        "utterance": "Here.",
        "frames": [frame("Events_2", service_call=asked, service_results=[{"a": "b"}])],
    }
    put("sgd/dev/dialogues_002.json.gz", [session("2_00000")])
    put("sgd/dev/dialogues_001.json", [session("1_00000", user, system)])
    put("sgd/dev/schema.json", "not a list of dialogues")
    first, second = dialogues("sgd", "dev")
    assert (first.id, second.id) == ("sgd-dev-1_00000", "sgd-dev-2_00000")
    assert first.meta == {"services": ["Events_2"]}
    asks, answers = first.turns
    assert (asks.speaker, answers.speaker) == ("user", "assistant")
    assert asks.meta == {
        "domain": ["Events_2", "Hotels_1"],
        "acts": {name: [["INFORM", "city", ["Rome"]]] for name in ("Events_2", "Hotels_1")},
        "state": {"Events_2": {"intent": "Find", "requested": ["date"], "slots": {"city": ["Rome"]}}},
        "slots": {"Events_2": [["city", 3, 7]]},
    }
    assert set(answers.meta) == {"domain", "acts", "call", "results"}
    assert answers.meta["results"] == {"Events_2": [{"a": "b"}]}
    assert answers.meta["call"] == {"Events_2": asked}


@pytest.mark.parametrize("name", ["sgd", "swda"])
def test_a_part_without_files_is_an_error_that_says_what_was_expected(put, name):
    put(f"{name}/train/README", "nothing here")
    with pytest.raises(DataError, match=r"train: no file of this part \(expected"):
        dialogues(name, "train")


# Switchboard


def test_swda_makes_a_turn_of_every_line(put):
    put("swda/test/2121.txt", 'A|Okay, uh,|fo_o_fw_"_by_bc\nA| this | that |qw\nB||%\n')
    (made,) = dialogues("swda", "test")
    assert made.id == "swda-2121"
    assert spoken(made) == [("A", "Okay, uh,"), ("A", " this | that "), ("B", "")]
    assert [turn.meta["tag"] for turn in made.turns] == ['fo_o_fw_"_by_bc', "qw", "%"]


def test_swda_names_the_line_without_three_fields(put):
    put("swda/val/2347.txt", "A|fine|sd\nA|no tag\n")
    with pytest.raises(DataError, match=r"2347\.txt:2: expected three fields"):
        dialogues("swda", "val")


def test_swda_refuses_what_is_not_utf8(put):
    put("swda/val/2347.txt", "").write_bytes(b"A|caf\xe9|sd\n")
    with pytest.raises(DataError, match=r"2347\.txt: not UTF-8"):
        dialogues("swda", "val")


# Topical-Chat


def conversation(*ratings, overall=("Good", "")):
    content = [
        {
            "message": f"m{place}",
            "agent": f"agent_{place % 2 + 1}",
            "sentiment": "Happy",
            "knowledge_source": ["FS1"],
            "turn_rating": word,
        }
        for place, word in enumerate(ratings)
    ]
    return {
        "article_url": "a",
        "config": "C",
        "content": content,
        "conversation_rating": dict(zip(("agent_1", "agent_2"), overall, strict=True)),
    }


def test_topicalchat_ratings_come_from_the_partner(put):
    put("topical_chat/conversations/test_rare.json.gz", {"t_1": conversation("Poor", "Excellent", "")})
    (made,) = dialogues("topicalchat")
    assert made.id == "topicalchat-t_1"
    assert spoken(made)[:2] == [("speaker1", "m0"), ("speaker2", "m1")]
    assert made.turns[0].meta == {"sentiment": "Happy", "knowledge": ["FS1"]}
    assert made.meta == {"config": "C", "article": "a"}
    rows = [(row.turn, row.source, row.value, row.note) for row in public_set("topicalchat").ratings()]
    assert rows == [
        (0, "human:speaker2", 1.0, None),
        (1, "human:speaker1", 5.0, None),
        (2, "human:speaker2", None, "not rated"),
        (None, "human:speaker2", 4.0, None),
        (None, "human:speaker1", None, "not rated"),
    ]


def test_topicalchat_refuses_a_word_it_does_not_know_and_a_folder_without_files(put):
    put("topical_chat/conversations/README", "")
    with pytest.raises(DataError, match=r"valid_freq\.json.*missing"):
        public_set("topicalchat").ratings()
    put("topical_chat/conversations/test_freq.json", {"t_1": conversation("Superb")})
    with pytest.raises(DataError, match="turn_rating"):
        public_set("topicalchat").ratings()


# All of them


@pytest.mark.parametrize("name", NAMES)
def test_an_absent_set_says_where_to_get_it(tmp_path, monkeypatch, name):
    monkeypatch.setenv("DIALEVAL_DATA", str(tmp_path))
    how = r"\((get it from https://github.com/|dialeval list --download )"
    with pytest.raises(DataError, match=f"was not found {how}.* or set DIALEVAL_DATA"):
        dialogues(name)


def real(name):
    found = public_set(name)
    if not (data_folder() / found.folder).is_dir():
        pytest.skip(f"the set {name!r} is not in {data_folder()} (set DIALEVAL_DATA)")
    return found


@pytest.mark.parametrize(("name", "part", "count", "turns"), COUNTS)
def test_real_counts(name, part, count, turns):
    made = list(real(name).dialogues(part))
    assert (len(made), sum(len(item.turns) for item in made)) == (count, turns)


@pytest.mark.parametrize("name", NAMES)
def test_real_ids_are_unique_over_all_parts(name):
    counts = Counter(item.id for item in real(name).dialogues())
    assert [name for name, count in counts.items() if count > 1] == []
    assert sum(counts.values()) == sum(count for known, _, count, _ in COUNTS if known == name)


@pytest.mark.parametrize("name", RATED)
def test_real_ratings_join_their_turns(name):
    sizes = {item.id: len(item.turns) for item in real(name).dialogues()}
    ratings = real(name).ratings()
    assert all(row.turn is None or row.turn < sizes[row.dialogue_id] for row in ratings)
    assert {row.dialogue_id for row in ratings} == set(sizes)
    assert ratings.duplicates() == []
    assert set(ratings.sources) == set(ratings.signatures)
    for gold in real(name).golds:
        assert len(ratings.where(dimension=gold.dimension, level=gold.level)) > 0


def test_real_dailydialog_has_one_line_without_labels():
    noted = [item for item in real("dailydialog").dialogues() if "note" in item.meta]
    assert [item.id for item in noted] == ["dailydialog-train-7852"]


def test_real_topicalchat_ratings_at_and_under_an_agent_are_by_one_person():
    from scipy import stats

    by_source: dict[tuple[str, str], list[float]] = {}
    overall = {}
    for row in real("topicalchat").ratings():
        if row.value is not None and row.turn is None:
            overall[row.dialogue_id, row.source] = row.value
        elif row.value is not None:
            by_source.setdefault((row.dialogue_id, row.source), []).append(row.value)
    other = {"human:speaker1": "human:speaker2", "human:speaker2": "human:speaker1"}
    both = [(key, sum(values) / len(values)) for key, values in by_source.items() if key in overall]
    same = stats.spearmanr([mean for _, mean in both], [overall[key] for key, _ in both]).statistic
    crossed = [(mean, overall.get((name, other[source]))) for (name, source), mean in both]
    crossed = [pair for pair in crossed if pair[1] is not None]
    assert same > 0.8
    assert abs(stats.spearmanr(*zip(*crossed, strict=True)).statistic) < 0.1
