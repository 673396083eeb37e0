"""Weights on disk: the library's own reader as the oracle, and headers that lie (R13)."""

import json
import os
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from dialeval.errors import DataError, UsageError
from dialeval.models.tensors import expand, read_tensors, shrink, write_tensors

TYPES = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u1", "?"]
FINITE = st.floats(-(2.0**126), 2.0**126, width=32, allow_nan=False, allow_infinity=False)


def arrays(types: list[str] = TYPES) -> st.SearchStrategy[np.ndarray[Any, Any]]:
    shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
    return st.sampled_from(types).flatmap(lambda dtype: hnp.arrays(np.dtype(dtype), shapes))


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Equal to the bit, NaN and the sign of zero included."""
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype
        and one[name].shape == other[name].shape
        and one[name].tobytes() == other[name].tobytes()
        for name in one
    )


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).filter(
    lambda name: name != "__metadata__"
)


@settings(max_examples=60, deadline=None)
@given(tensors=st.dictionaries(NAMES, arrays(), max_size=5))
def test_the_library_reads_what_we_write_and_we_what_it_writes(
    tensors: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("tensors")
    write_tensors(folder / "ours", tensors, layout="é\n")
    assert same(load_file(folder / "ours"), tensors)
    with safe_open(folder / "ours", framework="np") as file:
        assert file.metadata() == {"format": "é\n"}
    assert same(read_tensors(folder / "ours"), tensors)
    save_file(tensors, folder / "theirs")
    assert same(read_tensors(folder / "theirs"), tensors)


def test_same_tensors_give_the_same_bytes(tmp_path: Path) -> None:
    tensors = {"b": np.ones(3, "f4"), "a": np.ones((2, 2), "i1"), "c": np.ones(5, "f8")}
    write_tensors(tmp_path / "one", tensors, layout="np")
    write_tensors(tmp_path / "other", dict(reversed(tensors.items())), layout="np")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_layouts_of_memory_do_not_matter(tmp_path: Path) -> None:
    grid = np.arange(12, dtype="f4").reshape(3, 4)
    tensors = {
        "turned": grid.T,
        "strided": grid[:, ::2],
        "big": grid.astype(">f4"),
        "point": np.float32(7)[...],
    }
    write_tensors(tmp_path / "w", tensors)
    found = load_file(tmp_path / "w")
    for name, tensor in tensors.items():
        assert np.array_equal(found[name], tensor)


def raw(path: Path, header: Any, data: bytes = b"", length: int | None = None) -> Path:
    """Write a file with whatever header one likes."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


def entry(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_bf16_becomes_fp32(tmp_path: Path) -> None:
    values = np.array([1.0, -2.5, 0.0, 3.3895314e38, np.inf], "f4")
    upper = (values.view("u4") >> 16).astype("<u2").tobytes()
    header = {"w": entry("BF16", [5], [0, 10]), "point": entry("BF16", [], [10, 12])}
    found = read_tensors(raw(tmp_path / "w", header, upper + upper[:2]))
    assert found["w"].dtype == np.float32
    assert np.array_equal(found["w"], values)
    assert found["point"].shape == ()
    assert found["point"] == 1.0


def test_a_header_without_padding_still_gives_aligned_arrays(tmp_path: Path) -> None:
    values = np.array([1.5, -2.0], "<f4")
    path = raw(tmp_path / "w", b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}} ', values.tobytes())
    assert (path.stat().st_size - 8) % 4
    found = read_tensors(path)["w"]
    assert found.flags.aligned
    assert np.array_equal(found, values)


def test_a_link_as_in_the_cache_of_the_hub_is_followed(tmp_path: Path) -> None:
    write_tensors(tmp_path / "blob", {"w": np.ones(2, "f4")})
    (tmp_path / "model.safetensors").symlink_to("blob")
    assert read_tensors(tmp_path / "model.safetensors")["w"].sum() == 2


HOSTILE: dict[str, tuple[Any, bytes, int | None]] = {
    "empty object, but data": ({}, b"12345678", None),
    "length 2**64 - 1": ({"w": entry()}, b"12345678", (1 << 64) - 1),
    "length beyond the file": ({"w": entry()}, b"", 1000),
    "length 0": (b"", b"", 0),
    "length cuts the header": ({"w": entry()}, b"12345678", 20),
    "not UTF-8": (b'{"\xff": 1}', b"", None),
    "not JSON": (b"{'w': 1}", b"", None),
    "a list": ([], b"", None),
    "NaN": (b'{"w": NaN}', b"", None),
    "nested deeply": (b'{"w": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", b"", None),
    "duplicate key inside": (
        b'{"w": {"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}}',
        b"x",
        None,
    ),
    "entry not an object": ({"w": 7}, b"", None),
    "entry without shape": ({"w": {"dtype": "F32", "data_offsets": [0, 8]}}, b"12345678", None),
    "dtype unknown": ({"w": entry("F4")}, b"12345678", None),
    "negative shape": ({"w": entry(shape=[-2])}, b"12345678", None),
    "fractional shape": ({"w": entry(shape=[2.0])}, b"12345678", None),
    "true as a size": ({"w": entry("U8", [True], [0, 1])}, b"1", None),
    "a thousand axes": ({"w": entry(shape=[1] * 1000 + [2])}, b"12345678", None),
    "product overflows 64 bits to 2": ({"w": entry("U8", [1 << 32, 1 << 32, 2], [0, 2])}, b"12", None),
    "a size of 5000 digits": (
        b'{"w": {"dtype":"U8","shape":[' + b"9" * 5000 + b'],"data_offsets":[0,1]}}',
        b"",
        None,
    ),
    "end before start": ({"w": entry(offsets=[8, 0])}, b"12345678", None),
    "offsets beyond the file": ({"w": entry(offsets=[1 << 40, (1 << 40) + 8])}, b"12345678", None),
    "claims a petabyte": ({"w": entry("U8", [1 << 50], [0, 1 << 50])}, b"12345678", None),
    "more than the file": ({"w": entry(shape=[4], offsets=[0, 16])}, b"12345678", None),
    "less than the file": ({"w": entry(shape=[1], offsets=[0, 4])}, b"12345678", None),
    "shape too small for offsets": ({"w": entry(shape=[1])}, b"12345678", None),
    "same place twice": ({"w": entry(), "v": entry()}, b"12345678", None),
    "overlap": ({"w": entry(), "v": entry(offsets=[4, 12])}, b"123456789012", None),
    "gap at the start": ({"w": entry(offsets=[4, 12])}, b"123456789012", None),
    "gap between": ({"w": entry(), "v": entry(offsets=[9, 17])}, b"1" * 17, None),
    "metadata not an object": ({"__metadata__": [], "w": entry()}, b"12345678", None),
    "metadata not strings": ({"__metadata__": {"a": 1}, "w": entry()}, b"12345678", None),
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_hostile_headers_are_refused_at_once(name: str, tmp_path: Path) -> None:
    path = raw(tmp_path / "hostile.safetensors", *HOSTILE[name])
    tracemalloc.start()
    began = time.process_time()
    with pytest.raises(DataError, match=r"hostile\.safetensors") as caught:
        read_tensors(path)
    took = time.process_time() - began
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert took < 2
    assert most < 30_000_000
    assert len(str(caught.value)) < 500


def test_hostile_names_are_shown_harmlessly(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_tensors(raw(tmp_path / "w", {"\x1b[2J" * 1000: entry("F4")}))
    assert "\x1b" not in str(caught.value)


def test_folders_pipes_and_nothing_at_all(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "", "nothing"):
        with pytest.raises(DataError):
            read_tensors(tmp_path / name)


def test_what_is_read_cannot_be_written_to(tmp_path: Path) -> None:
    write_tensors(tmp_path / "w", {"w": np.ones(2, "f4")})
    with pytest.raises(ValueError, match="read-only"):
        read_tensors(tmp_path / "w")["w"][0] = 5


@pytest.mark.parametrize(
    "tensors",
    [
        {"__metadata__": np.ones(1, "f4")},
        {"w": np.ones(1, "c8")},
        {"w": np.array([object()])},
        {"w": np.array(["text"])},
        {"w": np.ones(1, "u8")},
        {"w": np.ones((1,) * 9, "f4")},
    ],
)
def test_what_cannot_be_stored(tensors: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot store"):
        write_tensors(tmp_path / "w", tensors)
    assert not list(tmp_path.iterdir())


MATRICES = hnp.arrays(
    np.float32,
    st.tuples(st.integers(0, 5), st.sampled_from([0, 1, 3, 8, 32, 64])),
    elements=st.floats(-8e6, 8e6, width=32),
)


@settings(max_examples=300, deadline=None)
@given(matrix=MATRICES)
def test_int8_is_off_by_half_a_step_at_most(matrix: Any) -> None:
    small = shrink({"w": matrix}, "int8")
    assert small["w"].dtype == np.int8
    assert small["w::scale"].dtype == np.float16
    parts = matrix.shape[1] // 32 if matrix.shape[1] % 32 == 0 else 1
    assert small["w::scale"].shape == (len(matrix), parts)
    together = matrix.shape[1] // parts if parts else 0
    scale = np.repeat(small["w::scale"].astype(np.float64), together, axis=1)
    exact = small["w"].astype(np.float64) * scale
    error = np.abs(exact - matrix)
    assert (error <= scale / 2 * (1 + 1e-4)).all()  # 1e-4: fp32 divides to 24 bits, and 127 steps add up
    large = expand(small)["w"]
    assert large.dtype == np.float32
    assert np.allclose(large, exact, rtol=1e-7, atol=0)
    assert (large[matrix == 0] == 0).all()


def test_a_large_weight_blurs_only_its_neighbours() -> None:
    row = np.full((1, 64), 0.01, "f4")
    row[0, 0] = 100.0
    large = expand(shrink({"w": row}, "int8"))["w"]
    assert np.abs(large[0, 32:] - 0.01).max() < 1e-4
    assert np.abs(large[0, 1:32] - 0.01).max() > 1e-3


@settings(max_examples=100, deadline=None)
@given(tensors=st.dictionaries(st.text("abc", max_size=3), arrays(["f4", "i8", "i4"]), max_size=4))
def test_fp32_comes_back_to_the_bit(tensors: dict[str, Any]) -> None:
    if all(np.isfinite(tensor).all() for tensor in tensors.values()):
        assert same(expand(shrink(tensors, "fp32")), tensors)
    else:
        with pytest.raises(DataError, match="cannot store"):
            shrink(tensors, "fp32")


def test_fp16_halves_matrices_and_leaves_vectors() -> None:
    tensors = {"w": np.full((2, 2), 0.1, "f4"), "cube": np.ones((1, 2, 2), "f4"), "b": np.full(2, 0.1, "f4")}
    small = shrink(tensors, "fp16")
    assert {name: str(tensor.dtype) for name, tensor in small.items()} == {
        "w": "float16",
        "cube": "float16",
        "b": "float32",
    }
    large = expand(small)
    assert {str(tensor.dtype) for tensor in large.values()} == {"float32"}
    assert np.abs(large["w"] - tensors["w"]).max() < 0.1 * 2**-11
    assert np.array_equal(large["b"], tensors["b"])


def test_int8_leaves_what_is_no_matrix() -> None:
    tensors = {
        "b": np.full(2, 0.1, "f4"),
        "cube": np.ones((1, 2, 2), "f4"),
        "at": np.arange(3),
        "x": np.float64([1]),
    }
    small = shrink(tensors, "int8")
    assert {name: str(tensor.dtype) for name, tensor in small.items()} == {
        "b": "float32",
        "cube": "float32",
        "at": "int64",
        "x": "float32",
    }


@pytest.mark.parametrize(
    ("value", "storage"),
    [
        (np.nan, "int8"),
        (np.inf, "fp16"),
        (-np.inf, "fp32"),
        (np.nan, "fp32"),
        (1e5, "fp16"),
        (3.4e38, "int8"),
        (1e300, "fp32"),
    ],
)
def test_what_a_storage_cannot_hold_is_refused(value: float, storage: Any) -> None:
    with pytest.raises(DataError, match=f"w: holds .*, which {storage} cannot store"):
        shrink({"w": np.array([[0.0, value]])}, storage)


def test_the_largest_numbers_that_fit() -> None:
    matrix = np.array([[8e6, -8e6, 8e6 / 127 / 2]], "f4")
    assert np.isfinite(expand(shrink({"w": matrix}, "int8"))["w"]).all()


@pytest.mark.parametrize("smallest", [1e-45, 1e-40, 1.2e-38, 1e-36])
def test_rows_of_the_smallest_numbers(smallest: float) -> None:
    matrix = np.array([[smallest, 0, -smallest]], "f4")
    small = shrink({"w": matrix}, "int8")
    assert small["w::scale"][0, 0] > 0
    assert np.abs(expand(small)["w"] - matrix).max() <= small["w::scale"].astype("f4")[0, 0] / 2


@pytest.mark.parametrize(
    "tensors",
    [
        {"w": np.ones((2, 2), "i1")},
        {"w::scale": np.ones(2, "f4")},
        {"w": np.ones((2, 2), "f4"), "w::scale": np.ones(2, "f4")},
        {"w": np.ones((2, 2), "i1"), "w::scale": np.ones(2, "f4")},
        {"w": np.ones((2, 2), "i1"), "w::scale": np.ones((3, 1), "f4")},
        {"w": np.ones((2, 3), "i1"), "w::scale": np.ones((2, 2), "f4")},
        {"w": np.ones((2, 2), "i1"), "w::scale": np.ones((2, 0), "f4")},
        {"w": np.ones((2, 2), "i1"), "w::scale": np.ones((2, 1), "i4")},
        {"w": np.ones((2, 2), "i1"), "w::scale": np.array([[1], [np.nan]], "f4")},
        {"w": np.ones((2, 2), "i1"), "w::scale": np.array([[1], [3e38]], "f4")},
        {"w": np.ones((2, 2), "i1"), "w::scale": np.array([[1], [-1]], "f4")},
        {"w": np.ones(2, "i1"), "w::scale": np.ones((2, 1), "f4")},
    ],
)
def test_scales_that_do_not_fit(tensors: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"weights\.safetensors: w"):
        expand(tensors, file="weights.safetensors")


def test_vectors_are_not_held_to_the_limits_of_matrices() -> None:
    tensors = {"b": np.array([1e5], "f4")}
    assert same(expand(shrink(tensors, "fp16")), tensors)


def test_wrong_calls() -> None:
    with pytest.raises(UsageError, match="unknown storage 'int4'"):
        shrink({}, "int4")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="small already"):
        shrink(shrink({"w": np.ones((2, 2), "f4")}, "int8"), "int8")


@pytest.mark.parametrize("storage", ["int8", "fp16", "fp32"])
def test_from_memory_to_disk_and_back(storage: Any, tmp_path: Path) -> None:
    chance = np.random.default_rng(1)
    tensors = {"w": chance.normal(size=(64, 32)).astype("f4"), "b": chance.normal(size=64).astype("f4")}
    write_tensors(tmp_path / "w", shrink(tensors, storage))
    found = expand(read_tensors(tmp_path / "w"))
    bound = {"int8": 0.02, "fp16": 0.002, "fp32": 0.0}[storage]
    assert np.abs(found["w"] - tensors["w"]).max() <= bound
    assert np.array_equal(found["b"], tensors["b"])
