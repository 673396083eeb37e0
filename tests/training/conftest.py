"""Tiny encoders in the shape of the Hub, made once for all tests of training."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `encoder` (BERT), `roberta` and `distilbert`; tests only read it."""
    pytest.importorskip("torch").set_num_threads(1)  # two on a busy machine wait for each other
    pytest.importorskip("transformers")
    import toy_training

    folder = tmp_path_factory.mktemp("encoders")
    toy_training.make_encoder(folder / "encoder", "bert")
    toy_training.make_encoder(folder / "roberta", "roberta")
    toy_training.make_encoder(folder / "distilbert", "distilbert")
    return folder
