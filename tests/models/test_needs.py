"""A text is encoded once for all that a run reads of it."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dialeval.dialogues import Dialogue, dialogue
from dialeval.jobs.scoring import score_to
from dialeval.metrics import build, needs_of
from dialeval.models.artefact import load
from dialeval.models.encoder import DEFAULT, Encoder
from dialeval.models.needs import encode_ahead
from dialeval.models.network import EncoderNetwork


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, ...]]]:
    """All token sequences that any network was run on."""
    texts: list[tuple[int, ...]] = []
    states = EncoderNetwork.states

    def counted(self: EncoderNetwork, ids: Any, lengths: Any, segments: Any = None) -> Any:
        texts.extend(tuple(row[:length].tolist()) for row, length in zip(ids, lengths, strict=True))
        return states(self, ids, lengths, segments)

    monkeypatch.setattr(EncoderNetwork, "states", counted)
    yield texts


def chats(mark: str) -> list[Dialogue]:
    said = [f"Sing {mark}?", f"I sing {mark}", f"Splendid {mark}, I like {mark}!", f"We {mark}, he {mark}?"]
    roles = ("user", "assistant", "user", "assistant")
    return [dialogue(list(zip(roles, said, strict=True)), f"{mark}{number}") for number in range(2)]


def test_quality_and_its_parts_read_a_turn_in_one_pass(ran: list[tuple[int, ...]]) -> None:
    score_to(chats("bass"), ["quality"])  # reads the example sentences of kinds, once in a process
    ran.clear()
    score_to(chats("alto"), ["quality", "coherence", "user-reaction", "turn-quality", "similarity"])
    assert len(ran) == 4, "four distinct turns"


def test_flows_read_segments_from_the_turns_themselves(ran: list[tuple[int, ...]]) -> None:
    needs = needs_of([build("floweval:corpus=examples"), build("quality")])
    ran.clear()
    encode_ahead(chats("tenor"), needs)
    assert len(ran) == len(set(ran)) == 4, "segments are spans of turns"
    encode_ahead(chats("tenor"), needs)
    assert len(ran) == 4, "all of it is in the cache"


def test_one_pass_gives_what_passes_of_their_own_give() -> None:
    artefact, texts = load(DEFAULT), ["One", "two words", "and three words, two words"]
    apart, together = Encoder(artefact), Encoder(artefact)
    readings = [apart.reading(), apart.reading(3, "mean"), apart.reading(6, "max"), apart.reading(0, "first")]
    together.prepare([(texts, readings)])
    for layer, pooling in ((None, None), (3, "mean"), (6, "max"), (0, "first")):
        ours = together.vectors(texts, layer=layer, pooling=pooling)  # type: ignore[arg-type]
        theirs = apart.vectors(texts, layer=layer, pooling=pooling)  # type: ignore[arg-type]
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_texts_that_differ_in_blanks_only_are_run_once(ran: list[tuple[int, ...]]) -> None:
    encoder = Encoder(load(DEFAULT))
    encoder.prepare([(["hello there"], [encoder.reading()]), ([" hello there"], [encoder.reading(6, "max")])])
    assert len(ran) == 1
    assert encoder.vectors([" hello there"], layer=6, pooling="max").shape == (1, 384)
    assert len(ran) == 1


def test_states_that_would_not_stay_in_the_cache_are_not_computed_ahead(ran: list[tuple[int, ...]]) -> None:
    from dialeval.models.encoder import Reading

    encoder = Encoder(load(DEFAULT), memory=1 << 14)
    encoder.prepare([(["a long text " * 20], [Reading(6, "tokens")])])
    assert not ran
    assert len(encoder.tokens(["a long text " * 20])) == 1
