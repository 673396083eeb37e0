"""Text in, vectors out: the same numbers in any company, and the numbers of the original."""

import json
import os
import random
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dialeval.errors import DataError, UsageError
from dialeval.jobs.demo import example_dialogues
from dialeval.models import artefact
from dialeval.models.card import Card
from dialeval.models.conversion import encoder_artefact
from dialeval.models.encoder import DEFAULT, Encoder

TURNS = sorted({turn.text for one in example_dialogues() for turn in one.turns})[:500]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder.load()


def fresh(**settings: int | str) -> Encoder:
    return Encoder(artefact.load(DEFAULT), memory=0, **settings)  # type: ignore[arg-type]


FEW = TURNS[::4]


@cache
def expected(every: int) -> np.ndarray:
    return fresh(batch_tokens=64).vectors(TURNS[::every])


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("texts_per_batch", [1, 7, 64])
def test_batches_of_any_size_and_any_order_give_the_same(
    texts_per_batch: int, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, texts = expected(every), TURNS[::every]

    def by_count(lengths: list[int], budget: int) -> list[list[int]]:
        order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
        return [order[start : start + texts_per_batch] for start in range(0, len(order), texts_per_batch)]

    monkeypatch.setattr("dialeval.models.network.batches", by_count)
    encoder = fresh()
    order = list(range(len(texts)))
    random.Random(texts_per_batch).shuffle(order)
    found = encoder.vectors([texts[place] for place in order])
    assert np.abs(found - wanted[order]).max() <= 1e-5


def test_batches_as_they_come_mixed_in_length(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = expected(4)

    def unsorted(lengths: list[int], budget: int) -> list[list[int]]:
        places = list(range(len(lengths)))
        return [places[start : start + 50] for start in range(0, len(places), 50)]

    monkeypatch.setattr("dialeval.models.network.batches", unsorted)
    assert np.abs(fresh().vectors(FEW) - wanted).max() <= 1e-5


def test_threads_change_nothing() -> None:
    one, two = fresh(threads=1).vectors(FEW), fresh(threads=2).vectors(FEW)
    assert np.array_equal(one, two)
    assert np.abs(one - expected(4)).max() <= 1e-5


def test_another_process_with_another_hash_seed_gives_the_same(tmp_path: Path) -> None:
    code = (
        "import sys, numpy as np\n"
        "from dialeval.models.encoder import Encoder\n"
        "np.save(sys.argv[1], Encoder.load().vectors(['How are you?', 'Fine.', 'How are you?']))\n"
    )
    found = []
    for seed in ("1", "2"):
        path = tmp_path / f"{seed}.npy"
        environment = {**os.environ, "PYTHONHASHSEED": seed, "DIALEVAL_THREADS": seed}
        subprocess.run([sys.executable, "-c", code, str(path)], check=True, env=environment)
        found.append(np.load(path))
    assert np.abs(found[0] - found[1]).max() <= 1e-6


def test_each_text_is_run_once(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    made = fresh()
    made._cache.limit = 1 << 20
    seen: list[int] = []
    run = made._run

    def counted(texts: list[str], *rest: object) -> object:
        seen.append(len(texts))
        return run(texts, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(made, "_run", counted)
    first = made.vectors(["a", "b", "a", "a"])
    again = made.vectors(["b", "c"])
    assert seen == [2, 1]
    assert np.array_equal(first[0], first[2])
    assert np.array_equal(first[1], again[0])


def test_pooling_is_what_it_says(encoder: Encoder) -> None:
    texts = ["Where is the station?", "", "ok", "A long way from here, I am afraid, and uphill too."]
    states = encoder.tokens(texts, layer=4)
    assert [len(one) for one in states[1:3]] == [2, 3]  # the two special tokens, and one between them
    for pooling, expected in (
        ("mean", [one.mean(axis=0) for one in states]),
        ("max", [one.max(axis=0) for one in states]),
        ("first", [one[0] for one in states]),
    ):
        found = encoder.vectors(texts, layer=4, pooling=pooling)  # type: ignore[arg-type]
        assert np.abs(found - np.stack(expected)).max() <= 1e-5, pooling


def test_vectors_of_their_own_kind_have_length_one(encoder: Encoder) -> None:
    found = encoder.vectors(["One", "two words", "and three words"])
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    plain = encoder.vectors(["One"], pooling="mean")
    assert abs(float(np.linalg.norm(plain)) - 1) > 0.1
    assert np.allclose(plain[0] / np.linalg.norm(plain), found[0], atol=1e-6)


def test_half_precision_is_half_as_large_and_close(encoder: Encoder) -> None:
    whole, half = encoder.tokens(["Half of it"])[0], encoder.tokens(["Half of it"], half=True)[0]
    assert half.dtype == np.float16
    assert np.abs(whole - half.astype(np.float32)).max() < 2e-3


def test_long_text_is_cut_where_the_model_ends_and_says_so(encoder: Encoder) -> None:
    long = "word " * 5000
    states = encoder.tokens([long])[0]
    assert len(states) == encoder.limit == 512
    assert encoder.truncated(["short", long, "word " * 510, "word " * 511]) == [False, True, False, True]
    assert np.array_equal(encoder.vectors([long])[0], encoder.vectors(["word " * 600])[0])


@pytest.mark.parametrize(
    "text",
    ["", " \n\t", "\x00", "\ud800 alone", "👩‍👩‍👧‍👦", "שלום עולם", "\u2028", "?!…", "x" * 100_000, "你好"],
)
def test_awkward_texts_have_finite_vectors(encoder: Encoder, text: str) -> None:
    found = encoder.vectors([text, "Hello"])
    assert np.isfinite(found).all()


def test_nothing_in_nothing_out(encoder: Encoder) -> None:
    assert encoder.vectors([]).shape == (0, 384)
    assert encoder.tokens([]) == []
    assert encoder.truncated([]) == []


def test_a_layer_that_is_not_there(encoder: Encoder) -> None:
    with pytest.raises(UsageError, match="has no layer 7; it has 0 to 6"):
        encoder.vectors(["a"], layer=7)


def test_vectors_are_kept_on_disk_between_encoders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Encoder(artefact.load(DEFAULT), cache=tmp_path)
    expected = first.vectors(["Keep this.", "And this."])
    second = Encoder(artefact.load(DEFAULT), cache=tmp_path)

    def refuse(*_: object) -> None:
        raise AssertionError("this was to come from the disk")

    monkeypatch.setattr(second, "_run", refuse)
    assert np.array_equal(second.vectors(["And this.", "Keep this."]), expected[::-1])


def test_the_number_of_threads_must_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIALEVAL_THREADS", "many")
    with pytest.raises(UsageError, match="DIALEVAL_THREADS=many"):
        fresh()


def test_an_encoder_is_shared(encoder: Encoder) -> None:
    assert Encoder.load() is encoder
    assert Encoder.load(DEFAULT) is encoder


def test_other_artefacts_are_no_encoders(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="dialeval-encoder-small"):
        Encoder.load("no-such-encoder")
    found = artefact.load(DEFAULT)
    config = {key: value for key, value in found.config.items() if key not in ("class", "dialeval")}
    card = Card("x", "x", licence="mit", command="x")
    for change, message in (
        ({"pooling": "sum"}, "pooling: .*enum value 'sum'"),
        ({"shape": {**config["shape"], "layers": 10**9}}, "<= 64"),
        ({"shape": {**config["shape"], "layers": True}}, "got `bool`"),
        ({"shape": {**config["shape"], "heads": 7}}, "not a multiple"),
        ({"shape": {**config["shape"], "activation": "os.system"}}, "enum value"),
        ({"shape": None}, "shape: .*got `null`"),
    ):
        files = {name: found.path(name).read_bytes() for name in ("tokenizer.json", "model.safetensors")}
        made = artefact.save(tmp_path / "a", "encoder.v1", {**config, **change}, files, card)
        with pytest.raises(DataError, match=message):
            Encoder(made)
    files["tokenizer.json"] = b"{}"
    made = artefact.save(tmp_path / "a", "encoder.v1", config, files, card)
    with pytest.raises(DataError, match="not a tokenizer"):
        Encoder(made)


def with_tokenizer(folder: Path, change: Callable[[dict[str, Any]], object]) -> artefact.Artefact:
    """The shipped encoder with another tokenizer."""
    found = artefact.load(DEFAULT)
    config = {key: value for key, value in found.config.items() if key not in ("class", "dialeval")}
    tokenizer = json.loads(found.path("tokenizer.json").read_bytes())
    change(tokenizer)
    files = {"tokenizer.json": json.dumps(tokenizer).encode()}
    files["model.safetensors"] = found.path("model.safetensors").read_bytes()
    return artefact.save(folder, "encoder.v1", config, files, Card("x", "x", licence="mit", command="x"))


def test_tokens_beyond_the_vocabulary_are_named(tmp_path: Path) -> None:
    made = with_tokenizer(tmp_path / "a", lambda one: one["model"]["vocab"].update({"hello": 999_999}))
    assert Encoder(made).vectors(["good morning"]).shape == (1, 384)
    with pytest.raises(
        DataError, match=r"tokenizer\.json: returns the token 999999, but the model has 30522"
    ):
        Encoder(made).vectors(["hello"])


def doubling(times: int, **pattern: str) -> dict[str, Any]:
    rule = {"type": "Replace", "pattern": pattern, "content": "aa"}
    return {"type": "Sequence", "normalizers": [rule] * times}


@pytest.mark.parametrize(
    ("normaliser", "is_fine"),
    [
        (doubling(60, String="a"), False),
        (doubling(60, Regex="a|"), False),
        ({"type": "Sequence", "normalizers": [doubling(5, String="a"), doubling(5, String="a")]}, False),
        ({"type": "Prepend", "prepend": "x" * 300}, False),
        ({"type": "Precompiled", "precompiled_charsmap": b64encode(bytes(4) + b"x" * 999).decode()}, False),
        (doubling(60, String="aa"), True),
        (doubling(3, Regex="a"), True),
        (None, True),
    ],
)
def test_a_normaliser_that_grows_text_is_stopped(normaliser: Any, is_fine: bool, tmp_path: Path) -> None:
    made = with_tokenizer(tmp_path / "a", lambda one: one.update({"normalizer": normaliser}))
    if is_fine:
        assert Encoder(made).vectors(["banana"]).shape == (1, 384)
    else:
        with pytest.raises(
            DataError, match=r"tokenizer\.json: its normaliser can make a text .* times as long"
        ):
            Encoder(made)


def test_weights_of_other_sizes_are_refused(tmp_path: Path) -> None:
    found = artefact.load(DEFAULT)
    config = {key: value for key, value in found.config.items() if key not in ("class", "dialeval")}
    files = {name: found.path(name).read_bytes() for name in ("tokenizer.json", "model.safetensors")}
    shape = {**config["shape"], "inner": 1024}
    card = Card("x", "x", licence="mit", command="x")
    made = artefact.save(tmp_path / "a", "encoder.v1", {**config, "shape": shape}, files, card)
    with pytest.raises(DataError, match=r"model\.safetensors.*layer\.0\.inner\.weight has the sizes"):
        Encoder(made).vectors(["a"])


def test_stored_small_is_close_to_the_original(tmp_path: Path) -> None:
    """The shipped encoder is int8; stored again at fp32 nothing changes any more."""
    found = artefact.load(DEFAULT)
    card = Card("x", "x", licence="mit", command="x")
    again = encoder_artefact(found.folder, tmp_path / "a", name="again", card=card, storage="fp32")
    one, other = Encoder(again).vectors(TURNS[:50]), Encoder.load().vectors(TURNS[:50])
    assert np.array_equal(one, other)
    half = encoder_artefact(found.folder, tmp_path / "b", name="half", card=card, storage="fp16")
    assert (Encoder(half).vectors(TURNS[:50]) * other).sum(axis=1).min() > 0.99999


def test_marks_that_a_user_types_are_text(encoder: Encoder) -> None:
    ids = [one.ids for one in encoder.tokenizer.encode(["a [SEP] b", "a ; b"])]
    assert ids[0].count(102) == 1
    assert ids[0][-1] == 102
    assert len(ids[0]) > len(ids[1])
