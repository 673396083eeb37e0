"""Weights that processes of one run share: expanded once, mapped by all, and the same to the bit."""

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dialeval.models.artefact import load, resolve
from dialeval.models.cache import Cache, forget
from dialeval.models.encoder import DEFAULT, Encoder


def origin(array: Any) -> Any:
    """What the memory of an array belongs to."""
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return array.obj if isinstance(array, memoryview) else array


def test_weights_are_mapped_and_give_the_same_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["Where is the station?", "At the end of the road."]
    artefact = load(resolve(DEFAULT))
    plain = Encoder(artefact).vectors(texts)
    monkeypatch.setenv("DIALEVAL_SHARED", str(tmp_path / "shared"))
    for _ in range(2):  # the one that writes, and one that finds it
        encoder = Encoder(artefact)
        assert np.array_equal(encoder.vectors(texts), plain)
        weights = encoder._networks[encoder.layers]._weights
        own = [name for name, value in weights.items() if not isinstance(origin(value), mmap.mmap)]
        assert own == []
    assert len(list((tmp_path / "shared").glob("*.safetensors"))) == 1


def test_forgetting_empties_every_cache_in_memory() -> None:
    one, other = Cache(), Cache()
    for cache in (one, other):
        cache.store([b"a"], [np.ones(3, np.float32)])
    forget()
    assert one.fetch([b"a"]) == other.fetch([b"a"]) == [None]
    assert one.held == 0
