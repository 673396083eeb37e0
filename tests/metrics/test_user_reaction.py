"""The reaction of users: hand-written cases beside VADER, logs that know better, and awkward logs."""

import json
from pathlib import Path

import numpy as np
import pytest

from dialeval.dialogues import Turn, dialogue
from dialeval.dialogues.dialogue import Dialogue
from dialeval.errors import UsageError
from dialeval.metrics.user_reaction import UserReaction
from dialeval.models.reactions import REACTIONS, Exchange, Reactions, exchanges

CASES = [
    json.loads(line) for line in Path(__file__).with_name("reaction_cases.jsonl").read_text().splitlines()
]


def asked() -> list[Exchange]:
    return [Exchange(row["before"] or "", row["reply"], row["next"]) for row in CASES]


def balanced(found: np.ndarray) -> float:
    truth = np.array([row["label"] == "displeased" for row in CASES])
    return float((found[truth].mean() + (~found[~truth]).mean()) / 2)


def test_twenty_points_above_vader_on_hand_written_cases() -> None:
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    assert len(CASES) >= 150
    vader = SentimentIntensityAnalyzer()
    by_words = np.array([vader.polarity_scores(row["next"])["compound"] < 0 for row in CASES])
    ours = Reactions.load().shares(asked()).argmax(axis=1) == REACTIONS.index("displeased")
    assert balanced(ours) >= balanced(by_words) + 0.2


def test_cases_are_not_among_what_was_learned_from() -> None:
    from dialeval.dialogues import formats

    learned = formats.read(Path(__file__).parents[2] / "src/dialeval/dialogues/examples/reactions.jsonl")
    known = {(one.turns[-2].text.lower(), one.turns[-1].text.lower()) for one in learned}
    assert len(known) > 500
    assert not known & {(row["reply"].lower(), row["next"].lower()) for row in CASES}


def values(made: UserReaction, chat: Dialogue) -> dict[tuple[int | None, str], float | str | None]:
    return {
        (row.turn, row.dimension): row.note if row.value is None else row.value for row in made.score([chat])
    }


def test_the_sum_and_the_mean() -> None:
    chat = dialogue(
        [
            ("user", "Where is the station?"),
            ("assistant", "I like dogs."),
            ("user", "That's not what I asked."),
            ("assistant", "Down the road, then left."),
            ("user", "Great, thank you!"),
        ]
    )
    found = values(UserReaction(), chat)
    assert found[1, "sentiment"] < 0 < found[3, "sentiment"]  # type: ignore[operator]
    assert (found[1, "continue"], found[3, "continue"]) == (1, 0)
    for turn in (1, 3):
        assert found[turn, "quality"] == found[turn, "sentiment"] + found[turn, "continue"]  # type: ignore[operator]
    for how, wanted in (("mean", np.mean), ("min", np.min), ("last", lambda some: some[-1])):
        whole = values(UserReaction(aggregate=how), chat)[None, "quality"]  # type: ignore[arg-type]
        assert whole == pytest.approx(wanted([found[1, "quality"], found[3, "quality"]]))
    weighed = (3 * found[1, "quality"] + 5 * found[3, "quality"]) / 8  # type: ignore[operator]
    assert values(UserReaction(aggregate="length"), chat)[None, "quality"] == pytest.approx(weighed)


def test_a_log_that_knows_better() -> None:
    chat = dialogue(
        [
            Turn("user", "Hi"),
            Turn("assistant", "Hi."),
            Turn("user", "I hate this!", {"csat": 5}),
            Turn("assistant", "Oh."),
            Turn("user", "That is not what I asked.", {"csat": "?"}),
        ]
    )
    found = values(UserReaction(field="csat", low=1, high=5), chat)
    assert found[1, "sentiment"] == 3
    assert found[3, "sentiment"] < 0  # type: ignore[operator]
    with pytest.raises(UsageError, match="low=5"):
        UserReaction(field="csat", low=5, high=1).score([chat])


def test_awkward_logs() -> None:
    nobody = "no reply with a user turn after it"
    for turns, quality, whole in (
        ([("user", "Hi"), ("assistant", "Hi")], {1: "no user turn after it"}, nobody),
        ([("assistant", "Hi"), ("assistant", "Anybody?")], {1: "no user turn after it"}, nobody),
        ([("user", "Hi"), ("user", "Hello?")], {}, nobody),
        ([], {}, nobody),
    ):
        found = values(UserReaction(), dialogue(turns))  # type: ignore[arg-type]
        assert {turn: found[turn, "quality"] for turn, name in found if turn and name == "quality"} == quality
        assert found[None, "quality"] == whole
    people = dialogue(
        [("A", "Kommst du?"), ("B", "Ja, gern."), ("A", "Wie schön!"), ("B", "你好"), ("A", "…")]
    )
    found = values(UserReaction(), people)
    assert found.pop((4, "quality")) == found.pop((4, "sentiment")) == "no user turn after it"
    assert all(isinstance(value, float) for value in found.values())


def test_what_came_before_is_the_others() -> None:
    chat = dialogue([("user", "one"), ("assistant", "two"), ("assistant", "three"), ("user", "four")])
    assert exchanges(chat, [1, 2]) == {1: Exchange("one", "two", "four"), 2: Exchange("one", "three", "four")}
