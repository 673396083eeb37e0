"""Negatives: each kind is what it says, draws are deterministic, and what is the same is no negative."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from dialeval.dialogues import Dialogue, Turn, dialogue
from dialeval.errors import UsageError
from dialeval.training.negatives import KINDS, Negatives, ReplyPlace, domains_of

CODE = """
from test_negatives import chats, draws
print(draws(chats(), 3))
"""


def chats() -> list[Dialogue]:
    """Three dialogues about hotels, three about taxis; acts and slots as MultiWOZ has them."""
    made = []
    for number in range(6):
        domain = "hotel" if number < 3 else "taxi"
        asked = {"state": {domain: {"area": f"area {number}"}}, "acts": {f"{domain}-Request": [["Day", "?"]]}}
        told = {
            "state": {domain: {"area": f"area {number}", "day": f"day {number}"}},
            "acts": {f"{domain}-Inform": [["Name", f"name {number}"]]},
        }
        turns = [
            Turn("user", f"A {domain}, number {number}, near the zoo.", {"domain": [domain]}),
            Turn("assistant", ("On which day?", "When is it?", "What day, please?")[number % 3], asked),
            Turn("user", f"day {number}"),
            Turn(
                "assistant", f"The {('best', 'next', 'usual')[number % 3]} {domain} is name {number}.", told
            ),
            Turn("user", "Thanks"),
            Turn("assistant", "Goodbye."),
        ]
        made.append(dialogue(turns, f"d{number}"))
    return made


def draws(dialogues: list[Dialogue], seed: int) -> list[ReplyPlace | None]:
    drawn = Negatives(dialogues, seed)
    return [drawn.draw(place, kind) for kind in KINDS for place in every(dialogues)]


def every(dialogues: list[Dialogue]) -> Iterator[ReplyPlace]:
    return (ReplyPlace(number, turn) for number in range(len(dialogues)) for turn in (1, 3, 5))


def test_each_kind_is_what_it_says() -> None:
    dialogues = chats()
    drawn = Negatives(dialogues)
    found = {(kind, place): drawn.draw(place, kind) for kind in KINDS for place in every(dialogues)}
    for (kind, place), other in found.items():
        if other is None:
            continue
        assert drawn.bare(other) != drawn.bare(place)
        if kind == "session":
            assert other.dialogue == place.dialogue
        else:
            assert other.dialogue != place.dialogue
        if kind in ("domain", "state"):
            assert (other.dialogue < 3) == (place.dialogue < 3)
            assert other.turn == place.turn
    assert all(found["session", place] for place in every(dialogues))
    for kind in ("domain", "state"):
        assert all(found[kind, place] for place in every(dialogues) if place.turn < 5)
        assert not any(found[kind, place] for place in every(dialogues) if place.turn == 5)
    assert all(found["random", place] for place in every(dialogues))


def test_a_seed_gives_the_same_draws_in_any_process() -> None:
    dialogues = chats()
    assert draws(dialogues, 3) == draws(dialogues, 3) != draws(dialogues, 4)
    folder = __file__.rpartition("/")[0]
    for seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join([folder, *sys.path])}
        done = subprocess.run(
            [sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == str(draws(dialogues, 3))


def test_count_tells_draws_apart() -> None:
    drawn = Negatives(chats())
    found = {drawn.draw(ReplyPlace(0, 1), "random", count) for count in range(20)}
    assert len(found) > 3


def test_what_is_the_same_without_its_values_is_no_negative() -> None:
    two = [
        dialogue([("user", "A taxi"), ("assistant", "It comes at 9."), ("user", "Ok")], "one"),
        dialogue([("user", "A taxi"), ("assistant", "It comes at 10:30!"), ("user", "Ok")], "two"),
    ]
    drawn = Negatives(two)
    assert [drawn.draw(ReplyPlace(0, 1), kind) for kind in KINDS] == [None] * len(KINDS)


def test_topics_of_the_meta_come_first() -> None:
    made = [
        dialogue([("A", f"hello {n}"), ("B", f"word{'abc'[n]} here")], f"d{n}", meta={"topic": "xyx"[n]})
        for n in range(3)
    ]
    assert {Negatives(made, seed).draw(ReplyPlace(0, 1), "topic") for seed in range(9)} == {ReplyPlace(2, 1)}


def test_domains_of_text_and_of_annotation() -> None:
    assert domains_of(dialogue([("user", "a train to Ely, and a museum"), ("assistant", "any hotel?")])) == {
        "train",
        "attraction",
    }
    assert domains_of(dialogue([Turn("user", "a train", {"domain": ["Buses_2"]})])) == {"buses"}
    assert domains_of(dialogue([Turn("user", "hello", {"domain": 3})])) == frozenset()
    assert domains_of(dialogue([("user", "is there free parking?")])) == frozenset()


def test_awkward_dialogues_and_kinds() -> None:
    assert Negatives([]).replies == []
    silent = dialogue([("user", "hi"), ("assistant", "  ")], "s")
    assert Negatives([silent]).replies == [[]]
    with pytest.raises(UsageError, match="unknown kind of negatives 'other'"):
        Negatives(chats()).draw(ReplyPlace(0, 1), "other")
