"""Pairs of the collections behind `fault-pairs`, in files of their formats that we invented."""

import json
from pathlib import Path

import pytest

from dialeval.dialogues.datasets import public_set
from dialeval.errors import DataError

FILES = {
    "decode_contradiction_pairs.tsv": "seg1\tseg2\tlabel\nI own a boat.\tI never owned a boat.\tx\n",
    "decode_rct.jsonl": json.dumps(
        {
            "turns": [
                {"agent_id": who, "text": text} for who, text in ((0, "Hi."), (1, "Yes?"), (0, "I sail."))
            ]
        }
    ),
    "snli/cat_train.csv": "3\t3\tA man sails alone.\tSomebody sails.\nbroken line\n",
    "snli/becel_validation.tsv": "premise\thypothesis\tlabel\nA man sails.\tA man sleeps.\t2\n",
    "snli/becel_semantic.tsv": "hypothesis\tlabel\thypothesis_paraphrase\nHe sails.\t0\tHe is sailing.\n",
    "begin/begin_dev_wow.tsv": "knowledge\tresponse\tbegin_label\n"
    "Tea is a drink.\tTea is a drink!\tFully attributable\nx\tOk.\tGeneric\n",
    "comve/train.csv": "Correct Statement,Incorrect Statement\nHe drank tea.,He drank a chair.\n",
    "chatprotect/a.json": json.dumps(
        [
            {"text": "It has two.\n---;;;\nIt has three.", "label": ["strong"]},
            {"text": "A\n---;;;\nB", "label": []},
        ]
    ),
    "ci_tod/calendar_dev.json": json.dumps(
        [
            {
                "dialogue": [
                    {"turn": "driver", "utterance": "when is my tennis_activity"},
                    {"turn": "assistant", "utterance": "on friday"},
                ],
                "scenario": {
                    "qi": "0",
                    "hi": "0",
                    "kbi": "1",
                    "kb": {"items": [{"event": "tennis_activity", "date": "monday", "room": "-"}]},
                },
            }
        ]
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DIALEVAL_DATA", str(tmp_path))
    for name, content in FILES.items():
        path = tmp_path / "faults" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    for part in ("dev", "test"):
        (tmp_path / "faults" / "comve" / f"{part}.csv").write_text("Correct Statement,Incorrect Statement\n")
    return tmp_path / "faults"


def test_pairs_of_every_collection_that_is_there(folder: Path) -> None:
    found = {one.id: one for one in public_set("fault-pairs").dialogues()}
    told = {
        id: (one.meta["pair"], one.turns[0].text, one.turns[1].text, one.meta["targets"])
        for id, one in found.items()
    }
    assert told["fault-pairs-decode-0"] == (
        "own",
        "I own a boat.",
        "I never owned a boat.",
        {"contradicts": 1.0, "repeats": 0.0},
    )
    assert told["fault-pairs-decode-1"][1:3] == ("Hi.", "I sail.")
    assert told["fault-pairs-snli-0"][3] == {"contradicts": 0.0, "supported": 1.0}
    assert told["fault-pairs-snli-1"][3] == {"contradicts": 1.0, "supported": 0.0}
    assert told["fault-pairs-snli-2"] == (
        "own",
        "He sails.",
        "He is sailing.",
        {"contradicts": 0.0, "repeats": 1.0},
    )
    assert [one[3] for id, one in told.items() if "begin" in id] == [{"supported": 1.0}]
    assert [one[3]["nonsense"] for id, one in told.items() if "comve" in id] == [0.0, 1.0]
    assert [one[3]["contradicts"] for id, one in told.items() if "chatprotect" in id] == [1.0, 0.0]
    assert told["fault-pairs-ci_tod-0"][:2] == ("user", "when is my tennis activity")
    assert told["fault-pairs-ci_tod-1"][1:] == (
        "event: tennis activity, date: monday",
        "on friday",
        {"contradicts": 1.0, "supported": 0.0},
    )


def test_collections_that_forbid_commercial_use_are_not_read(folder: Path) -> None:
    for name in ("anli/R1_dev.jsonl", "sick/SICK.txt"):
        (folder / name).parent.mkdir()
        (folder / name).write_text("{}")
    assert not any("anli" in one.id or "sick" in one.id for one in public_set("fault-pairs").dialogues())


def test_an_empty_folder_is_an_error(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    with pytest.raises(DataError, match="no collection"):
        list(public_set("fault-pairs").dialogues())


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [b"", b"{}", b"[[1]]", b"a\tb\n1\t2\n", b"\xff\x00", b"[" * 3000])
def test_a_damaged_file_is_read_or_refused(folder: Path, name: str, damage: bytes) -> None:
    (folder / name).write_bytes(damage)
    try:
        list(public_set("fault-pairs").dialogues())
    except DataError as error:
        assert "faults" in str(error)
