"""Coherence of replies: what is asked, what cannot be, the same features in training and scoring, recipes."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from dialeval.dialogues import Dialogue, Turn, dialogue
from dialeval.dialogues.delexicalisation import delexicalised
from dialeval.errors import DataError, UsageError
from dialeval.jobs.demo import example_dialogues
from dialeval.metrics.dialoguescore import DialogueScore, OpenCoherence
from dialeval.models.coherence import (
    DIRECTIONS,
    FIGURES,
    HEAD,
    HISTORIES,
    PLACES,
    CoherenceScorer,
    described,
    window_arrays,
    window_features,
    windows,
)
from dialeval.models.turn_vectors import turn_vectors
from dialeval.training.coherence_recipe import open_recipe, recipe

TOYS = Path(__file__).parents[1] / "training"


def chat(turns: int, name: str = "d") -> Dialogue:
    said = ["I need a taxi to the station.", "Where shall it pick you up?", "At the museum.", "At what time?"]
    texts = [said[number % 4] if number < 4 else f"{said[number % 4]} ({number})" for number in range(turns)]
    return dialogue([(("user", "assistant")[n % 2], text) for n, text in enumerate(texts)], name)


def found(made: object, one: Dialogue) -> dict[tuple[int | None, str], tuple[float | None, str | None]]:
    return {(row.turn, row.dimension): (row.value, row.note) for row in made.score([one])}  # type: ignore[attr-defined]


def test_a_last_reply_has_no_ru_and_says_why() -> None:
    rows = found(DialogueScore(), chat(4))
    for name in ("ru", *(f"ru{history}" for history in HISTORIES)):
        assert rows[3, name] == (None, "no follow-up turn")
        assert rows[1, name][0] is not None
    assert all(rows[turn, "ur"][0] is not None for turn in (1, 3))
    assert found(OpenCoherence(), chat(4))[3, "ru"] == (None, "no follow-up turn")


def test_silence_is_not_scored() -> None:
    first = dialogue([("user", " "), ("assistant", "Hello"), ("user", "Hi")], "first")
    assert found(DialogueScore(), first)[1, "ur0"] == (None, "nothing said before it")
    empty = dialogue([("user", "Hi"), ("assistant", " "), ("user", "Well?")], "empty")
    rows = found(DialogueScore(), empty)
    assert rows[1, "ur"] == rows[1, "ru3"] == (None, "empty reply")
    assert rows[None, "ur"] == (None, "no reply to score")


def test_what_history_there_is_is_used_and_noted() -> None:
    rows = found(DialogueScore(), chat(12))
    assert rows[1, "ur0"][1] is None
    assert rows[1, "ur4"] == (rows[1, "ur0"][0], "exchanges of history: 0, not 4")
    assert rows[5, "ur2"][1] is None
    assert rows[5, "ru3"] == (rows[5, "ru2"][0], "exchanges of history: 2, not 3")
    assert [rows[9, name][1] for name in (*FIGURES, "ur", "ru")] == [None] * 12
    for turn in (1, 5, 9):
        for direction in DIRECTIONS:
            each = [rows[turn, f"{direction}{history}"][0] for history in HISTORIES]
            assert rows[turn, direction][0] == pytest.approx(np.mean(each))  # type: ignore[arg-type]
    assert len({rows[9, f"ur{history}"][0] for history in HISTORIES}) == len(HISTORIES)


def test_only_so_much_history_matters() -> None:
    """`ur1` sees the answered turn and one exchange; what is said earlier changes nothing."""
    one = chat(8)
    changed = dialogue([Turn("user", "Bananas are yellow."), *one.turns[1:]], "d")
    before, after = found(DialogueScore(), one), found(DialogueScore(), changed)
    for name in ("ur0", "ur1", "ur2", "ru0", "ru1", "ru2"):
        assert before[7, name] == (pytest.approx(after[7, name][0], abs=1e-6), after[7, name][1])
    assert before[7, "ur3"] != after[7, "ur3"]
    assert before[5, "ru2"] != after[5, "ru2"]
    assert before[5, "ru1"][0] == pytest.approx(after[5, "ru1"][0], abs=1e-6)


def test_windows_follow_what_was_said() -> None:
    turns = [
        ("user", "a"),
        ("tool", "x"),
        ("assistant", "b"),
        ("assistant", "c"),
        ("user", ""),
        ("user", "d"),
    ]
    one = dialogue(turns)  # type: ignore[arg-type]
    spoken = [True, False, True, True, False, True]
    first, second = windows(one, spoken, [2, 3])
    assert (first["ur"].turns, first["ru"].turns) == ((2, 0), (5, 2, 0))
    assert (second["ur"].turns, second["ru"].turns) == ((3, 2, 0), (5, 3, 2, 0))
    assert windows(one, spoken, [0, 4]) == [{}, {}]
    long = windows(chat(40), [True] * 40, [21])[0]
    assert {len(window.turns) for window in long.values()} == {PLACES}
    assert [window.histories for window in long.values()] == [4, 4]


def test_scoring_reads_what_training_reads() -> None:
    """The features of a true example are, row by row, those that the scorer makes of the same reply."""
    from dialeval.training.coherence_recipe import Contrasts, PreparedWindows, window_examples

    chats = [chat(10, "one"), *example_dialogues()[:5]]
    for bare in (0.0, 1.0):
        for history in (0, 3):
            figures = tuple(f"{direction}{history}" for direction in DIRECTIONS)
            made = window_examples(Contrasts(("random",), bare, figures=figures), chats)
            examples = [one for one in made if one.targets[HEAD.name] == 1]
            learned = PreparedWindows(examples).features(np.arange(len(examples)))
            read = [delexicalised(one) for one in chats] if bare else chats
            scorer, rows = CoherenceScorer.load(DialogueScore().model), []
            for vectors in turn_vectors(scorer.encoder, read):
                turns = [
                    n for n, turn in enumerate(vectors.dialogue.turns) if n and turn.speaker == "assistant"
                ]
                read_vectors = described(vectors.vectors, [turn.text for turn in vectors.dialogue.turns])
                for asked in windows(vectors.dialogue, vectors.spoken, turns):
                    for direction, window in asked.items():
                        if history <= window.histories:
                            places = window_arrays([(window.cut(history), direction, history)])[0]
                            told = np.array([DIRECTIONS.index(direction)]), np.array([history])
                            rows.append(window_features(read_vectors, places, *told)[0])
            assert len(rows) == len(examples) > 5
            np.testing.assert_allclose(np.array(rows), learned, atol=1e-5)


def test_a_reply_looks_the_same_to_both_questions() -> None:
    """When `ru` is asked, the turn after the reply is added: nothing that `ur` sees moves elsewhere."""
    vectors = described(np.eye(4, 384, dtype=np.float32), ["Next?", "A reply.", "A taxi?", "Hello."])
    places, direction, history = window_arrays([((0, 1, 2, 3), "ru", 0), ((1, 2, 3), "ur", 0)])
    ru, ur = window_features(vectors, places, direction, history)
    assert ur[:384].tolist() == [0.0] * 384
    assert np.flatnonzero(ru[:384]).tolist() == [0]
    np.testing.assert_array_equal(ur[384 : 8 * 384], ru[384 : 8 * 384])


def test_ten_figures_together_are_those_of_their_windows_alone() -> None:
    scorer, one = CoherenceScorer.load(DialogueScore().model), chat(12)
    (encoded,) = turn_vectors(scorer.encoder, [one])
    vectors = described(encoded.vectors, [turn.text for turn in one.turns])
    compared = 0
    for reply in scorer.score([one])[0]:
        (asked,) = windows(one, encoded.spoken, [reply.turn])
        for direction, window in asked.items():
            for history, value in reply.values[direction].items():
                row = window_features(vectors, *window_arrays([(window.cut(history), direction, history)]))
                assert value == pytest.approx(float(scorer._head.answers(row)[HEAD.name][0]), abs=1e-6)
                compared += 1
    assert compared > 20


def test_one_figure_alone_is_the_same() -> None:
    scorer = CoherenceScorer.load(DialogueScore().model)
    every, alone = scorer.score([chat(12)])[0], scorer.score([chat(12)], asked=[("ur", 2)])[0]
    told = [one.values["ur"][2] for one in alone if one.values["ur"]]
    assert [one.values["ur"][2] for one in every if 2 in one.values["ur"]] == pytest.approx(told)
    assert all(set(one.values["ur"]) <= {2} and not one.values["ru"] for one in alone[:-1])


def test_delexicalised_replies_are_judged_alike() -> None:
    user = [("user", "A cheap hotel in the north?"), ("user", "Book it for 2 people.")]
    plain = dialogue([user[0], ("assistant", "Acorn House has 4 stars."), user[1]], "a")
    marked = dialogue([user[0], ("assistant", "[hotel_name] has [value_count] stars ."), user[1]], "a")
    named = Turn("assistant", plain.turns[1].text, {"acts": {"Hotel-Inform": [["Name", "Acorn House"]]}})
    annotated = dialogue([plain.turns[0], named, plain.turns[2]], "a")
    made = DialogueScore(delexicalise=True)
    assert found(made, marked) == found(made, annotated)
    assert found(DialogueScore(), marked) != found(DialogueScore(), annotated)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"negatives": "session+odd"}, "no negatives 'odd'"),
        ({"figure": "ur9"}, "no figure 'ur9'"),
        ({"figure": "ur1+ur9"}, "no figure 'ur9'"),
        ({"figure": "ur1"}, "for --encoder"),
        ({"bare": "2"}, "no share"),
        ({"bare": "x"}, "no share"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        recipe(**options)  # type: ignore[arg-type]


def test_cases_are_balanced_and_come_again() -> None:
    from dialeval.training.coherence_recipe import Contrasts

    chats = example_dialogues()[:12]
    twice = list(Contrasts(("session", "session")).cases(chats))
    assert len({case.texts for case in twice}) > len({c.texts for c in Contrasts(("session",)).cases(chats)})
    for kinds in (("session",), ("session", "topic", "random")):
        cases = list(Contrasts(kinds, 0.5).cases(chats))
        assert sum(case.true for case in cases) * 2 == len(cases) > 40
        assert cases == list(Contrasts(kinds, 0.5).cases(chats))
        for true, false in zip(cases[::2], cases[1::2], strict=True):
            place = 0 if true.direction == "ur" else 1  # the reply; all else is the same
            assert true.texts[place] != false.texts[place]
            assert [*true.texts[:place], *true.texts[place + 1 :]] == [
                *false.texts[:place],
                *false.texts[place + 1 :],
            ]
            assert (true.direction, true.history, true.true, false.true) == (*false[1:3], True, False)


@pytest.mark.parametrize(("make", "metric"), [(recipe, DialogueScore), (open_recipe, OpenCoherence)])
def test_a_head_learns_from_a_few_dialogues(make: object, metric: type, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from dialeval.training import Provenance, TrainingSettings, train

    chats = example_dialogues()
    settings = TrainingSettings(batch=64, learning_rate=1e-3, epochs=6, threads=1)
    made = make(negatives="session")  # type: ignore[operator]
    learned = train(
        made, chats[:45], tmp_path / "s", Provenance("mit", "a test"), dev=chats[45:], settings=settings
    )
    assert learned.trained.best_figure is not None
    assert learned.trained.best_figure > 0.55
    config = json.loads((tmp_path / "s" / "config.json").read_text())
    assert (config["class"], config["negatives"]) == ("coherence.v2", ["session"])
    own, shipped = found(metric(model=str(tmp_path / "s")), chats[0]), found(metric(), chats[0])
    assert own.keys() == shipped.keys()
    assert own != shipped


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    sys.path.insert(0, str(TOYS))
    import toy_training

    return toy_training.make_encoder(tmp_path_factory.mktemp("toy") / "encoder")


def test_the_papers_way_one_cross_encoder_or_ten(encoder: Path, tmp_path: Path) -> None:
    from dialeval.training import Provenance, TrainingSettings, train

    chats = [chat(20, f"c{number}") for number in range(6)]
    settings = TrainingSettings(batch=16, epochs=1, max_length=32, threads=1)
    told = Provenance("mit", "a test")
    one = recipe(str(encoder), negatives="session")
    assert (one.settings.batch, one.settings.learning_rate, one.settings.epochs) == (64, 2e-5, 3)
    train(one, chats[:4], tmp_path / "one", told, dev=chats[4:], settings=settings)
    heads = json.loads((tmp_path / "one" / "config.json").read_text())["heads"]
    assert [head["name"] for head in heads] == list(FIGURES)
    rows = found(DialogueScore(model=str(tmp_path / "one")), chats[0])
    assert rows[11, "ur4"][0] is not None
    assert rows[19, "ru0"] == (None, "no follow-up turn")
    for figure in FIGURES[:2]:
        single = recipe(str(encoder), negatives="session", figure=figure)
        train(single, chats[:4], tmp_path / "ten" / figure, told, dev=chats[4:], settings=settings)
    for figure in FIGURES[2:]:  # the others stand in, to save time
        (tmp_path / "ten" / figure).symlink_to(tmp_path / "one")
    ten = found(DialogueScore(model=str(tmp_path / "ten")), chats[0])
    assert ten.keys() == rows.keys()
    assert ten[11, "ur3"][0] == pytest.approx(rows[11, "ur3"][0])
    assert ten[11, "ur1"][0] != rows[11, "ur1"][0]


def test_a_scorer_for_some_figures_is_used_for_those(encoder: Path, tmp_path: Path) -> None:
    from dialeval.training import Provenance, TrainingSettings, train

    chats = [chat(20, f"c{number}") for number in range(6)]
    settings = TrainingSettings(batch=16, epochs=1, max_length=32, threads=1, precision="bf16")
    some = recipe(str(encoder), negatives="session", figure="ru0+ru2")
    learned = train(
        some, chats[:4], tmp_path / "some", Provenance("mit", "a test"), dev=chats[4:], settings=settings
    )
    assert learned.artefact.config["training"]["settings"]["precision"] == "bf16"
    rows = found(DialogueScore(model=str(tmp_path / "some")), chats[0])
    assert rows[11, "ru0"][0] is not None
    assert rows[11, "ru2"][0] is not None
    lacking = (None, "the model has ru0, ru2 only")
    assert {rows[place, name] for place in (11, None) for name in ("ru", "ru1", "ru3", "ur", "ur0")} == {
        lacking
    }
    assert rows[1, "ru2"] == (rows[1, "ru0"][0], "exchanges of history: 0, not 2")
    assert rows[3, "ru2"] == (None, "exchanges of history: 1, not 2")  # which only ru1 could read
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "ru2").symlink_to(tmp_path / "some")
    alone = found(DialogueScore(model=str(tmp_path / "folder")), chats[0])
    assert alone[11, "ru2"] == rows[11, "ru2"]
    assert alone[11, "ru0"] == (None, "the model has ru2 only")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "ur1").symlink_to(tmp_path / "some")
    with pytest.raises(DataError, match="has no head 'ur1'"):
        DialogueScore(model=str(tmp_path / "other")).score([chats[0]])


def test_a_model_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected a coherence scorer"):
        DialogueScore(model="dialeval-user-reaction").score([chat(4)])
