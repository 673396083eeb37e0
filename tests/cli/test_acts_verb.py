"""`dialeval acts` as a user meets it: acts that are known, votes, an expert, and a classifier."""

import functools
import json

import numpy as np
import pytest
from commands import here

from dialeval.dialogues import dialogue, formats
from dialeval.dialogues.acts import ACTS
from dialeval.dialogues.formats.actdial import read_dialogues
from dialeval.dialogues.segments import Segment
from dialeval.models.artefact import save
from dialeval.models.card import Card
from dialeval.models.encoder import Encoder
from dialeval.models.segment_acts import HEAD, segment_features
from dialeval.models.tensors import write_tensors


def row(index, text, act, *votes):
    return {
        "index": index,
        "fs_text": text,
        "annotation": act,
        **({"annotation_raw": list(votes)} if votes else {}),
    }


SEGMENTS = [
    row("daily_train_1_0_0", "Hey", "greeting", "greeting", "greeting", "greeting"),
    row("daily_train_1_0_1", " where is it?", None, "question", "question", "directive"),
    row("daily_train_1_1_0", "Sorry?", None, "question", "backchannel_failure", "apology"),
    row("daily_train_1_2_0", "The station.", "inform", "inform", "inform", None),
    row("daily_valid_2_0_0", "It is late.", "inform", "inform", "inform", "question"),
    row("daily_valid_2_1_0", "Bye!", "goodbye", "goodbye", "goodbye", "goodbye"),
]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "voted.json").write_text(json.dumps(SEGMENTS))
    return tmp_path


@pytest.fixture
def run(folder):
    return functools.partial(here, "acts", cwd=folder)


def test_tables_of_acts_parts_and_votes(run):
    said = run("voted.json")
    lines = [line.split("\t") for line in said.stdout.splitlines()]
    assert lines[0] == ["dimension", "act", "n", "share"]
    assert ["general task", "inform", "2", "40.000 %"] in lines
    assert ["general task", "question", "1", "20.000 %"] in lines  # by the votes
    assert ["train", "1", "3", "4", "1.333", "1", "0"] in lines
    assert ["together", "2", "5", "6", "1.200", "1", "0"] in lines
    votes = dict(zip(lines[-2], lines[-1], strict=True))
    assert (votes["segments"], votes["decided"], votes["another round"]) == ("6", "5", "1")
    assert "another round: daily_train_1_1_0" in said.stderr


def test_json_has_the_same_and_no_nan(run):
    found = json.loads(run("voted.json", "--json").stdout)
    assert found["segments"] == 6
    assert found["unlabelled"] == 1
    assert found["parts"]["dev"]["dialogues"] == 1
    assert found["votes"]["needs_another_round"] == ["daily_train_1_1_0"]
    assert found["votes"]["dominant"] == "inform"
    assert found["votes"]["kappa"]["n"] == 6
    assert found["expert"] is None
    assert found["model"] is None


def test_an_expert_measures_majority_and_raters(run, folder):
    expert = [
        row("daily_train_1_0_1", " where is it?", "question"),
        row("daily_valid_2_0_0", "It is late.", "question"),
        row("daily_test_9_0_0", "Elsewhere", "inform"),
    ]
    (folder / "expert.json").write_text(json.dumps(expert))
    said = run("voted.json", "--expert", "expert.json", "--json")
    found = json.loads(said.stdout)["expert"]
    assert {who: (one["value"], one["n"]) for who, one in found.items()} == {
        "acts": (0.5, 2),
        "majority": (0.5, 2),
        "rater 1": (0.5, 2),
        "rater 2": (0.5, 2),
        "rater 3": (0.5, 2),
    }
    assert "segments of the expert that are not among these: 1" in said.stderr
    assert ".500 [.095, .905]" in run("voted.json", "--expert", "expert.json").stdout


def test_written_segments_are_read_again(run, folder):
    assert "written: out.json" in run("voted.json", "-o", "out.json").stderr
    assert next(iter(read_dialogues(folder / "out.json"))).turns[0].meta["segments"][1] == {
        "text": " where is it?",
        "act": "question",
        "votes": ["question", "question", "directive"],
    }
    assert run("out.json").stdout == run("voted.json").stdout
    run("voted.json", "-o", "out.jsonl")
    assert [chat.id for chat in formats.read(folder / "out.jsonl")] == ["daily_train_1", "daily_valid_2"]
    again = json.loads(run("out.jsonl", "--json").stdout)
    assert (again["segments"], again["parts"].keys()) == (6, {"all"})
    printed = run("voted.json", "-o", "-").stdout.splitlines()
    assert json.loads(printed[0])["id"] == "daily_train_1"


def test_a_folder_of_segments(run, folder):
    (folder / "actdial-files").mkdir()
    (folder / "voted.json").rename(folder / "actdial-files" / "a.json")
    assert json.loads(run("actdial-files", "--json").stdout)["dialogues"] == 2


def test_an_act_unlike_the_majority_is_said(run, folder):
    (folder / "odd.json").write_text(
        json.dumps([row("a_0_0", "Hm.", "inform", "greeting", "greeting", None)])
    )
    assert "segments with another act than their majority: 1" in run("odd.json").stderr


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["none.json"], 1, "none.json: no such file"),
        (["nothing"], 1, "no dialogues in nothing"),
        (["voted.json", "-o", "voted.json"], 2, "choose another name"),
        (["voted.json", "-o", "out.txt"], 2, "use one of .json (segments), .jsonl, .parquet, .csv"),
        (["voted.json", "--part", "train"], 2, "--part needs a public set"),
        (["voted.json", "--expert", "none.json"], 1, "none.json: no such file"),
        (
            ["voted.json", "--expert", "bad.json"],
            1,
            "bad.json: daily_train_1_0_0 is 'Hello' here and 'Hey' there",
        ),
        (["voted.json", "--expert", "empty.json"], 1, "empty.json: no segment with an act"),
        (["wrong.json"], 1, "wrong.json: dialogue 'a', turn 0: act: unknown act 'statement'; known: inform"),
        (["voted.json", "--splitter", "comma"], 2, "punkt+comma"),
    ],
)
def test_errors_are_one_line_and_name_the_place(run, folder, words, code, message):
    (folder / "bad.json").write_text(json.dumps([row("daily_train_1_0_0", "Hello", "greeting")]))
    (folder / "empty.json").write_text("[]")
    (folder / "nothing").mkdir()
    (folder / "wrong.json").write_text(json.dumps([row("a_0_0", "Hm.", "statement")]))
    said = run(*words, code=code)
    assert message in " ".join(said.stderr.split())
    assert said.stdout == ""


# --- with a classifier ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A real one, if a small one: it knows questions from all else by the middle between two of each."""
    texts = ["Where is the station?", "Is it far?", "The station is closed.", "I like trains."]
    encoder = Encoder.load()
    rows = segment_features([([Segment(0, "user", text)], 0) for text in texts], encoder)
    asked, told = rows[:2].mean(axis=0), rows[2:].mean(axis=0)
    weight = np.full((len(ACTS), rows.shape[1]), 0, np.float32)
    weight[ACTS.index("question")] = asked - told
    bias = np.full(len(ACTS), -100, np.float32)
    bias[ACTS.index("inform")] = 0
    bias[ACTS.index("question")] = -(asked - told) @ (asked + told) / 2
    tensors = {
        "input.mean": np.zeros(rows.shape[1], np.float32),
        "input.scale": np.ones(rows.shape[1], np.float32),
        "heads.act.weight": weight,
        "heads.act.bias": bias,
    }
    fields = {
        "name": "toy-acts",
        "heads": [HEAD.fields()],
        "hidden": [],
        "activation": "relu",
        "encoder": {"name": encoder.name, "sha": encoder.sha},
        "weights_file": "model.safetensors",
    }
    folder = tmp_path_factory.mktemp("models") / "toy-acts"
    card = Card("Toy", "An example.", licence="mit", command="make it")
    write = {"model.safetensors": lambda path: write_tensors(path, tensors)}
    return save(folder, "segment-acts.v1", fields, write, card).folder


def acts_of(path):
    return [
        [(one["text"], one["act"]) for one in turn.meta.get("segments", [])]
        for chat in formats.read(path)
        for turn in chat.turns
    ]


def test_plain_dialogues_are_cut_and_labelled(run, folder, classifier):
    said = [("system", "Be brief."), ("user", "I like trains, is it far?"), ("assistant", "")]
    formats.write([dialogue(said, "d1")], folder / "chats.jsonl")
    told = run("chats.jsonl", "--model", classifier, "-o", "out.jsonl")
    assert "2 segments labelled by toy-acts " in told.stderr
    assert acts_of(folder / "out.jsonl") == [
        [],
        [("I like trains", "inform"), (" is it far?", "question")],
        [],
    ]
    run("chats.jsonl", "--model", classifier, "--splitter", "punkt", "-o", "whole.jsonl")
    assert [len(turn) for turn in acts_of(folder / "whole.jsonl")] == [0, 1, 0]
    found = json.loads(run("out.jsonl", "--json").stdout)
    assert (found["model"], found["segments"], found["uncut_turns"]) == (None, 2, 1)


def test_a_classifier_answers_only_where_nobody_did(run, folder, classifier):
    segments = [
        row("a_0_0", "Where is the station?", "directive"),
        row("a_0_1", None, "inform"),
        row("a_0_2", "Is it far?", None),
        row("a_1_0", "Hm?", None, "question", "inform", "apology"),
        row("a_1_1", "The station is closed.", None),
        row("a_2_0", "Is it?", None, "greeting", "greeting", "inform"),
    ]
    (folder / "open.json").write_text(json.dumps(segments))
    said = run("open.json", "--model", classifier, "-o", "closed.json")
    assert "2 segments labelled by toy-acts" in said.stderr
    written = {one["index"]: one for one in json.loads((folder / "closed.json").read_text())}
    assert written == {one["index"]: one for one in segments} | {
        "a_0_2": row("a_0_2", "Is it far?", "question"),
        "a_1_1": row("a_1_1", "The station is closed.", "inform"),
        "a_2_0": row("a_2_0", "Is it?", "greeting", "greeting", "greeting", "inform"),
    }


def test_many_blocks_keep_their_order(run, folder, classifier):
    asked = ["Is it far?", "I like trains."]
    chats = [dialogue([("user", asked[number % 2])], f"d{number}") for number in range(600)]
    formats.write(chats, folder / "chats.jsonl")
    run("chats.jsonl", "--model", classifier, "-o", "out.jsonl")
    assert [turn[0] for turn in acts_of(folder / "out.jsonl")] == [
        (text, act) for text, act in zip(asked, ["question", "inform"], strict=True)
    ] * 300


def test_a_model_that_is_not_there_is_said(run, folder):
    formats.write([dialogue([("user", "Hi")], "d1")], folder / "chats.jsonl")
    assert "nowhere" in run("chats.jsonl", "--model", "nowhere", "-o", "out.jsonl", code=2).stderr
    assert not (folder / "out.jsonl").exists()
