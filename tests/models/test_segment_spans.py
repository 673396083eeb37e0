"""Segments as spans of turns: where they are, that marks may be missing, and that nothing else is encoded."""

import numpy as np
import pytest

from dialeval.dialogues import Dialogue, Turn, dialogue
from dialeval.dialogues.segments import Segment, segments_of, split
from dialeval.models.encoder import Encoder
from dialeval.models.needs import encode_ahead
from dialeval.models.segment_acts import Segmenter, SpanActs, places_of, span_means

SAID = "Well, I paid 1,000 for it. Do you like it?"


def test_places_cover_their_segments() -> None:
    chat = dialogue([("user", SAID), ("assistant", "  Yes, very much.")])
    places = places_of(chat, segments_of(chat))
    assert [one.turn[one.start : one.end] for one in places] == [
        one.text.strip() for one in segments_of(chat)
    ]


def test_a_segment_that_is_not_in_its_turn_is_a_text_of_its_own() -> None:
    chat = dialogue([("user", "What was said")])
    (place,) = places_of(chat, [Segment(0, "user", "something else")])
    assert place.turn[place.start : place.end] == "something else"


def test_means_are_those_of_the_tokens() -> None:
    encoder = Encoder.load()
    chat = dialogue([("user", SAID)])
    places = places_of(chat, segments_of(chat))
    means = span_means(places, encoder)
    text = places[0].turn
    offsets = encoder.tokenizer.offsets([text])[0]
    for order, layer in enumerate(encoder.middle_and_last):
        states = encoder.tokens([text], layer=layer)[0][1:-1]
        for row, place in zip(means, places, strict=True):
            inside = [
                n for n, (start, end) in enumerate(offsets) if place.start <= start and end <= place.end
            ]
            part = row[order * encoder.width : (order + 1) * encoder.width]
            np.testing.assert_allclose(part, states[inside].mean(axis=0), atol=1e-5)


@pytest.mark.parametrize(
    "text",
    ["hello there how are you doing", "i am a teacher what do you do", "yes please that would be nice"],
)
def test_text_without_marks_is_cut(text: str) -> None:
    assert split(text) == [text]
    pieces = Segmenter.load().cut([text])[0]
    assert len(pieces) > 1
    assert " ".join(pieces) == text


def test_every_letter_is_in_one_segment() -> None:
    (pieces,) = Segmenter.load().cut([SAID])
    assert "".join("".join(pieces).split()).replace(",", "") == "".join(SAID.split()).replace(",", "")


@pytest.mark.parametrize("text", ["", "   ", ".", ",,,", "?", "🎉", "ok"])
def test_little_text(text: str) -> None:
    chat = Dialogue("d", (Turn("user", text),))
    acts = SpanActs.load().label([chat])[0].turns[0].meta["segments"]
    assert all(one["act"] and one["text"].strip() for one in acts)
    assert bool(acts) == bool(text.strip(" .,"))


def test_known_acts_are_kept() -> None:
    known = [{"text": "Hi", "act": "goodbye"}, {"text": "who is it?", "act": None}]
    (found,) = SpanActs.load().label([Dialogue("d", (Turn("user", "Hi who is it?", {"segments": known}),))])
    assert [one["act"] for one in found.turns[0].meta["segments"]] == ["goodbye", "question"]


def test_labelling_encodes_nothing_but_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = SpanActs.load()
    chats = [dialogue([("user", "Hello you there. How was the match?"), ("assistant", "Fine, and long.")])]
    encode_ahead(chats, classifier.needs())
    monkeypatch.setattr(Encoder, "_run", lambda *_: pytest.fail("encoded again"))
    assert classifier.label(chats)
