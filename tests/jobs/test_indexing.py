"""`dialeval index`: a folder that is there, one that a kill left behind, and adding to it."""

from pathlib import Path

import pytest

from dialeval.dialogues import dialogue
from dialeval.errors import DataError, UsageError
from dialeval.jobs.demo import example_dialogues
from dialeval.jobs.indexing import index_to
from dialeval.models.index import Index


def test_build_refuse_add_and_replace(tmp_path: Path) -> None:
    chats, told = example_dialogues()[:6], []
    made = index_to(chats, tmp_path / "i", plain=True, watch=told.append)
    assert (made["dialogues"], made["columns"], made["search"]) == (
        6,
        {"text": "dense", "words": "sparse"},
        "exact",
    )
    assert sum(told) == 6
    with pytest.raises(UsageError, match="--add adds to it, --overwrite replaces it"):
        index_to(chats, tmp_path / "i")
    new = dialogue([("user", "A cab, please.")], "new")
    assert index_to([new], tmp_path / "i", add=True)["dialogues"] == 7
    with pytest.raises(DataError, match="new"):
        index_to([new], tmp_path / "i", add=True)
    assert index_to(chats[:2], tmp_path / "i", overwrite=True)["dialogues"] == 2


def test_after_a_killed_first_build_the_same_command_works(tmp_path: Path) -> None:
    (tmp_path / "i" / "parts").mkdir(parents=True)
    (tmp_path / "i" / "parts" / "rows-0123456789abcdef.arrow").write_bytes(b"half")
    assert index_to(example_dialogues()[:2], tmp_path / "i")["dialogues"] == 2


def test_nothing_to_index_and_folders_of_others(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no dialogues"):
        index_to([], tmp_path / "i")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="mine"):
        index_to(example_dialogues()[:2], tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


def test_without_plain_it_is_a_corpus_for_consensus_metrics(tmp_path: Path) -> None:
    chats = example_dialogues()[:4]
    copy = dialogue(list(chats[0].turns), "a copy")
    made = index_to([*chats, copy], tmp_path / "i")
    assert (made["dialogues"], made["copies_left_out"]) == (4, 1)
    kinds = {name.partition("-")[0]: kind for name, kind in made["columns"].items()}
    assert kinds == {
        "acts": "dense",
        "content": "dense",
        "states": "tokens",
        "text": "dense",
        "words": "sparse",
    }
    new = dialogue([("user", "A cab, please."), ("assistant", "Sure, where to?")], "new")
    assert index_to([new], tmp_path / "i", add=True)["dialogues"] == 5
    (stored,) = Index.open(tmp_path / "i").dialogues(["new"])
    assert [one["act"] for one in stored.turns[0].meta["segments"]]
