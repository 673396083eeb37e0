"""The recipe `actbert`: flows with hidden acts, trained with torch and read again without it."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from dialeval.dialogues import Dialogue, Turn, dialogue
from dialeval.dialogues.acts import ACTS
from dialeval.errors import UsageError
from dialeval.models.act_flows import BEGIN, END, FIRST, MASK, ActBert, Flow, flow_of, numbered
from dialeval.training import Provenance, Result, predict, train
from dialeval.training.actbert_recipe import TIMES, ActNetwork, FlowExample, mask_acts, recipe

PROVENANCE = Provenance("mit", "a test")


def chat(name: str, *acts: str) -> Dialogue:
    turns = [
        Turn("AB"[number % 2], "x", {"segments": [{"text": "x", "act": act}]})
        for number, act in enumerate(acts)
    ]
    return dialogue(turns, name)


def chats(count: int, seed: int = 0, most: int = 16) -> list[Dialogue]:
    """Talks by rote: a greeting is greeted, a question answered, a goodbye ends it."""
    chance = np.random.default_rng(seed)
    rounds = chance.integers(1, most, count, endpoint=True)
    middle = ["question", "inform"]
    return [
        chat(f"d{number}", "greeting", "greeting", *middle * size, "goodbye", "goodbye")
        for number, size in enumerate(rounds)
    ]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[ActNetwork, Result, ActBert]:
    pytest.importorskip("torch").set_num_threads(1)
    pytest.importorskip("transformers")
    networks: list[ActNetwork] = []

    def network(*given: Any) -> ActNetwork:
        networks.append(recipe().network(*given))
        return networks[-1]

    made = dataclasses.replace(recipe(), network=network)
    settings = dataclasses.replace(made.settings, epochs=1, batch=8, max_length=40)
    target = tmp_path_factory.mktemp("actbert") / "actbert"
    result = train(made, chats(40), target, PROVENANCE, dev=chats(8, 1), settings=settings)
    return networks[-1], result, ActBert.load(target)


def states_in_torch(network: ActNetwork, flow: Flow, layer: int) -> Any:
    """Run one flow the plain way: no padding, no windows, positions as RoBERTa counts them."""
    import torch

    network.model.eval()
    ids = torch.tensor([[BEGIN, *numbered(flow), END]])
    speakers = torch.tensor([[0, *flow.speakers, 0]])
    with torch.no_grad():
        found = network.model(input_ids=ids, token_type_ids=speakers, output_hidden_states=True)
    return found.hidden_states[layer][0, 1:-1].numpy()


def test_it_learns(trained: tuple[ActNetwork, Result, ActBert]) -> None:
    _, result, bert = trained
    assert result.trained.train_rows == 40 * TIMES
    assert result.artefact.kind == "act-bert.v1"
    assert result.artefact.sha == bert.sha
    assert result.trained.best_figure is not None
    assert result.trained.best_figure > 0.5, "the commonest acts are a third of all each"


def test_guesses_are_those_of_torch(trained: tuple[ActNetwork, Result, ActBert]) -> None:
    network, _, bert = trained
    flows = [flow_of(one) for one in chats(12, 3)]
    places = [(5 * number) % len(flow.acts) for number, flow in enumerate(flows)]
    asked = []
    for flow, place in zip(flows, places, strict=True):
        ids = numbered(flow)
        ids[place] = MASK
        asked.append(FlowExample(tuple(ids), flow.speakers, (place,), {"act1": 0}))
    expected = predict(network, asked)["act1"]
    assert np.abs(bert.shares(flows, places) - expected).max() <= 1e-4


@pytest.mark.parametrize("layer", range(5))
def test_vectors_are_the_largest_values_of_a_layer(
    trained: tuple[ActNetwork, Result, ActBert], layer: int
) -> None:
    network, _, bert = trained
    flows = [flow_of(one) for one in chats(6, 4)]
    expected = np.stack([states_in_torch(network, flow, layer).max(axis=0) for flow in flows])
    assert np.abs(bert.vectors(flows, layer) - expected).max() <= 1e-4


def test_a_flow_beyond_the_positions_is_read_in_windows(
    trained: tuple[ActNetwork, Result, ActBert],
) -> None:
    network, _, bert = trained
    acts = tuple(ACTS[number % 11] for number in range(90))
    whole = Flow(acts, tuple(number // 3 % 2 for number in range(90)))
    parts = [Flow(acts[start : start + 38], whole.speakers[start : start + 38]) for start in (0, 38, 76)]
    expected = np.stack([states_in_torch(network, part, 1).max(axis=0) for part in parts]).max(axis=0)
    assert np.abs(bert.vectors([whole, Flow((), ())], 1) - [expected, 0 * expected]).max() <= 1e-4


def test_acts_are_hidden_and_some_are_asked_for() -> None:
    chance = np.random.default_rng(5)
    for size in (1, 3, 10, 40, 80):
        acts = [FIRST + int(one) for one in chance.integers(0, 11, size)]
        made = mask_acts(acts, [0] * size, 0.15, 50, chance)
        hidden = [place for place, act in enumerate(made.acts) if act == MASK]
        assert len(made.acts) == len(made.speakers) == min(size, 50), "of a long flow a stretch"
        assert len(hidden) == max(1, round(0.15 * len(made.acts)))
        assert len(set(made.asked)) == len(made.asked) == min(4, len(hidden))
        assert set(made.asked) <= set(hidden)
        starts = [
            start
            for start in range(size - len(made.acts) + 1)
            if all(act in (MASK, own) for act, own in zip(made.acts, acts[start:], strict=False))
        ]
        wanted = [[acts[start + place] - FIRST for place in made.asked] for start in starts]
        assert list(made.targets.values()) in wanted


def test_a_flow_that_does_not_fit_is_refused() -> None:
    pytest.importorskip("torch")
    long = FlowExample((4,) * 30, (0,) * 30, (3,), {"act1": 0})
    with pytest.raises(UsageError, match=r"a flow of 30 acts does not fit into max_length=20"):
        ActNetwork(dataclasses.replace(recipe().settings, max_length=20)).prepare([long])


def test_examples_of_dialogues() -> None:
    short, long = chat("s", "inform", "inform"), chat("l", *ACTS)
    made = list(recipe().examples([short, long]))
    assert len(made) == TIMES, "two acts teach nothing"
    assert len({one.acts for one in made}) > 1, "each time others are hidden"
    assert [one.digest() for one in recipe().examples([long])] == [one.digest() for one in made]
    assert list(recipe().examples([])) == []


def test_there_is_no_encoder_to_choose() -> None:
    with pytest.raises(UsageError, match="no encoder to choose"):
        recipe("roberta-large")
