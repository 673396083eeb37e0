"""Acts of other corpora as ours: a table with reasons, and what it makes of utterances of our own."""

import re
from typing import Any

import pytest

from dialeval.dialogues import Turn, dialogue
from dialeval.dialogues.acts import ACTS
from dialeval.training.segment_recipes import mapped, rules


def acts_of(turn: Turn) -> list[tuple[str, str | None]]:
    found = mapped(dialogue([turn])).turns[0].meta["segments"]
    return [(one["text"].strip(), one["act"]) for one in found]


def act_of(text: str, meta: dict[str, Any]) -> str | None:
    ((_, act),) = acts_of(Turn("A", text, meta))
    return act


def sgd(*kinds: str) -> dict[str, Any]:
    return {"acts": {"Events_2": [[kind, "", []] for kind in kinds]}}


def test_every_line_has_an_act_and_a_reason() -> None:
    assert {rule.act for rule in rules()} == set(ACTS)
    for rule in rules():
        assert len(rule.why) >= 7
        assert rule.why.endswith(".")
        assert rule.corpus in (None, "swda", "sgd", "dailydialog")
        assert rule.labels if rule.corpus else rule.phrase, "labels are a corpus' own; a phrase needs none"
        assert rule.only is not None or rule.labels, "a line that says nothing would take everything"
        assert 1 <= rule.words[0] <= rule.words[1]
        assert rule.only is None or isinstance(rule.only, re.Pattern)


@pytest.mark.parametrize(
    ("tag", "text", "act"),
    [
        ("sd", "My brother keeps bees.", "inform"),
        ("sv", "I think that is unfair", "inform"),
        ("sd", "Bees.", None),
        ("ny", "Yes.", "inform"),
        ("b", "Uh-huh.", "backchannel-success"),
        ("b", "Right.", "backchannel-success"),
        ("aa", "That's true.", "inform"),
        ("br", "Excuse me?", "backchannel-failure"),
        ("br", "What about the dog?", "backchannel-failure"),
        ("qy", "Do you fish?", "question"),
        ("qw", "How many cats have you got?", "question"),
        ("ad", "Go ahead and start", "directive"),
        ("oo_co_cc", "I will look for it", "commissive"),
        ("fp", "This is Marge.", "greeting"),
        ("sd", "How are you?", "greeting"),
        ("fc", "It was nice talking to you.", "goodbye"),
        ("fc", "Okay.", None),
        ("fa", "Excuse me.", "apology"),
        ("bd", "That's all right.", "apology"),
        ("^g", "You know?", "check-understanding"),
        ("ft", "Thanks a lot.", "thanking"),
        ("x", "Laughs a while", None),
        ("%", "It was uh", None),
    ],
)
def test_switchboard(tag: str, text: str, act: str | None) -> None:
    assert act_of(text, {"tag": tag}) == act


@pytest.mark.parametrize(
    ("kind", "text", "act"),
    [
        ("REQUEST", "What city are you in?", "question"),
        ("REQUEST", "Tell me the city", None),
        ("INFORM_INTENT", "Find me a dentist in Oslo.", "directive"),
        ("INFORM_INTENT", "My tooth hurts.", None),
        ("OFFER_INTENT", "Shall I book a table for you?", "commissive"),
        ("OFFER_INTENT", "Would you like a table?", None),
        ("THANK_YOU", "Okay thank you so much", "thanking"),
        ("THANK_YOU", "That is all.", None),
        ("GOODBYE", "Enjoy the evening!", "goodbye"),
        ("INFORM", "There are seats left in row four.", "inform"),
        ("OFFER", "How about the Blue Door?", None),
        ("AFFIRM", "Yes please do that.", None),
    ],
)
def test_schema_guided(kind: str, text: str, act: str | None) -> None:
    assert act_of(text, sgd(kind)) == act
    assert act_of(text, sgd(kind, kind)) == act
    assert act_of("We sail at noon on Friday.", sgd("INFORM", kind)) == (
        "inform" if kind == "INFORM" else None
    )


@pytest.mark.parametrize(
    ("label", "text", "act"),
    [
        ("question", "Where did you leave the keys?", "question"),
        ("question", "I wonder where the keys are.", None),
        ("directive", "Open the door.", "directive"),
        ("commissive", "I will open it.", "commissive"),
        ("commissive", "OK.", None),
        ("inform", "The keys are on the shelf.", "inform"),
        ("inform", "On the shelf.", None),
        ("inform", "Thank you very much.", "thanking"),
        ("inform", "Oh really?", "backchannel-success"),
        ("question", "Pardon?", "backchannel-failure"),
        ("question", "Do you follow me?", "check-understanding"),
        (None, "The keys are on the shelf.", None),
        (None, "See you tomorrow!", "goodbye"),
    ],
)
def test_dailydialog(label: str | None, text: str, act: str | None) -> None:
    assert act_of(text, {} if label is None else {"act": label}) == act


def test_a_label_goes_to_the_one_piece_that_tells() -> None:
    asked = Turn("A", "Well, you know, where did they put it?", {"tag": "qw"})
    assert acts_of(asked) == [("Well", None), ("you know", None), ("where did they put it?", "question")]
    both = Turn("A", "We went by train. It took nine hours.", {"act": "inform"})
    assert acts_of(both) == [("We went by train.", None), ("It took nine hours.", None)]
    thanks = Turn("A", "Thank you, I will open the window now.", {"act": "commissive"})
    assert acts_of(thanks)[0] == ("Thank you", "thanking")


def test_annotated_dialogues_stay_as_they_are_and_tools_have_no_acts() -> None:
    known = dialogue([Turn("A", "Hi.", {"tag": "sd", "segments": [{"text": "Hi.", "act": "inform"}]})])
    assert mapped(known) is known
    chat = dialogue([("system", "Thank you."), ("user", "Thank you."), ("user", "")])
    found = [turn.meta.get("segments") for turn in mapped(chat).turns]
    assert found == [None, [{"text": "Thank you.", "act": "thanking"}], []]
