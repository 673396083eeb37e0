"""Simulated users: their moves, their words, and a regression that they bring to light."""

from pathlib import Path
from typing import Any

import booking_bot
import numpy as np
import pytest
import shop_bot

import dialeval
from dialeval.dialogues import Turn, dialogue, formats
from dialeval.errors import DataError, UsageError
from dialeval.jobs.simulating import likeness, simulate
from dialeval.systems.external import Function
from dialeval.systems.users import Scenario, ScenarioFile, SimulatedUser, read_scenarios

MOODS = ("neutral", "friendly", "impatient", "terse", "chatty")


def scenarios(count: int = 50) -> str:
    """Half of the users have an order number of two digits, half of three."""
    lines = ["turns = 8"]
    for number in range(count):
        code = f"{'ABCDE'[number % 5]}{10 + number if number % 2 else 200 + number}"
        lines += [
            f"[scenario.user-{number:02}]",
            'goal = "cancel my order"',
            f'mood = "{MOODS[number % 5]}"',
            f'facts = {{ "order number" = "{code}" }}',
            'done = ["has been cancelled"]',
            f'expect.calls = [{{ name = "cancel_order", arguments = {{ order = "{code}" }} }}]',
        ]
    return "\n".join(lines)


@pytest.fixture
def users(tmp_path: Path) -> ScenarioFile:
    path = tmp_path / "scenarios.toml"
    path.write_text(scenarios())
    return read_scenarios(path)


def bot(function: Any = shop_bot.answer) -> Function:
    return Function("shop", function)


def test_a_planted_regression_is_found(users: ScenarioFile, tmp_path: Path) -> None:
    paths = []
    for name, function in (("old", shop_bot.answer), ("new", shop_bot.newer)):
        paths.append(tmp_path / f"{name}.jsonl")
        formats.write(simulate(users, bot(function)), paths[-1])
    found = dialeval.compare(*map(str, paths), metrics=["goal", "turns"], resamples=500)
    by_name = {one.label: one for one in found.columns}
    goal = next(one for label, one in by_name.items() if label.startswith("goal"))
    assert goal.verdict == "worse"
    assert (goal.old.value, goal.new.value) == (1.0, 0.5)
    same = dialeval.compare(*[str(paths[0])] * 2, names=("a", "b"), metrics=["goal"], resamples=500)
    assert {one.verdict for one in same.columns} == {"not told apart"}


def test_the_same_seed_gives_the_same_users(users: ScenarioFile) -> None:
    first, again, other = simulate(users, bot()), simulate(users, bot()), simulate(users, bot(), seed=1)
    assert first == again
    assert [one.id for one in first] == [one.id for one in other] == list(users.scenario)
    assert sum(a.turns != b.turns for a, b in zip(first, other, strict=True)) > 20
    twice = simulate(users, bot(), repeats=2)
    assert len({one.id for one in twice}) == 100


def test_moves_follow_what_is_heard() -> None:
    made = Scenario(
        "move house",
        done=("all moved",),
        facts={"name": "Ann", "street": "Mill Lane"},
        ask={"street": ("address",)},
        unknown=("zip",),
        then=("And the phone?",),
    )
    user = SimulatedUser("u", made)
    heard = [
        ((), "opening"),
        ("Please tell me your name and address.", "fact"),
        ("And the zip code?", "unknown"),
        ("Shall I go ahead?", "yes"),
        ("You are all moved.", "next"),
        ("Nice weather.", "repeat"),
    ]
    for text, move in heard:
        said = user.say((Turn("assistant", text),) if text else ())
        assert said[1] == move, text
    assert user.say((Turn("assistant", "What is your name?"),))[1] == "fact", "asked twice, borne"
    assert user.say((Turn("assistant", "What is your name?"),))[1] == "leaves", "asked a third time"


def test_facts_come_one_by_one_wishes_in_other_words_and_questions_at_the_end() -> None:
    made = Scenario(
        "move house",
        done=("all moved",),
        facts={"name": "Ann", "street": "Mill Lane"},
        reworded=("have my things taken elsewhere",),
        questions=("When will you come?", "What does it cost?"),
    )
    user = SimulatedUser("u", made)
    user.say(())
    both = (Turn("assistant", "What are your name and street?"),)
    first, second = (user.say(both)[0] for _ in range(2))
    assert "Ann" in first and "Mill Lane" not in first
    assert "Mill Lane" in second and "Ann" not in second
    beside = (Turn("assistant", "Nice weather."),)
    missed = [user.say(beside)[0] for _ in range(2)]
    assert "have my things taken elsewhere" in missed[0]
    assert missed[0] != missed[1]
    last = [user.say((Turn("assistant", text),)) for text in ("You are all moved.", "At six.", "Nothing.")]
    assert [move for _, move in last] == ["question", "question", "thanks"]
    assert [text for text, _ in last[:2]] == list(made.questions)


def test_guests_of_the_booking_bot_all_come_to_an_end(tmp_path: Path) -> None:
    path = tmp_path / "bookings.toml"
    path.write_text(booking_bot.scenarios())
    guests = read_scenarios(path)
    assert len(guests.scenario) == 50
    held = simulate(guests, bot(booking_bot.answer))
    assert {one.meta["end"] for one in held} == {"done"}
    assert held == simulate(guests, bot(booking_bot.answer))


def test_what_ends_a_conversation(users: ScenarioFile) -> None:
    def broken(messages: list[dict[str, str]]) -> str:
        raise RuntimeError("no")

    ends = {one.meta["end"] for one in simulate(users, bot(broken))}
    assert ends == {"system failed"}
    assert {one.meta["end"] for one in simulate(users, bot(lambda _: "Lovely weather."))} == {"gave up"}
    assert {one.meta["end"] for one in simulate(users, bot(lambda _: "Shall I?"), turns=3)} == {"turns"}
    with pytest.raises(UsageError):
        simulate(users, bot(), user="parrot")


def test_words_of_a_log(users: ScenarioFile, tmp_path: Path) -> None:
    log = [dialogue([("user", "Hi"), ("assistant", "Shall I cancel it?"), ("user", "Yep, do.")], "d1")]
    formats.write(log, tmp_path / "log.jsonl")
    found = simulate(users, bot(), user=f"retrieval:corpus={tmp_path / 'log.jsonl'}")
    assert all(any(turn.text == "Yep, do." for turn in one.turns) for one in found)
    assert {one.meta["end"] for one in found} == {"done"}


def test_words_of_a_model(users: ScenarioFile) -> None:
    from serving import serving

    with serving() as server:
        few = ScenarioFile(dict(list(users.scenario.items())[:2]), turns=4)
        found = simulate(few, bot(), user=server.at("echo"))
        assert server.count("echo") > 0
    assert [one.meta["user"] for one in found] == [server.at("echo")] * 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("scenario = 1", "not a file of scenarios"),
        ("[scenario]", "no scenario"),
        ('[scenario.a]\ngoal = "x"\nmood = "odd"', "no mood 'odd'"),
        ('[scenario.a]\ngoal = "x"\npatience = 0', "not a file of scenarios"),
        ('[scenario.a]\ngaol = "x"', "not a file of scenarios"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(DataError, match=words):
        read_scenarios(path)


def test_likeness_finds_a_difference_and_none(users: ScenarioFile) -> None:
    ours = simulate(users, bot())
    same = {one.figure: one for one in likeness(ours[:25], ours[25:])}
    assert all(one.p_holm is None or one.p_holm > 0.05 for one in same.values())
    long = [
        dialogue([("user", "word " * 40), ("assistant", "Yes?"), ("user", "word " * 40)], f"h{number}")
        for number in range(20)
    ]
    found = {one.figure: one for one in likeness(ours, long)}
    words = found["words in a turn"]
    assert words.human == 40 and words.simulated < 20
    assert words.p_holm is not None and words.p_holm < 0.01
    assert found["turns said before"].human == pytest.approx(0.5)
    assert np.isclose(sum(one.simulated for name, one in found.items() if name.startswith("act ")), 1)
