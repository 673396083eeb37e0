"""Segments of dialogues: cut where nobody has cut, kept where somebody has, and put back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialeval.dialogues import Dialogue, Turn, dialogue
from dialeval.dialogues.acts import ACTS
from dialeval.dialogues.segmentation import SPLITTERS, Splitter
from dialeval.dialogues.segments import Segment, segments_of, with_acts
from dialeval.errors import DataError


def annotated(*segments: tuple[str, str | None]) -> Turn:
    cut = [{"text": text, "act": act} for text, act in segments]
    return Turn("user", "whatever it says", {"segments": cut})


def test_who_says_what() -> None:
    chat = dialogue([("user", "Hey, you! Are you there?"), ("assistant", "Yes."), ("user", "Good.")])
    assert segments_of(chat) == [
        Segment(0, "user", "Hey"),
        Segment(0, "user", " you!"),
        Segment(0, "user", "Are you there?"),
        Segment(1, "assistant", "Yes."),
        Segment(2, "user", "Good."),
    ]
    assert [one.text for one in segments_of(chat, "punkt")][:2] == ["Hey, you!", "Are you there?"]


def test_a_cut_that_is_there_is_kept() -> None:
    chat = Dialogue("d", (annotated(("One, two. Three", "Inform"), (" ", "question"), ("four", None)),))
    assert segments_of(chat) == [Segment(0, "user", "One, two. Three", "inform"), Segment(0, "user", "four")]
    assert segments_of(Dialogue("d", (annotated(),))) == []


def test_acts_are_spelt_in_one_way() -> None:
    chat = Dialogue("d", (annotated(("Mm", "Backchannel_Success")),))
    assert [one.act for one in segments_of(chat)] == ["backchannel-success"]
    with pytest.raises(DataError, match="no act 'shrug'"):
        segments_of(Dialogue("d", (annotated(("Hm", "shrug")),)))


@pytest.mark.parametrize("segments", ["Hi", {"text": "Hi"}, [1], [{"act": "inform"}]])
def test_what_is_no_list_of_segments(segments: object) -> None:
    with pytest.raises(DataError, match="not a list of segments"):
        segments_of(Dialogue("d", (Turn("user", "Hi", {"segments": segments}),)))


def test_who_takes_no_part_has_no_segments() -> None:
    chat = dialogue([("system", "Be kind. Be short."), ("tool", "22"), ("user", "Hi"), ("assistant", " ")])
    assert segments_of(chat) == [Segment(2, "user", "Hi")]
    turns = with_acts(chat, [Segment(2, "user", "Hi", "greeting")]).turns
    found = [turn.meta.get("segments") for turn in turns]
    assert found == [None, None, [{"text": "Hi", "act": "greeting"}], []]


def test_meta_and_everything_else_stays() -> None:
    chat = dialogue([Turn("user", "Hi", {"rating": 3})], "d1", system="bot", references={0: ["Hello"]})
    acted = with_acts(chat, segments_of(chat))
    assert acted.turns[0].meta == {"rating": 3, "segments": [{"text": "Hi", "act": None}]}
    assert (acted.id, acted.system, acted.references, acted.turns[0].text) == (
        "d1",
        "bot",
        {0: ["Hello"]},
        "Hi",
    )
    assert chat.turns[0].meta == {"rating": 3}, "the one that was given is as it was"


texts = st.lists(st.text(st.sampled_from("ab .,?!é你\n"), max_size=20), max_size=6)


@given(texts, st.sampled_from(SPLITTERS), st.randoms(use_true_random=False))
def test_what_is_put_there_is_read_again(said: list[str], splitter: Splitter, draw) -> None:
    chat = dialogue([("user" if number % 2 else "assistant", text) for number, text in enumerate(said)], "d")
    found = segments_of(chat, splitter)
    acted = [Segment(one.turn, one.speaker, one.text, draw.choice([*ACTS, None])) for one in found]
    again = with_acts(chat, acted)
    assert segments_of(again) == acted
    assert segments_of(again, "punkt") == acted, "a cut is not cut again"
    assert "".join(one.text for one in found if one.text.strip()).count("a") == "".join(said).count("a")
