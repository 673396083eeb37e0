"""Segments of dialogues: cut where nobody has cut, kept where somebody has, and put back.

Cutting turns into segments: the published cut, NLTK as oracle, and text of any kind.
"""

import json
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialeval.dialogues import Dialogue, Turn, dialogue
from dialeval.dialogues.acts import ACTS
from dialeval.dialogues.segments import (
    DEFAULT_SPLITTER,
    SPLITTERS,
    Segment,
    Splitter,
    segments_of,
    split,
    with_acts,
)
from dialeval.errors import DataError, UsageError


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
    with pytest.raises(DataError, match="unknown act 'shrug'"):
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


SENTENCES = [
    "Dr. Smith went home. He was tired.",
    "I live in the U.S. now. It is large.",
    "She asked: why? Nobody knew!",
    "(Hi there.) Bye.",
    "“Hello there.” Bye.",
    'He said "no." Then he left.',
    "Well... Maybe. Or not",
    "No... yes.",
    "Mr. and Mrs. Dursley, of no. 4, e.g. here.",
    "It cost $3.50. Cheap!",
    "going good.for you? fine.",
    "hi. how are you? i'm fine. thanks",
    "Ok?! Sure!? Yes",
    "A. B. Clark wrote it in Jan. He did.",
    "line one.\nline two.\n\nline three",
    "  leading and trailing.  ",
    "你好。再见。",
    "¿Qué tal? ¡Muy bien! Sí.",
]


def nltk_punkt():
    """NLTK's own Punkt with the same learned parameters; only the code differs."""
    import punkt
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    model, parameters = punkt.load_model("english"), PunktParameters()
    parameters.abbrev_types = set(model.abbrev_types)
    parameters.collocations = set(model.collocations)
    parameters.sent_starters = set(model.sent_starters)
    parameters.ortho_context.update({word: int(flags) for word, flags in model.ortho_context.items()})
    oracle = PunktSentenceTokenizer()
    oracle._params = parameters
    return oracle


@pytest.mark.parametrize("text", SENTENCES)
def test_sentences_are_those_of_nltk(text):
    assert split(text, "punkt") == nltk_punkt().tokenize(text)


def test_sentences_of_invented_paragraphs_are_those_of_nltk():
    oracle = nltk_punkt()
    for start in range(len(SENTENCES)):
        text = " ".join(SENTENCES[start:] + SENTENCES[:start])
        assert split(text, "punkt") == oracle.tokenize(text)


def test_marks_in_a_row_stay_together_unlike_in_nltk():
    assert nltk_punkt().tokenize("You too??") == ["You too?", "?"]
    assert split("You too??", "punkt") == ["You too??"]
    assert split("Wow!!! So good!!") == ["Wow!!!", "So good!!"]


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("Hey, how are you?", ["Hey", " how are you?"]),
        ("Im ok,just up, you?", ["Im ok", "just up", " you?"]),
        ("Is it?, I wonder", ["Is it?", " I wonder"]),
        ("Hey , how are you ?", ["Hey", " how are you ?"]),
        ("That's it,", ["That's it"]),
        (", so what", [" so what"]),
        ("a,, b", ["a", " b"]),
        ("I paid 1,000, or 1,500,000.", ["I paid 1,000", " or 1,500,000."]),
        ("In 1990, 3 of us", ["In 1990", " 3 of us"]),
        ("Since 5,so", ["Since 5", "so"]),
        ("One. Two, three.", ["One.", "Two", " three."]),
        ("...", ["..."]),
        ("?!", ["?!"]),
        ("👋, 🙂", ["👋", " 🙂"]),
        ("", []),
        (" \n\t", []),
        (",,, ,", []),
        ("привет, как дела?", ["привет", " как дела?"]),
    ],
)
def test_sentences_are_cut_at_commas(text, segments):
    assert split(text) == split(text, DEFAULT_SPLITTER) == segments


def test_a_splitter_that_is_not_known_is_refused():
    with pytest.raises(UsageError, match=r"unknown splitter 'comma'; known: punkt, punkt\+comma"):
        split("Hi", "comma")


def told(text):
    return [sign for sign in text if sign.isalnum()]


texts = st.one_of(st.text(), st.text(alphabet="aB1. ,?!\"')\n…-", max_size=60))


@given(texts, st.sampled_from(SPLITTERS))
def test_no_letter_or_digit_is_lost_or_moved(text, how):
    segments = split(text, how)
    assert told("".join(segments)) == told(text)
    assert all(segment.strip() for segment in segments)
    assert [segment.rstrip() for segment in segments] == segments


@given(texts)
def test_what_was_cut_at_commas_has_none_left_but_in_numbers(text):
    for segment in split(text):
        for place, sign in enumerate(segment):
            if sign == ",":
                assert segment[place - 1].isdigit()
                assert segment[place + 1].isdigit()


@pytest.mark.parametrize("unit", [",", ", ", "a,", "1,", ".", "x", " ", "?!", "你好。", '"', "word ", "a.b."])
@pytest.mark.parametrize("how", SPLITTERS)
def test_a_megabyte_without_sentences_is_quick(unit, how):
    text = unit * (1_000_000 // len(unit))
    start = time.process_time()
    segments = split(text, how)
    assert time.process_time() - start < 20
    assert told("".join(segments)) == told(text)


def test_time_grows_with_the_length_of_the_text():
    def seconds(count):
        start = time.process_time()
        assert len(split("It is so. Is it? " * count)) == 2 * count
        return time.process_time() - start

    split("warm up")
    short = min(seconds(500) for _ in range(3))
    assert min(seconds(4000) for _ in range(2)) < 8 * 4 * short


def test_the_library_is_loaded_when_it_is_used():
    code = (
        "import sys, dialeval.dialogues.segments as s; assert 'punkt' not in sys.modules; "
        "s.split('Hi.'); assert 'punkt' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_published_segments_come_out_again(data_folder):
    """Joined again, commas put back, the published utterances are cut as their authors cut them."""
    path = data_folder / "controllable_dialogue" / "controllable_dialogue.json"
    if not path.is_file():
        pytest.skip("Controllable Dialogue is not there")
    utterances = {}
    for segment in json.loads(path.read_text()):
        name, number = segment["index"].rsplit("_", 1)
        utterances.setdefault(name, {})[int(number)] = segment["fs_text"] or ""
    same = total = 0
    for places in utterances.values():
        published = [text for _, text in sorted(places.items())]
        whole = published[0]
        for text in published[1:]:  # a sentence ends with a mark and the next begins without a blank
            whole += f" {text}" if whole[-1:] in ".?!" and text[:1].isalnum() else f",{text}"
        total += 1
        same += split(whole) == published
    assert same >= total - 2
