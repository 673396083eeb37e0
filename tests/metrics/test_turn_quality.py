"""Turn quality: what it may see, what it learns from, and logs that say nothing."""

from pathlib import Path

import pytest

from dialeval.dialogues import Turn, dialogue
from dialeval.dialogues.dialogue import Dialogue
from dialeval.dialogues.formats import write
from dialeval.errors import DataError, UsageError
from dialeval.jobs.training import train_to
from dialeval.metrics.turn_quality import TurnQuality, said_before
from dialeval.training.registry import recipe
from dialeval.training.turn_quality_recipe import GOING_ON, TAKING_UP, turn_targets

CHAT = [
    ("user", "Do you like jazz?"),
    ("assistant", "I do, above all the piano players. And you?"),
    ("user", "Me too!"),
    ("assistant", "The bus leaves at nine."),
    ("user", "What are you talking about?"),
]


def scores(made: TurnQuality, *chats: Dialogue) -> dict[tuple[str, int | None], float | str | None]:
    return {
        (row.dialogue_id, row.turn): row.note if row.value is None else row.value for row in made.score(chats)
    }


def test_what_fits_is_better_than_what_does_not() -> None:
    found = scores(TurnQuality(), dialogue(CHAT, "d"))
    assert found["d", 1] > found["d", 3]
    assert found["d", None] == pytest.approx((found["d", 1] + found["d", 3]) / 2)


def test_it_never_sees_what_came_after() -> None:
    whole, cut = scores(TurnQuality(), dialogue(CHAT, "d")), scores(TurnQuality(), dialogue(CHAT[:2], "d"))
    other = scores(TurnQuality(), dialogue([*CHAT[:2], ("user", "I hate you, stop!")], "d"))
    assert cut["d", 1] == other["d", 1] == pytest.approx(whole["d", 1], abs=1e-6)


@pytest.mark.parametrize(("how", "wanted"), [("min", 3), ("last", 3)])
def test_turns_become_a_dialogue_as_asked(how: str, wanted: int) -> None:
    found = scores(TurnQuality(aggregate=how), dialogue(CHAT, "d"))
    assert found["d", None] == found["d", wanted]


def test_logs_that_say_little() -> None:
    chats = [
        dialogue([("user", "Hello?"), ("user", "Anybody?")], "one side"),
        dialogue([("user", "Wie komme ich zum Bahnhof?"), ("assistant", "Gleich links.")], "other language"),
        dialogue([("user", "Hi"), ("assistant", " ")], "blank"),
        Dialogue("nothing", ()),
        Dialogue("roles", (Turn("", "Hi there"), Turn("", "Hello, how are you?"))),
    ]
    found = scores(TurnQuality(), *chats)
    assert str(found["other language", 1]).startswith("language de: its models know en")
    assert found["blank", 1] == "empty reply"
    assert found["nothing", None] == found["blank", None] == "no reply to score"
    assert all(value is not None for value in found.values())


def targets(name: str, chat: Dialogue) -> dict[int, float]:
    return {turn: value for (_, turn), value in turn_targets([chat], name).items()}


def test_a_sentiment_in_the_log_comes_before_ours() -> None:
    chat = Dialogue(
        "d",
        (
            Turn("user", "Hi"),
            Turn("assistant", "Hello!"),
            Turn("user", "Stop it.", {"sentiment": 1.5}),
            Turn("assistant", "Bye."),
            Turn("user", "bye", {"sentiment": -2}),
        ),
    )
    assert targets("sentiment", chat) == {1: 1.5, 3: -2.0}
    assert targets("sentiment+stop", chat) == {
        1: 1.5,
        3: -2.0,
    }  # "stop it" ends it, and so does the last turn


def test_the_three_signals_add_up() -> None:
    chat = dialogue(CHAT, "d")
    mood, stop, all_three = (
        targets(name, chat) for name in ("sentiment", "sentiment+stop", "sentiment+stop+uptake")
    )
    assert set(mood) == set(stop) == set(all_three) == {1, 3}
    assert stop[1] - mood[1] == 1
    assert stop[3] == mood[3]
    assert -TAKING_UP <= all_three[1] - mood[1] - GOING_ON <= TAKING_UP
    both = targets("stop+uptake", chat)
    assert both == pytest.approx({turn: all_three[turn] - mood[turn] for turn in mood})


def test_labels_are_read_from_the_reply() -> None:
    chat = Dialogue("d", (Turn("user", "Hi"), Turn("assistant", "Hello!", {"label": 1}), Turn("user", "ok")))
    assert targets("label", chat) == {1: 1.0}


def test_the_settings_of_the_paper_under_their_names() -> None:
    labels = ({"label": 0.5}, {"label": 0.2})
    chat = Dialogue(
        "d",
        (
            Turn("user", "Hi"),
            Turn("assistant", "Hello!", labels[0]),
            Turn("user", "ok", {"sentiment": -1.0}),
            Turn("assistant", "Blue.", labels[1]),
            Turn("user", "What?", {"sentiment": -2.0}),
        ),
    )
    assert targets("appropriate", chat) == {1: 1.0, 3: 0.0}
    classifier = recipe("turn-quality:target=appropriate", "some/encoder")
    chosen_by_people = recipe("turn-quality:target=sentiment,dev=label", "some/encoder")
    for made in (classifier, chosen_by_people):
        assert (made.settings.schedule, made.settings.batch, made.settings.epochs) == ("constant", 8, 10)
    assert classifier.dev_figure == "accuracy" and classifier.dev_examples is None
    assert chosen_by_people.dev_figure == "spearman" and chosen_by_people.dev_examples is not None
    asked = (chosen_by_people.examples, chosen_by_people.dev_examples, classifier.examples)
    learned = [[one.targets["quality"] for one in examples([chat])] for examples in asked]
    assert learned == [[-1.0, -2.0], [0.5, 0.2], [1.0, 0.0]]


def test_what_a_cross_encoder_is_given() -> None:
    assert said_before(dialogue(CHAT, "d"), 3) == tuple(text for _, text in CHAT[:3])


def test_unknown_targets_are_named() -> None:
    with pytest.raises(UsageError, match="no target 'mood'; known: sentiment, sentiment"):
        recipe("turn-quality:target=mood")


def log(place: Path, chats: list[Dialogue]) -> Path:
    write(chats, place)
    return place


def logs(liked: str, disliked: str) -> list[Dialogue]:
    """Make a log in which users thank for one kind of reply and complain about another."""
    found = []
    for number in range(60):
        good = number % 2 == 0
        turns = [
            ("user", f"Tell me something about number {number}."),
            ("assistant", f"{liked if good else disliked} Number {number}."),
            ("user", "Great, thanks a lot!" if good else "That makes no sense at all."),
            ("assistant", f"{liked if good else disliked} Again {number}."),
            ("user", "I love it!" if good else "You are useless."),
        ]
        found.append(dialogue(turns, f"chat-{number}"))
    return found


@pytest.mark.parametrize(
    "target",
    [
        *(pytest.param(one, marks=pytest.mark.soak) for one in ("sentiment", "sentiment+stop")),
        "sentiment+stop+uptake",
    ],
)
def test_a_log_without_labels_trains_a_scorer(tmp_path: Path, target: str) -> None:
    place = log(tmp_path / "log.jsonl", logs("Gladly, here is a fact.", "Bananas shout at trains."))
    told = train_to(f"turn-quality:target={target}", [str(place)], tmp_path / "mine")
    assert told["class"] == "dialogue-scorer.v1"
    assert told["dev"] > 0.5
    pair = [
        dialogue([("user", "Tell me more."), ("assistant", reply)], reply)
        for reply in ("Gladly, here is a fact. You see?", "Bananas shout at trains. Loudly.")
    ]
    good, bad = (
        row.value for row in TurnQuality(model=str(tmp_path / "mine")).score(pair) if row.turn is not None
    )
    assert good > bad
    card = (tmp_path / "mine" / "README.md").read_text()
    assert f"learned from {target}." in card


def test_an_empty_or_constant_target_leaves_no_artefact(tmp_path: Path) -> None:
    silent = [dialogue([("user", "Hi"), ("assistant", f"Hello {n}")], f"d{n}") for n in range(12)]
    with pytest.raises(DataError, match="finds no examples"):
        train_to("turn-quality", [str(log(tmp_path / "silent.jsonl", silent))], tmp_path / "mine")
    same = [
        Dialogue(
            f"d{n}",
            (
                Turn("user", "Hi"),
                Turn("assistant", f"Hello {n}"),
                Turn("user", "ok", {"sentiment": 1}),
            ),
        )
        for n in range(12)
    ]
    with pytest.raises(DataError, match="training examples have quality 1: there is nothing to learn from"):
        train_to(
            "turn-quality:target=sentiment", [str(log(tmp_path / "same.jsonl", same))], tmp_path / "mine"
        )
    assert not (tmp_path / "mine").exists()
