"""The reader of faults: the same in any company, as torch computes it, and what it is held against."""

import numpy as np
import pytest

from dialeval.dialogues import Turn, dialogue
from dialeval.dialogues.dialogue import Passage
from dialeval.errors import DataError
from dialeval.metrics.faults import DEFAULT
from dialeval.models.fault_features import reply_features
from dialeval.models.fault_reader import LONGEST_REPLY, FaultReader, Memory, Part, Question
from dialeval.models.fault_weights import FAULTS, fit_weights, plain_weights, read_weights, weight_fields

READER = FaultReader.load(DEFAULT)


def question(reply: str, *memory: Memory) -> Question:
    return Question(Part(reply, 0, LONGEST_REPLY), memory)


ASKED = [
    question("I never had a pet.", Memory("own", "My two dogs sleep on the sofa.")),
    question(
        "The bus leaves at nine.", Memory("before", "Hello!"), Memory("last", "When does the bus leave?")
    ),
    question("What is your name?", Memory("user", "I'm Robin, by the way."), Memory("user", "Can you help?")),
    question("Fine."),
    question(
        "It costs five euros. " * 12, Memory("evidence", "Price list: entry is five euros, children free.")
    ),
]


def test_company_changes_nothing() -> None:
    together = READER.read([*ASKED, ASKED[0]])
    for place, one in enumerate(ASKED):
        alone = READER.read([one])
        for head, values in alone.items():
            assert together[head][place] == pytest.approx(values[0], abs=1e-5)
            assert together[head][0] == pytest.approx(together[head][-1], abs=1e-5)


def test_who_said_it_matters() -> None:
    one, other = (
        READER.read([question("I hate football.", Memory(kind, "I love football."))])["contradicts"][0]
        for kind in ("own", "user")
    )
    assert one != other


def test_runtime_equals_torch() -> None:
    torch = pytest.importorskip("torch")
    from dialeval.models.artefact import load, resolve
    from dialeval.models.tensors import expand, read_tensors
    from dialeval.training.examples import FaultExample
    from dialeval.training.faults_recipe import SETTINGS, FaultNetwork

    stored = expand(read_tensors(load(resolve(DEFAULT)).path("model.safetensors")))
    network = FaultNetwork("dialeval-encoder-small", SETTINGS)
    names = {"kinds.weight": "kinds.weight"}
    names |= {
        f"heads.{n}.{part}": f"heads.{head.name}.{part}"
        for n, head in enumerate(READER.heads)
        for part in ("weight", "bias")
    }
    for name in network.module.state_dict():
        if name.startswith("layers."):
            _, number, rest = name.split(".", 2)
            names[name] = f"layer.{3 + int(number)}.{rest.replace('_norm', '.norm')}"
    network.module.load_state_dict({name: torch.tensor(stored[old]) for name, old in names.items()})
    network.module.eval()
    examples = [FaultExample(one.memory, one.reply.text, {}) for one in ASKED]
    with torch.no_grad():
        theirs = network.outputs(network.prepare(examples).tensors(np.arange(len(examples))))
    for head, values in READER.read(ASKED).items():
        assert values == pytest.approx(theirs[head].numpy(), abs=1e-3)


def test_what_a_reply_is_held_against() -> None:
    said = [
        ("user", "I moved to Ghent."),
        ("assistant", "Nice!"),
        ("user", "Any tips?"),
        ("assistant", "Rent a bike."),
    ]
    passages = (Passage("Ghent has a car-free centre. " * 40), Passage("Bikes cost 12 euros a day."))
    last = Turn(
        "assistant",
        "A bike costs 12 euros a day.\n\n" + "Enjoy the ride along the river. " * 20,
        evidence=passages,
    )
    chat = dialogue([*said, ("user", "How much?"), last], "d")
    ((_, replies),) = reply_features(READER, [chat], prove=True)
    assert [one.turn for one in replies] == [1, 3, 5]
    assert "own-contradicts" not in replies[0].values
    assert "new-words" not in replies[1].values
    assert {"own-contradicts", "repeats", "new-words", "new-numbers"} <= set(replies[2].values)
    assert replies[2].proofs["ignores"].turn == 4
    assert replies[2].proofs["own-contradicts"].turn in (1, 3)
    assert replies[2].proofs["unsupported"].text == passages[1].text


def test_weights_are_fitted_with_signs_and_prior() -> None:
    chance = np.random.default_rng(0)
    wrong = chance.random(4000) < 0.5
    rows = [{"nonsense": float(value)} for value in chance.normal(np.where(wrong, 1.0, -1.0))]
    found = fit_weights("nonsense", rows, wrong, np.ones(4000))
    # two normals of variance one, two apart: the log odds rise by two for each unit; the prior is one in ten
    assert found.features["nonsense"] == pytest.approx(2.0, abs=0.35)
    assert found.constant == pytest.approx(np.log(0.1 / 0.9), abs=0.35)
    against = fit_weights("nonsense", [{"nonsense": -row["nonsense"]} for row in rows], wrong, np.ones(4000))
    assert against.features["nonsense"] == 0.0
    with pytest.raises(DataError, match="no reply with nonsense"):
        fit_weights("nonsense", rows, np.zeros(4000), np.ones(4000))


def test_weights_that_cannot_be_read_are_refused(tmp_path) -> None:
    good = weight_fields(plain_weights())
    assert read_weights({"weights": good}, tmp_path)["ignores"].features["ignores"] == 1.0
    for bad in (
        {},
        {**good, "ignores": {}},
        {**good, "more": {}},
        {**good, "nonsense": {"nonsense": "1", "constant": 0}},
    ):
        with pytest.raises(DataError):
            read_weights({"weights": bad}, tmp_path)
    assert set(good) == set(FAULTS)
