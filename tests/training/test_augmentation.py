"""Augmentation: people's dialogues with a faulty bot in the place of one of them, and users who react."""

from collections import Counter

import numpy as np
import pytest

from dialeval.dialogues import Dialogue, Turn, dialogue
from dialeval.training.negatives import draws_of
from dialeval.training.student_recipe import FAULTS, _Draft, _Pool, _reactions, augment


def people(count: int, turns: int = 8) -> list[Dialogue]:
    topics = ("jazz", "cats", "the weather", "our garden", "football")
    return [
        dialogue(
            [
                (
                    ("ann", "bob")[n % 2],
                    f"I like {topics[(number + n) % 5]}" + " very much" * (number % 4 + n % 3),
                )
                for n in range(turns)
            ],
            f"chat {number}",
        )
        for number in range(count)
    ]


def said(chat: Dialogue) -> list[str]:
    return [turn.text for turn in chat.turns]


def test_augmentation_is_the_same_every_time_and_leaves_its_input_alone() -> None:
    chats = people(40)
    before = [one.turns for one in chats]
    assert augment(chats) == augment(chats)
    assert [one.turns for one in chats] == before


def test_most_of_what_people_said_is_spoiled_and_some_stays() -> None:
    chats = people(200)
    own = {one.id: said(one) for one in chats}
    found = augment(chats)
    spoiled = [one for one in found if said(one) != own[one.id][: len(one.turns)]]
    assert 0.55 < len(spoiled) / len(found) < 0.8  # one that is drawn may be the same
    for one in found:
        scored = one.meta["scored"]
        assert 1 <= len(scored) <= 4
        assert scored[-1] == len(one.turns) - 1
        assert all(one.turns[place].speaker == "assistant" for place in scored)
        assert all(one.turns[place - 1].speaker == "user" for place in scored)


def test_some_users_complain_and_few_praise() -> None:
    texts = Counter(
        text for one in augment(people(300)) for text in said(one) if not text.startswith("I like")
    )
    reactions = _reactions()
    complaints = sum(count for text, count in texts.items() if text in reactions["displeased"])
    praise = sum(count for text, count in texts.items() if text in reactions["pleased"])
    assert complaints > 2 * praise > 0


def test_a_long_dialogue_is_read_no_further_than_it_must() -> None:
    assert max(len(one.turns) for one in augment(people(20, turns=60))) <= 16


def test_a_system_is_taken_as_it_is() -> None:
    chat = dialogue([("user", "Hi"), ("assistant", "Hello!"), ("user", "Well?"), ("assistant", "Yes?")], "d")
    (found,) = augment([chat])
    assert found.turns == chat.turns
    assert found.meta["scored"] == [1, 3]


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_says_something(fault: str) -> None:
    chats = [dialogue([("ann", f"Do you like {x}?"), ("bob", f"Yes, I like {x}.")] * 2, x) for x in "abc"]
    pool = _Pool.of({one.id: one.turns for one in chats})
    talk = _Draft("a", said(chats[0]), [1, 3], pool, draws_of(fault))
    assert FAULTS[fault](talk, 3).strip()
    assert talk.texts == said(chats[0])


def test_retrieval_takes_what_was_said_elsewhere_to_a_similar_turn() -> None:
    chats = [
        dialogue([("ann", "Do you like jazz music?"), ("bob", "No.")], "own"),
        dialogue([("ann", "Do you like jazz?"), ("bob", "I play the saxophone.")], "near"),
        dialogue([("ann", "Where is the station?"), ("bob", "Behind the church.")], "far"),
    ]
    pool = _Pool.of({one.id: one.turns for one in chats})
    alike = [
        float(pool.vectors["Do you like jazz music?"] @ pool.vectors[text])
        for text in ("Do you like jazz?", "Where is the station?")
    ]
    assert alike[0] > alike[1]
    drawn = {
        FAULTS["retrieved"](_Draft("own", said(chats[0]), [1], pool, draws_of(str(n))), 1) for n in range(9)
    }
    assert drawn == {"I play the saxophone.", "Behind the church."}  # never its own
    assert np.isclose(np.linalg.norm(pool.answered, axis=1), 1).all()


@pytest.mark.parametrize(
    "chat",
    [
        Dialogue("nothing", ()),
        Dialogue("one side", (Turn("user", "Hi"), Turn("user", "Anybody?"))),
        Dialogue("blank", (Turn("user", "Hi"), Turn("assistant", " "))),
        Dialogue("three", (Turn("a", "Hi"), Turn("b", "Hi"), Turn("c", "Hi"))),
        Dialogue("bot only first", (Turn("assistant", "Hi"), Turn("user", "Hi"))),
    ],
)
def test_what_is_no_conversation_of_two_is_passed_over(chat: Dialogue) -> None:
    assert augment([chat]) == []
