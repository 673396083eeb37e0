"""A recipe from dialogues to an artefact: what is left out, what is held out, what is made."""

import dataclasses
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
import toy_training as toy

from dialeval.dialogues import Dialogue, dialogue, scored_turns
from dialeval.dialogues.splits import bucket
from dialeval.errors import DataError
from dialeval.models.card import Card
from dialeval.models.conversion import encoder_artefact
from dialeval.models.dialogue_scorer import DialogueScorer
from dialeval.models.pairs import PairScorer
from dialeval.training import (
    Head,
    PairExample,
    Provenance,
    VectorExample,
    pair_recipe,
    predict,
    train,
    turn_recipe,
    vector_recipe,
)
from dialeval.training.checkpoint import Checkpoints, State

pytest.importorskip("torch")
pytest.importorskip("transformers")
TOLD = Provenance("mit", "python toy.py", data=[("toy", "mit", "invented")])
HEADS = (Head("quality", "binary"),)


def pairs(dialogues: Iterable[Dialogue]) -> Iterator[PairExample]:
    for chat in dialogues:
        for turn in scored_turns(chat):
            history = tuple(before.text for before in chat.turns[:turn])
            yield PairExample(history, chat.turns[turn].text, {"quality": chat.meta["good"]})


def lengths(dialogues: Iterable[Dialogue]) -> Iterator[VectorExample]:
    for chat in dialogues:
        sizes = [len(turn.text) for turn in chat.turns]
        yield VectorExample(np.array([np.mean(sizes), np.max(sizes)]), {"quality": chat.meta["good"]})


VECTORS = vector_recipe(
    "toy-lengths", HEADS, lengths, "accuracy", hidden=(8,), fields={"features": "lengths"}
)


def chats(count: int) -> list[Dialogue]:
    made = []
    for number in range(count):
        good = number % 2
        replies = toy.GOOD if good else toy.BAD
        said = [toy.ASKED[number % 4], replies[number % 4], toy.ASKED[number % 3], replies[number // 7 % 4]]
        turns = [("user" if place % 2 == 0 else "assistant", text) for place, text in enumerate(said)]
        made.append(dialogue(turns, f"chat-{number}", meta={"good": good}))
    return made


def test_pairs_from_dialogues_to_scores(home: Path, tmp_path: Path) -> None:
    steps, known = [], chats(80)
    settings = dataclasses.replace(toy.SETTINGS["pair"], epochs=2)
    recipe = pair_recipe("toy", HEADS, pairs, "accuracy", settings, home / "encoder")
    made = train(recipe, known, tmp_path / "scorer", TOLD, on_step=steps.append)
    held = sum(bucket(chat.id) == 0 for chat in known)
    assert 0 < held < 20
    assert (made.trained.train_rows, made.trained.dev_rows) == (2 * (80 - held), 2 * held)
    assert made.trained.best_figure is not None
    assert made.trained.best_figure > 0.8
    assert len(steps) == made.trained.steps
    scores = PairScorer(made.artefact, threads=1).score(
        [(["thank you very much"], "glad to help you"), (["thank you very much"], "banana")]
    )
    assert scores.values["quality"][0] > scores.values["quality"][1]
    again = train(recipe, known, tmp_path / "scorer", TOLD)
    assert again.trained.resumed_at == made.trained.steps
    assert again.artefact.sha == made.artefact.sha


def test_test_dialogues_are_left_out(tmp_path: Path) -> None:
    known = chats(80)
    unseen = [dialogue([(turn.speaker, turn.text.upper() + "!") for turn in known[3].turns])]
    without = train(VECTORS, known, tmp_path / "one", TOLD, unseen=unseen)
    same = sum([turn.text for turn in chat.turns] == [turn.text for turn in known[3].turns] for chat in known)
    assert without.dropped >= same >= 1
    everything = train(VECTORS, known, tmp_path / "other", TOLD)
    assert everything.dropped == 0
    rows = [made.trained.train_rows + made.trained.dev_rows for made in (without, everything)]
    assert rows[1] - rows[0] == without.dropped
    assert f"| left out as test data | {without.dropped} |" in (tmp_path / "one" / "README.md").read_text()


def test_vectors_from_dialogues_to_an_artefact(tmp_path: Path) -> None:
    known = chats(100)
    made = train(VECTORS, known[:80], tmp_path / "head", TOLD, dev=known[80:])
    assert (made.trained.train_rows, made.trained.dev_rows) == (80, 20)
    config = json.loads((made.artefact.folder / "config.json").read_text())
    assert config["features"] == "lengths"
    assert (config["hidden"], config["activation"], config["inputs"]) == ([8], "relu", 2)


def test_turn_vectors_from_dialogues_to_scores(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole path of a dialogue scorer, with an encoder of our own in the user's folder."""
    monkeypatch.setenv("DIALEVAL_HOME", str(tmp_path))
    card = Card("Tiny", "A toy.", licence="mit", command="none")
    encoder_artefact(home / "encoder", tmp_path / "models" / "tiny", name="tiny", card=card)
    known = chats(80)
    recipe = turn_recipe(
        "toy-turns",
        HEADS,
        lambda chat, turn: {"quality": chat.meta["good"]} if turn > 1 else None,
        ["reply", "reply*user", "similarities", "lengths"],
        "accuracy",
        settings=dataclasses.replace(toy.SETTINGS["vector"], epochs=15),
        encoder="tiny",
    )
    made = train(recipe, known, tmp_path / "scorer", TOLD)
    assert made.trained.train_rows + made.trained.dev_rows == 80  # the first reply of each has no label
    assert made.trained.best_figure is not None
    assert made.trained.best_figure > 0.9
    examples = list(recipe.examples(known))
    network = recipe.network([examples[0]], recipe.settings)
    Checkpoints(tmp_path / "scorer.training").load_best(
        State(best=1.0, best_step=made.trained.best_step), network.module
    )
    expected = predict(network, examples)["quality"]
    found = [scored.values["quality"][1] for scored in DialogueScorer(made.artefact).score(known)]
    assert np.abs(expected - found).max() <= 1e-4


def test_too_few_dialogues_are_refused(tmp_path: Path) -> None:
    few = [chat for chat in chats(20) if bucket(chat.id)]
    with pytest.raises(DataError, match="of 18 dialogues none is left for the dev set"):
        train(VECTORS, few, tmp_path / "head", TOLD)
    with pytest.raises(DataError, match="of 18 dialogues none is left for the training set"):
        train(VECTORS, [], tmp_path / "head", TOLD, dev=few)
    assert not list(tmp_path.iterdir())


def test_a_target_that_could_not_be_written_is_refused_first(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    for target in (tmp_path / "mine", tmp_path / "mine" / "thesis.txt"):
        with pytest.raises(DataError, match="is not an artefact"):
            train(VECTORS, chats(40), target, TOLD)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "all of it"
