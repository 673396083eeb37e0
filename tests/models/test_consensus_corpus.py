"""The consensus corpus: who is found, who is passed over, and which index fits which models."""

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from dialeval.dialogues import Dialogue, Turn, dialogue
from dialeval.dialogues.formats import read, write
from dialeval.dialogues.segments import segments_of
from dialeval.dialogues.splits import Fingerprints
from dialeval.errors import DataError, UsageError
from dialeval.jobs.demo import example_dialogues
from dialeval.jobs.indexing import index_to
from dialeval.models import consensus
from dialeval.models.act_flows import flow_of
from dialeval.models.consensus import (
    EXAMPLES,
    NOTE,
    Corpus,
    Description,
    corpus_blocks,
    corpus_folder,
    open_corpus,
)
from dialeval.models.encoder import Encoder
from dialeval.models.index import Index

HOW = Description()


@pytest.fixture(scope="module")
def people() -> list[Dialogue]:
    return list(read(EXAMPLES))[:16]


@pytest.fixture(scope="module")
def folder(people: list[Dialogue], tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("corpus") / "people"
    index_to(people, made)
    return made


@pytest.fixture(scope="module")
def corpus(folder: Path) -> Corpus:
    return open_corpus(str(folder), HOW)[0]


def retrieved(corpus: Corpus, chats: list[Dialogue], ka: int, kc: int) -> list[list[int]]:
    return [found.rows for found in corpus.retrieve(corpus.how.describe(chats), ka, kc)]


def test_the_bundled_corpus_is_people_of_our_own_writing() -> None:
    chats = list(read(EXAMPLES))
    assert len(chats) == 100
    assert len({one.id for one in chats}) == 100
    known = Fingerprints.of(example_dialogues())
    assert not any(known.match(one) for one in chats), "the examples are not compared with themselves"
    assert all(len(one.turns) >= 4 for one in chats)


def test_what_is_stored(corpus: Corpus, people: list[Dialogue]) -> None:
    assert len(corpus) == len(people)
    assert list(corpus.ids) == [one.id for one in people]
    for row in (0, 7, 15):
        kept = corpus.dialogue(row)
        assert [turn.text for turn in kept.turns] == [turn.text for turn in people[row].turns]
        assert all(one.act for one in segments_of(kept))
        assert corpus.flow(row) == flow_of(kept)
    fresh = HOW.describe(people[:4])
    for one, other in zip(fresh.states, corpus.states(range(4)), strict=True):
        assert one.tokens.tolist() == other.tokens.tolist()
        assert np.abs(one.vectors - other.vectors).max() < 5e-3  # a byte a number
    stored = corpus.index.vectors(corpus.names["acts"])[:4]
    lengths = np.linalg.norm(fresh.acts, axis=1, keepdims=True)
    assert np.abs(fresh.acts / lengths - stored).max() < 1e-5


def test_neighbours_are_the_best_by_each_likeness(corpus: Corpus) -> None:
    asked = HOW.describe(example_dialogues()[:5])
    acts, words, content = (
        corpus.index.cosines(query, column=corpus.names[name])
        for name, query in (("acts", asked.acts), ("words", asked.words), ("content", asked.content))
    )
    alike = (1 + acts) * (1 + words)
    for number, found in enumerate(corpus.retrieve(asked, 5, 3)):
        by_acts = np.argsort(-alike[number], kind="stable")[:5].tolist()
        by_content = np.argsort(-content[number], kind="stable")[:3].tolist()
        assert found.rows[:5] == by_acts
        assert set(found.rows) == {*by_acts, *by_content}
        assert len(set(found.rows)) == len(found.rows), "a dialogue that is found twice is there once"
        assert found.likeness == pytest.approx(alike[number, found.rows])


def test_more_neighbours_than_there_are(corpus: Corpus) -> None:
    for rows in retrieved(corpus, example_dialogues()[:2], 500, 500):
        assert sorted(rows) == list(range(len(corpus)))
    assert [len(rows) for rows in retrieved(corpus, example_dialogues()[:1], 0, 4)] == [4]
    assert [len(rows) for rows in retrieved(corpus, example_dialogues()[:1], 4, 0)] == [4]


def test_what_is_judged_is_no_neighbour_of_itself(corpus: Corpus, people: list[Dialogue]) -> None:
    same = people[3]
    longer = msgspec.structs.replace(same, turns=(*same.turns, Turn("speaker1", "One more thing.")))
    changed = msgspec.structs.replace(
        same, turns=(Turn("x", "Something else to begin with."), *same.turns[1:])
    )
    renamed = msgspec.structs.replace(same, id="another-name")
    for one in (same, longer, changed, renamed):
        (rows,) = retrieved(corpus, [one], 500, 500)
        assert sorted(rows) == [row for row in range(len(corpus)) if row != 3]
        (rows,) = retrieved(corpus, [one], 1, 1)
        assert rows
        assert 3 not in rows


def test_a_corpus_full_of_copies(people: list[Dialogue], tmp_path: Path) -> None:
    """All that is near is a copy: the search goes on until there are enough others."""
    first = people[0]
    copies = [
        msgspec.structs.replace(first, id=f"copy-{number}", turns=(*first.turns, Turn("A", "bye " * number)))
        for number in range(30)
    ]
    blocks = corpus_blocks([*copies, *people[1:4]], HOW)
    index = Index.build_from(tmp_path / "copies", blocks, encoder=Encoder.load(HOW.encoder))
    corpus = Corpus(index, HOW)
    assert [sorted(rows) for rows in retrieved(corpus, [first], 3, 0)] == [[30, 31, 32]]
    assert min(retrieved(corpus, [first], 1, 1)[0]) >= 30
    assert len(retrieved(corpus, [people[5]], 40, 0)[0]) == 33


def test_rarity_of_tokens_is_counted_over_the_corpus(corpus: Corpus) -> None:
    held = [set(one.tokens.tolist()) for one in corpus.states(range(len(corpus)))]
    every = sorted(set().union(*held))
    expected = np.log(
        (len(held) + 1) / (np.array([sum(token in one for one in held) for token in every]) + 1)
    )
    assert corpus.idf.weights(every) == pytest.approx(expected, abs=1e-6)
    assert corpus.idf.weights([29_999, 10**6])[1] == pytest.approx(np.log(len(held) + 1))


def test_names_of_columns_say_what_made_them() -> None:
    names = HOW.names
    assert replace(HOW, h=2).names["acts"] != names["acts"]
    assert replace(HOW, splitter="punkt").names["acts"] != names["acts"]
    assert replace(HOW, l=3).names == {**names, "content": "content-3", "states": "states-3"}
    assert Description().names == names


def test_an_index_of_other_features_is_refused(folder: Path, people: list[Dialogue], tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    index_to(people[:3], plain, plain=True)
    with pytest.raises(UsageError, match=r"plain was not built for these models.*--overwrite"):
        open_corpus(str(plain), HOW)
    for other, column in ((replace(HOW, l=3), "content-3"), (replace(HOW, h=2), "acts-")):
        with pytest.raises(UsageError, match=f"no {column}"):
            open_corpus(str(folder), other)


def test_an_index_of_another_layer_serves_that_layer(people: list[Dialogue], tmp_path: Path) -> None:
    index_to(people[:3], tmp_path / "low", layer=2, acts_layer=3)
    low, note = open_corpus(str(tmp_path / "low"), replace(HOW, l=2, h=3))
    assert (len(low), note) == (3, None)
    with pytest.raises(UsageError, match="no acts-"):
        open_corpus(str(tmp_path / "low"), HOW)


def test_corpora_by_name(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DIALEVAL_HOME", str(tmp_path / "home"))
    with pytest.raises(UsageError, match=r"no corpus 'mine': make one, dialeval index .* -o mine"):
        open_corpus("mine", HOW)
    corpus_folder("mine").parent.mkdir(parents=True)
    corpus_folder("mine").symlink_to(folder)
    assert len(open_corpus("mine", HOW)[0]) == 16
    assert open_corpus(None, HOW)[1] == NOTE, "the bundled one, if there is no other"
    corpus_folder("dailydialog").symlink_to(folder)
    assert open_corpus(None, HOW)[1] is None
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError):
        open_corpus("empty", HOW)


def test_what_was_added_is_seen(people: list[Dialogue], tmp_path: Path) -> None:
    index_to(people[:3], tmp_path / "grows")
    before = open_corpus(str(tmp_path / "grows"), HOW)[0]
    index_to(people[3:5], tmp_path / "grows", add=True)
    after = open_corpus(str(tmp_path / "grows"), HOW)[0]
    assert (len(before), len(after)) == (3, 5)
    assert [after.dialogue(row).id for row in range(5)] == [one.id for one in people[:5]]


def test_dialogues_that_say_nothing(corpus: Corpus) -> None:
    silent = [
        dialogue([], "a"),
        dialogue([("user", ""), ("assistant", " ")], "b"),
        dialogue([("tool", "x")], "c"),
    ]
    found = HOW.describe(silent)
    assert not found.acts.any()
    assert not found.content.any()
    assert [len(one) for one in found.states] == [0, 0, 0]
    assert [len(rows) for rows in retrieved(corpus, silent, 2, 2)] == [2, 2, 2]
    assert retrieved(corpus, [], 2, 2) == []


def test_the_bundled_corpus_is_indexed_once_and_again_when_damaged(
    people: list[Dialogue], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(people[:3], tmp_path / "corpus.jsonl")
    monkeypatch.setattr(consensus, "EXAMPLES", tmp_path / "corpus.jsonl")
    monkeypatch.setenv("DIALEVAL_HOME", str(tmp_path / "home"))

    def opened() -> Corpus:
        consensus._examples.cache_clear()  # as another process would
        return open_corpus("examples", HOW)[0]

    made = opened()
    (folder,) = (tmp_path / "home" / "indexes").iterdir()
    assert made.index.folder == folder and len(made) == 3
    monkeypatch.setattr(consensus, "corpus_blocks", None)  # nothing is described again
    assert opened().index.sha == made.index.sha
    monkeypatch.undo()
    monkeypatch.setattr(consensus, "EXAMPLES", tmp_path / "corpus.jsonl")
    monkeypatch.setenv("DIALEVAL_HOME", str(tmp_path / "home"))
    next(folder.rglob("*.arrow")).write_bytes(b"broken")
    assert opened().index.sha == made.index.sha and len(list(folder.parent.iterdir())) == 1
    monkeypatch.setenv("DIALEVAL_HOME", "/dev/null")
    assert opened().index.sha == made.index.sha
    consensus._examples.cache_clear()
