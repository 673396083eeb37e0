"""A language model behind an address gives what it gives here; one that cannot say it is refused."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tiny_language_model as tiny
from serving import serving

from dialeval.dialogues import dialogue
from dialeval.errors import DataError
from dialeval.models.language_model import open_model
from dialeval.models.likelihood import Position, templates

CHAT = dialogue([("user", "Hi"), ("assistant", "the loo is there"), ("user", "Hi"), ("assistant", "er")], "d")
SAID = ["Hi there", "loo"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    pytest.importorskip("transformers")
    _, file = tiny.save_both(tmp_path_factory.mktemp("echo"))
    with serving(Path(__file__).with_name("echo_server.py"), str(file)) as server:
        yield file, server.port


def test_an_address_equals_the_file(served: tuple[Path, int]) -> None:
    file, port = served
    asked = [Position(1, "user"), Position(None, "user")]
    here = open_model(str(file)).answer(CHAT, asked, SAID, templates()["chatml"], 200)
    there = open_model(f"http://127.0.0.1:{port}/v1").answer(CHAT, asked, SAID, templates()["chatml"], 200)
    for one, other in zip(here, there, strict=True):
        assert one.counts == other.counts
        np.testing.assert_allclose(one.totals, other.totals, atol=1e-4)


def test_context_beyond_the_window_is_cut(served: tuple[Path, int]) -> None:
    model = open_model(f"http://127.0.0.1:{served[1]}/v1")
    found = model.answer(CHAT, [Position(3, "user")], SAID, templates()["prefixes"], 8)
    assert found[0].cut


def test_an_address_that_cannot_is_said(served: tuple[Path, int]) -> None:
    model = open_model(f"http://127.0.0.1:{served[1]}/mute/v1#tiny")
    with pytest.raises(DataError, match="echo and logprobs"):
        model.answer(CHAT, [Position(1, "user")], SAID, templates()["chatml"], 200)
