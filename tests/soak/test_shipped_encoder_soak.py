"""The shipped encoder against the published weights it was made from; needs them pulled, and DSTC9."""

import sys
from pathlib import Path

import numpy as np
import pytest

from dialeval.dialogues.datasets import public_set
from dialeval.errors import DialevalError
from dialeval.models import artefact
from dialeval.models.encoder import DEFAULT, Encoder

pytestmark = pytest.mark.soak
ROOT = Path(__file__).parents[2]


@pytest.fixture
def original() -> artefact.Artefact:
    pulled = {name: folder for name, where, folder in artefact.names() if where == "pulled"}
    if "all-minilm-l6-v2" not in pulled:
        pytest.skip("the published weights are not here: dialeval models pull all-minilm-l6-v2")
    return artefact.verify(pulled["all-minilm-l6-v2"])


def test_a_thousand_real_turns_keep_their_vectors(original: artefact.Artefact) -> None:
    try:
        chats = list(public_set("dstc9").dialogues())
    except DialevalError as error:
        pytest.skip(str(error))
    texts = sorted({turn.text for chat in chats for turn in chat.turns if turn.text.strip()})
    chosen = np.random.default_rng(1).permutation(len(texts))[:1000]
    turns = [texts[place] for place in chosen]
    cosines = (Encoder(original).vectors(turns) * Encoder.load().vectors(turns)).sum(axis=1)
    print(f"\ncosine to the original on 1,000 turns: mean {cosines.mean():.5f}, lowest {cosines.min():.5f}")
    assert cosines.min() >= 0.999


def test_it_is_rebuilt_to_the_byte(original: artefact.Artefact, tmp_path: Path) -> None:
    sys.path.insert(0, str(ROOT / "weights"))
    import build_encoder

    build_encoder.build(tmp_path / "again")
    shipped = artefact.resolve(DEFAULT)
    for path in shipped.iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes(), path.name
