"""BERTScore as a metric: what it compares, what it says when it cannot, and what stands in its signature."""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from awkward import CASES

from dialeval.dialogues import Dialogue, dialogue, scored_turns
from dialeval.errors import DataError, UsageError
from dialeval.jobs.demo import example_dialogues
from dialeval.metrics.registry import signature_of
from dialeval.metrics.similarity import BertScore
from dialeval.models import artefact
from dialeval.models.encoder import DEFAULT, Encoder
from dialeval.models.matching import Idf, Matcher

GOOD, BAD = "I would love to, what time shall we meet?", "My printer is out of ink again."
REFERENCES = ["Yes, I'd like that. When do we meet?", "Sorry, I'm busy tonight."]


def chat(*replies: str, references: dict[int, list[str]] | None = None, name: str = "d") -> Dialogue:
    turns = [("user", "Shall we go out for dinner tonight?"), *(("assistant", reply) for reply in replies)]
    known = dict.fromkeys(range(1, len(turns)), REFERENCES) if references is None else references
    return dialogue(turns, name, references=known)


def test_a_good_reply_beats_a_bad_one_and_the_same_words_are_best() -> None:
    rows = BertScore().score([chat(GOOD, BAD, REFERENCES[1])])
    found = {(row.turn, row.dimension): row.value for row in rows}
    assert list(found) == [(turn, one) for turn in (1, 2, 3) for one in ("precision", "recall", "f1")]
    for one in BertScore.dimensions:
        assert 0.0 <= found[2, one] < 0.4 < 0.5 < found[1, one] < found[3, one]
        assert found[3, one] == pytest.approx(1, abs=1e-5)


def test_the_numbers_are_the_matchers() -> None:
    chats = [one for one in example_dialogues() if one.references][:20]
    pairs = [
        (one.turns[turn].text, one.references[turn])
        for one in chats
        for turn in scored_turns(one)
        if turn in one.references
    ]
    expected = Matcher(Encoder.load(), 4).score([one for one, _ in pairs], [some for _, some in pairs])
    found = [row.value for row in BertScore(layer=4).score(chats) if row.value is not None]
    assert len(pairs) > 20
    assert np.abs(np.array(found).reshape(-1, 3) - expected).max() <= 1e-5


def test_what_cannot_be_compared() -> None:
    long = "I am not so sure about that. " * 100
    turns = chat(
        GOOD,
        "",
        "  ",
        GOOD,
        long,
        GOOD,
        references={1: [], 2: ["Yes"], 3: ["Yes"], 5: ["Yes"], 6: [long, "No"]},
    )
    rows = [row for row in BertScore().score([turns]) if row.dimension == "f1"]
    assert [row.note for row in rows] == [
        "no reference",
        None,
        None,
        "no reference",
        "truncated",
        "truncated",
    ]
    assert [row.value for row in rows][:4] == [None, 0.0, 0.0, None]
    assert all(0 < (row.value or 0) < 1 for row in rows[4:])


def test_the_signature_names_encoder_and_counts_by_content(tmp_path: Path) -> None:
    sha = artefact.load(DEFAULT).sha[:12]
    assert str(signature_of(BertScore())).startswith(f"bertscore.v1|encoder:{sha}|layer:6|idf:-|speaker:-|")
    elsewhere = shutil.copytree(artefact.resolve(DEFAULT), tmp_path / "elsewhere")
    assert signature_of(BertScore(encoder=str(elsewhere))) == signature_of(BertScore())
    for name, text in (("one", "Hi"), ("two", "Ho"), ("three", "Hi")):
        line = json.dumps({"id": "d", "messages": [{"role": "user", "content": text}]})
        (tmp_path / name).write_text(line + "\n")
    one, two, three = (signature_of(BertScore(idf=str(tmp_path / name))) for name in ("one", "two", "three"))
    assert one == three != two
    assert str(tmp_path) not in str(one)
    # What is not there has no content; it keeps its name, and scoring with it says what is wrong.
    assert "|encoder:nowhere|" in str(signature_of(BertScore(encoder="nowhere")))


def test_what_a_field_names_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no artefact called 'nowhere'"):
        BertScore(encoder="nowhere").score([chat(GOOD)])
    with pytest.raises(UsageError, match="no layer 7; it has 0 to 6"):
        BertScore(layer=7).score([chat(GOOD)])
    with pytest.raises(DataError, match="no such file"):
        BertScore(idf=str(tmp_path / "nothing.jsonl")).score([chat(GOOD)])


def test_idf_counts_over_the_file_and_not_over_the_company(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    corpus = ["I like tea.", "I like trains.", "I do not.", "I see."]
    turns = [{"role": "user", "content": text} for text in corpus]
    path.write_text(json.dumps({"id": "c", "messages": turns}) + "\n")
    made = BertScore(idf=str(path))
    encoder = Encoder.load()
    matcher = Matcher(encoder, 6, Idf.of(corpus, encoder.tokenizer))
    expected = matcher.score([GOOD], [REFERENCES])[0]
    alone = [row.value for row in made.score([chat(GOOD)])]
    assert alone == pytest.approx(expected, abs=1e-6)
    assert alone != pytest.approx([row.value for row in BertScore().score([chat(GOOD)])], abs=1e-3)
    company = made.score([chat(BAD), chat(GOOD, name="e"), chat(BAD, GOOD)])
    assert [row.value for row in company if row.dialogue_id == "e"] == pytest.approx(alone, abs=1e-5)


def test_order_of_input_and_threads_change_nothing() -> None:
    chats = [one for one in example_dialogues() if one.references][:12]
    expected = {(row.dialogue_id, row.turn, row.dimension): row.value for row in BertScore().score(chats)}
    code = (
        "import json, random\n"
        "from dialeval.jobs.demo import example_dialogues\n"
        "from dialeval.metrics.similarity import BertScore\n"
        "chats = [one for one in example_dialogues() if one.references][:12]\n"
        "random.Random(4).shuffle(chats)\n"
        "print(json.dumps([[*r[:2], r.dimension, r.value] for r in BertScore().score(chats)]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "DIALEVAL_THREADS": "1", "PYTHONHASHSEED": "7"},
    )
    found = {(one, turn, kind): value for one, turn, kind, value in json.loads(done.stdout)}
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, abs=1e-5) if value is not None else found[key] is None


@pytest.mark.parametrize("case", [case for case in CASES if case != "10,000 turns"], ids=str)
def test_awkward_input_gives_finite_numbers_or_reasons(case: str) -> None:
    for row in BertScore(layer=2).score(CASES[case]):
        unscored = row.note == "no reference" or str(row.note).startswith("language ")
        assert (row.value is None) == unscored
        assert row.value is None or 0 <= row.value <= 1 + 1e-6


def test_the_shuffled_words_of_a_reference_are_less_than_the_reference() -> None:
    """What word overlap cannot see: states depend on their neighbours."""
    text = "The dog that my sister found in the park bit the man who lives next door"
    words = text.split()
    random.Random(1).shuffle(words)
    rows = BertScore().score([chat(" ".join(words), references={1: [text]})])
    assert all(0.5 < (row.value or 0) < 0.99 for row in rows)
