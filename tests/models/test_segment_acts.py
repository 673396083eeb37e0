"""The classifier of segment acts as it ships: its examples, what it leaves alone, and its features."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dialeval.dialogues import Dialogue, Turn, dialogue
from dialeval.dialogues.acts import ACTS, Act, ActExample, acts
from dialeval.dialogues.segments import Segment, segments_of
from dialeval.errors import DataError
from dialeval.jobs.demo import example_dialogues
from dialeval.models.act_flows import DEFAULT as ACTBERT
from dialeval.models.encoder import Encoder
from dialeval.models.segment_acts import SegmentActs, segment_features, segment_pair


@pytest.fixture(scope="module")
def classifier() -> SegmentActs:
    return SegmentActs.load()


def acts_of(labelled: Dialogue) -> list[str | None]:
    return [one["act"] for turn in labelled.turns for one in turn.meta.get("segments", ())]


def setting(act: Act, example: ActExample) -> Dialogue:
    """Put an example where it would be said: who checks has spoken before, all others answer."""
    if example.before is None:
        return dialogue([("speaker1", example.text)])
    speaker = "speaker1" if act.name == "check-understanding" else "speaker2"
    return dialogue([("speaker1", example.before), (speaker, example.text)])


STILL_WRONG = {"I will call you back in ten minutes.": "the shipped classifier takes it for directive"}


def examples() -> Iterator[Any]:
    for act in acts():
        for example in act.examples:
            reason = STILL_WRONG.get(example.text)
            marks = [pytest.mark.xfail(strict=True, reason=reason)] if reason else []
            yield pytest.param(act, example, id=f"{act.name}: {example.text}", marks=marks)


@pytest.mark.parametrize(("act", "example"), list(examples()))
def test_examples_of_each_act(classifier: SegmentActs, act: Act, example: ActExample) -> None:
    (found,) = classifier.label([setting(act, example)])
    assert found.turns[-1].meta["segments"][-1]["act"] == act.name


def test_known_acts_are_kept(classifier: SegmentActs) -> None:
    cut = [{"text": "Hello there!", "act": "Check_Understanding"}, {"text": "Where is the station?"}]
    chat = dialogue([Turn("user", "Hello there! Where is the station?", {"segments": cut})])
    assert acts_of(classifier.label([chat])[0]) == ["check-understanding", "question"]
    full = dialogue([Turn("user", "x", {"segments": [{"text": "Where?", "act": "goodbye"}]})])
    assert acts_of(classifier.label([full])[0]) == ["goodbye"]


def test_what_takes_no_part_and_what_is_empty(classifier: SegmentActs) -> None:
    chat = dialogue([("system", "Be kind."), ("user", "Hi!"), ("tool", "22"), ("assistant", "")])
    found = classifier.label([chat, dialogue([])])
    assert [turn.meta.get("segments") for turn in found[0].turns] == [
        None,
        [{"text": "Hi!", "act": "greeting"}],
        None,
        [],
    ]
    assert found[1] == dialogue([])
    assert classifier.label([]) == []
    assert classifier.shares([]).shape == classifier.shares([[]]).shape == (0, len(ACTS))


@pytest.mark.parametrize(
    "text",
    ["你好吗", "مرحبا كيف حالك؟", "😀 👩‍👩‍👧‍👦", "... --- ...", "\x00\x01", "x" * 5000, "a, b, " * 900],
)
def test_any_text_gets_acts(classifier: SegmentActs, text: str) -> None:
    chat = dialogue([("user", text), ("assistant", text)])
    labelled = classifier.label([chat])[0]
    found = acts_of(labelled)
    assert len(found) == len(segments_of(chat))
    assert set(found) <= set(ACTS)
    assert [turn.text for turn in labelled.turns] == [turn.text for turn in chat.turns]


def test_the_splitter_decides_what_is_labelled(classifier: SegmentActs) -> None:
    chat = dialogue([("user", "Hi, where is the station?")])
    assert len(acts_of(classifier.label([chat])[0])) == 2
    assert acts_of(classifier.label([chat], "punkt")[0]) == ["question"]


def test_company_changes_nothing(classifier: SegmentActs) -> None:
    chats = example_dialogues()[:12]
    together = {one.id: acts_of(one) for one in classifier.label(chats)}
    random.Random(1).shuffle(chats)
    for chat in chats:
        assert acts_of(classifier.label([chat])[0]) == together[chat.id]
    segments = [segments_of(chat) for chat in chats]
    alone = np.concatenate([classifier.shares([one]) for one in segments])
    assert np.abs(classifier.shares(segments) - alone).max() <= 1e-5
    assert np.abs(alone.sum(axis=1) - 1).max() <= 1e-5


def test_features_are_own_and_previous_vectors_and_facts() -> None:
    encoder = Encoder.load()
    said = [
        Segment(0, "user", "Good morning"),
        Segment(0, "user", " is anybody there?"),
        Segment(1, "assistant", "Yes."),
    ]
    rows = segment_features([(said, 0), (said, 1), (said, 2)], encoder)
    texts = [one.text.strip() for one in said]
    known = np.concatenate([encoder.vectors(texts, layer=layer, pooling="mean") for layer in (3, 6)], axis=1)
    width = known.shape[1]
    assert np.abs(rows[:, :width] - known).max() <= 1e-5
    assert not rows[0, width : 2 * width].any()
    assert np.abs(rows[1:, width : 2 * width] - known[:-1]).max() <= 1e-5
    facts = [[0, 0, 1, 0, 0], [1, 1, 0, 1, 1], [1, 0, 0, 0, 0]]
    assert rows[:, 2 * width : 2 * width + 5].tolist() == facts
    assert rows[:, -2:] == pytest.approx(np.log1p([[2, 0], [3, 1], [1, 2]]), abs=1e-6)
    assert segment_pair(said, 1) == (("Good morning",), "is anybody there?")
    assert segment_pair(said, 0) == ((), "Good morning")


def test_another_artefact_is_refused() -> None:
    with pytest.raises(DataError, match=r"act-bert\.v1', not one of pair-scorer\.v1, segment-acts\.v1"):
        SegmentActs.load(ACTBERT)
