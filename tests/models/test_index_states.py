"""Token states in an index: what is stored is what is compared with, and damage is named."""

import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from dialeval import dialogues
from dialeval.dialogues.formats import read
from dialeval.errors import DataError, UsageError
from dialeval.models import artefact
from dialeval.models.encoder import DEFAULT, Encoder
from dialeval.models.index import Index
from dialeval.models.index.layout import IndexConfig
from dialeval.models.index.writing import spoken_texts
from dialeval.models.matching import Idf, Matcher
from dialeval.models.token_states import TokenStates, dialogue_states, text_states

WIDTH = 8
EXAMPLES = Path(dialogues.__file__).parent / "examples" / "dialogues.jsonl"


def some(sizes: list[int], seed: int = 0, width: int = WIDTH) -> list[TokenStates]:
    chance = np.random.default_rng(seed)
    return [
        TokenStates.of(chance.integers(0, 30_000, size), chance.normal(size=(size, width))) for size in sizes
    ]


def names(number: int, start: int = 0) -> list[str]:
    return [f"d{one}" for one in range(start, start + number)]


def same(one: TokenStates, other: TokenStates) -> bool:
    parts = ("tokens", "numbers", "scales")
    return all(np.array_equal(getattr(one, part), getattr(other, part)) for part in parts)


@pytest.fixture
def small(tmp_path: Path) -> Index:
    """Two segments; the first begins and ends with an empty dialogue."""
    sizes = [0, 5, 1, 7, 0]
    columns: Any = {"text": np.eye(5, 3), "words": ["a hotel"] * 5, "states": some(sizes)}
    index = Index.build(tmp_path / "small", names(5), columns)
    more: Any = {"text": np.eye(2, 3), "words": ["", "x"], "states": some([4, 0], seed=1)}
    index.add(names(2, 5), more)
    return index


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder.load()


@pytest.fixture(scope="module")
def chats() -> list[list[str]]:
    return [spoken_texts(one) for one in read(EXAMPLES)][:40]


# --- storing ------------------------------------------------------------------------------------------------


def test_what_is_stored_is_the_states_in_a_byte_a_number(small: Index) -> None:
    given = [*some([0, 5, 1, 7, 0]), *some([4, 0], seed=1)]
    for index in (small, Index.open(small.folder)):
        assert index.columns == {"text": "dense", "words": "sparse", "states": "tokens"}
        found = index.states(names(7))
        assert [len(one) for one in found] == [0, 5, 1, 7, 0, 4, 0]
        for one, other in zip(found, given, strict=True):
            assert (one.numbers.dtype, one.scales.dtype, one.tokens.dtype) == (np.int8, np.float32, np.int32)
            assert one.numbers.shape == (len(one), WIDTH)
            assert one.tokens.tolist() == other.tokens.tolist()
            assert np.abs(one.numbers).max(axis=1, initial=0).tolist() == [127] * len(one)
            far = np.abs(one.vectors - other.vectors)
            assert (far <= one.scales[:, None] * 0.5001).all()


def test_by_row_or_by_id_in_any_order(small: Index) -> None:
    rows = [6, 1, 1, 5, 3]
    by_row, by_id = small.states(rows), small.states([f"d{row}" for row in rows])
    by_array = small.states(np.array(rows), column="states")
    assert all(same(one, other) for one, other in zip(by_row, by_id, strict=True))
    assert all(same(one, other) for one, other in zip(by_row, by_array, strict=True))
    assert small.states([]) == []
    for wrong in ([7], [-1], [1.5], ["d0", 1], [[1]]):
        with pytest.raises(UsageError, match=r"from 0 to 6|list"):
            small.states(wrong)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="'nobody': is not in the index"):
        small.states(["nobody"])
    with pytest.raises(UsageError, match="list of strings"):
        small.states("d0")


def is_mapped(array: Any, name: str) -> bool:
    """Whether the memory of an array is that of a mapped file."""
    if not array.size:
        return True
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, _, last = line.split()[0].partition("-")
        if int(first, 16) <= array.ctypes.data < int(last, 16):
            return line.endswith(name)
    return False


def test_views_of_the_file_not_copies(tmp_path: Path) -> None:
    index = Index.build(tmp_path / "index", names(3), {"states": some([3, 0, 4])})
    one, _, other = Index.open(index.folder).states([0, 1, 2])
    for part in ("tokens", "numbers", "scales"):
        mine, theirs = getattr(one, part), getattr(other, part)
        assert is_mapped(theirs, ".arrow")
        assert is_mapped(mine, ".arrow")
        assert not mine.flags.writeable


def test_add_equals_build_and_bytes_stay_as_they_are(tmp_path: Path) -> None:
    every = some([number % 6 for number in range(200)])
    whole = Index.build(tmp_path / "whole", names(200), {"states": every})
    grown = Index.build(tmp_path / "grown", names(3), {"states": every[:3]})
    start = 3
    for step in [1] * 12 + [0, 5, 80, 100]:
        grown.add(names(step, start), {"states": every[start : start + step]})
        start += step
    copied = Index.build(tmp_path / "copied", names(200), {"states": whole.states(names(200))})
    assert len(grown) == start == 200
    assert Index.open(grown.folder).columns == {"states": "tokens"}
    for one, other in zip(grown.states(names(200)), whole.states(names(200)), strict=True):
        assert same(one, other)
    assert copied.sha == whole.sha
    changed = [*every[:-1], TokenStates(every[-1].tokens + 1, every[-1].numbers, every[-1].scales)]
    assert Index.build(tmp_path / "changed", names(200), {"states": changed}).sha != whole.sha


def test_lengths_do_not_matter_and_zeros_stay(tmp_path: Path) -> None:
    rows = np.array([[3.0, -4.0], [3e30, -4e30], [3e-30, -4e-30], [0.0, 0.0]])
    given = TokenStates(np.arange(4), rows, np.ones(4, np.float32))
    (found,) = Index.build(tmp_path / "index", ["a"], {"states": [given]}).states(["a"])
    assert found.numbers.tolist() == [[95, -127]] * 3 + [[0, 0]]
    assert found.scales == pytest.approx([0.8 / 127] * 3 + [0])


def test_nothing_but_empty_dialogues(tmp_path: Path) -> None:
    index = Index.build(tmp_path / "index", names(2), {"states": some([0, 0])})
    index.add(["more"], {"states": some([0])})
    assert [one.numbers.shape for one in Index.open(index.folder).states([0, 1, 2])] == [(0, WIDTH)] * 3


@dataclass(frozen=True)
class Made:
    name: str = "made"
    sha: str = "ab" * 32


def test_the_identity_of_texts_and_encoder_is_no_matter_of_files(tmp_path: Path) -> None:
    words = ["a cheap hotel", "", "hotel hotel"]
    columns: Any = {"text": np.array([[3, 4], [0, 0], [1, 0]]), "words": words}
    index = Index.build(
        tmp_path / "index", ["a", "b", "c"], columns, documents=[b"1", b"2", b"3"], encoder=Made()
    )
    index.add(["d"], {"text": np.array([[1, 1]]), "words": ["x"]}, documents=[b"4"])
    assert index.sha == "51c39dcf9740a2a6a06a7768053b7a781f73e69bef54cd1250ffc5bff57a0c86"


# --- what cannot be done ------------------------------------------------------------------------------------

ONES = np.ones(2, np.float32)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([TokenStates(np.arange(2), np.ones((2, 3)), ONES)], "3 wide, those of the index 8"),
        ([TokenStates(np.arange(3), np.ones((2, 8)), ONES)], "'new' has 2 states"),
        ([TokenStates(np.arange(2), np.ones((2, 8)), np.ones(3, np.float32))], "'new' has 2 states"),
        ([TokenStates(np.ones(2), np.ones((2, 8)), ONES)], "'new' has 2 states"),
        ([TokenStates(np.array([1, -1]), np.ones((2, 8)), ONES)], "no vocabulary"),
        ([TokenStates(np.array([1, 2**31]), np.ones((2, 8)), ONES)], "no vocabulary"),
        ([TokenStates(np.arange(2), np.full((2, 8), np.nan), ONES)], "vector of 'new' is not finite"),
        ([TokenStates(np.arange(2), np.ones((2, 8)), ONES * np.inf)], "vector of 'new' is not finite"),
        ([TokenStates(np.arange(2), np.ones((2, 8), np.int8), ONES * np.nan)], "scales of 'new'"),
        ([TokenStates(np.arange(2), np.ones((2, 8), np.int8), -ONES)], "scales of 'new'"),
        ([TokenStates(np.arange(2), np.ones(2), ONES)], "a row for each token"),
        (["hello"], "'hello' is not a TokenStates"),
        ([None], "None is not a TokenStates"),
        (np.ones((1, 8)), "a list"),
    ],
)
def test_bad_states_are_refused_and_leave_nothing(given: Any, message: str, tmp_path: Path) -> None:
    index = Index.build(tmp_path / "index", ["old"], {"states": some([3])})
    with pytest.raises((UsageError, DataError), match=message):
        index.add(["new"], {"states": given})
    assert len(Index.open(index.folder)) == 1
    assert len(list((index.folder / "parts").iterdir())) == 1


def test_columns_are_used_as_what_they_are(small: Index, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'states' has token states, which are not searched"):
        small.search(np.ones((1, WIDTH)), column="states")
    with pytest.raises(UsageError, match="'states' has token states, which are not searched"):
        small.cosines(np.ones((1, WIDTH)), column="states")
    with pytest.raises(UsageError, match="'states' has token states, not vectors"):
        small.vectors("states")
    for column, held in (("text", "vectors"), ("words", "words")):
        with pytest.raises(UsageError, match=f"'{column}' has {held}, not token states"):
            small.states([0], column)
    with pytest.raises(UsageError, match="no column 'more'"):
        small.states([0], "more")
    flat = TokenStates(np.arange(2), np.empty((2, 0)), ONES)
    with pytest.raises(UsageError, match="a row for each token"):
        Index.build(tmp_path / "flat", ["a"], {"states": [flat]})
    with pytest.raises(UsageError, match="is neither a string"):
        small.add(["x"], {"text": np.eye(1, 3), "words": some([1]), "states": some([1])})


# --- damage and malice --------------------------------------------------------------------------------------


def first_segment(index: Index) -> Path:
    config = json.loads((index.folder / "config.json").read_text())
    return index.folder / "parts" / str(config["segments"][0]["name"])


def signed(index: Index, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change `config.json` as somebody would who knows how it is signed."""
    path = index.folder / "config.json"
    config = json.loads(path.read_text())
    change(config)
    config["sha"] = msgspec.convert(config, IndexConfig).signed().sha
    path.write_text(json.dumps(config))


@pytest.mark.parametrize("width", [WIDTH - 1, WIDTH + 1, 1 << 16])
def test_another_width_is_refused(width: int, small: Index) -> None:
    signed(small, lambda config: config["columns"]["states"].update({"width": width}))
    with pytest.raises(DataError, match=r"\.arrow: holds .* damaged"):
        Index.open(small.folder)


FORGED: list[tuple[str, Callable[[Any], Any]]] = [
    ("ends", lambda old: old + 1),
    ("ends", lambda old: old[::-1]),
    ("ends", lambda old: np.full_like(old, 2**50)),
    ("ends", lambda old: np.where(old == 5, -(2**60), old)),
    ("ends", lambda old: np.where(old == 5, 2**60, old)),
    ("tokens", lambda old: -old - 1),
    ("scales", lambda old: np.full_like(old, np.nan)),
    ("scales", lambda old: np.full_like(old, np.inf)),
    ("scales", lambda old: -old),
]


@pytest.mark.parametrize("place", range(len(FORGED)))
def test_forged_numbers_lead_nowhere(place: int, small: Index) -> None:
    name, forge = FORGED[place]
    path = first_segment(small)
    whole = path.read_bytes()
    stored = pa.ipc.open_file(pa.BufferReader(whole)).get_batch(0).column("states")
    old = np.array(stored.offsets if name == "ends" else stored.values.field(name))
    forged = whole.replace(old.tobytes(), np.asarray(forge(old), old.dtype).tobytes())
    path.write_bytes(forged)
    sha = hashlib.sha256(forged).hexdigest()
    signed(small, lambda config: config["segments"][0]["file"].update({"sha256": sha}))
    for _ in range(2):
        with pytest.raises(DataError, match=str(small.folder)):
            Index.open(small.folder).states([5])


# --- the states of dialogues --------------------------------------------------------------------------------


def test_turns_stand_one_after_the_other_without_marks(encoder: Encoder) -> None:
    turns = ["Good morning!", " ", "[SEP] is what I typed.", "Good morning!", ""]
    (found,) = dialogue_states([turns], encoder, 4)
    each = text_states([text for text in turns if text.strip()], encoder, 4)
    assert found.tokens.tolist() == [int(token) for one in each for token in one.tokens[1:-1]]
    assert np.array_equal(found.numbers, np.concatenate([one.numbers[1:-1] for one in each]))
    assert np.linalg.norm(found.vectors, axis=1) == pytest.approx(np.ones(len(found)), abs=1e-5)
    assert not np.isin(found.tokens, encoder.tokenizer.special()[0]).any()


def test_turns_are_encoded_once_and_blocks_change_nothing(
    chats: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    run = Encoder._run

    def count(self: Encoder, texts: list[str], *rest: Any) -> Any:
        seen.extend(texts)
        return run(self, texts, *rest)

    monkeypatch.setattr(Encoder, "_run", count)
    fresh = Encoder(artefact.load(DEFAULT), memory=0)
    whole = list(dialogue_states([*chats, [], *chats], fresh, 1))
    assert len(seen) == len({text.strip() for chat in chats for text in chat})
    monkeypatch.setattr("dialeval.models.token_states.ROOM", 500)
    parts = list(dialogue_states([*chats, [], *chats], fresh, 1))
    assert len(whole) == len(parts) == 2 * len(chats) + 1
    for one, other in zip(whole, parts, strict=True):
        assert one.tokens.tolist() == other.tokens.tolist()
        assert np.abs(one.vectors - other.vectors).max(initial=0) <= 1e-5


@pytest.mark.parametrize("weighed", [False, True])
def test_stored_states_score_as_fresh_ones(
    weighed: bool, encoder: Encoder, chats: list[list[str]], tmp_path: Path
) -> None:
    idf = Idf.of((text for chat in chats for text in chat), encoder.tokenizer) if weighed else None
    matcher, draw = Matcher(encoder, 6, idf), random.Random(3)
    fresh = list(dialogue_states(chats, encoder, 6))
    index = Index.build(tmp_path / "index", names(len(chats)), {"states": fresh}, encoder=encoder)
    lists = [draw.sample(range(len(chats)), 8) for _ in chats]
    exact = np.array(list(matcher.compare(fresh, [[fresh[row] for row in rows] for rows in lists])))
    found = np.array(list(matcher.compare(fresh, [index.states(rows) for rows in lists])))
    assert found.shape == (len(chats), 8, 3)
    assert 0 < np.abs(found - exact).max() <= 1e-3
    assert 0.3 < exact.mean() < 0.9


def test_nothing_said_scores_0_and_a_dialogue_itself_1(encoder: Encoder, tmp_path: Path) -> None:
    nothing, something = dialogue_states([["", " "], ["Good morning!", "Is it?"]], encoder, 6)
    index = Index.build(tmp_path / "index", ["a", "b"], {"states": [nothing, something]})
    matcher = Matcher(encoder, 6)
    stored = index.states(["a", "b"])
    blank, spoken = matcher.compare([nothing, something], [stored, stored])
    assert not blank.any()
    assert not spoken[0].any()
    assert spoken[1] == pytest.approx([1, 1, 1], abs=1e-3)
    assert spoken.max() <= 1
    assert matcher.score([something], [[]]).tolist() == [[0, 0, 0]]


def test_states_of_another_width_are_refused(encoder: Encoder) -> None:
    with pytest.raises(UsageError, match="8 wide, those of dialeval-encoder-small 384"):
        Matcher(encoder, 6).score(["Hi"], [some([3])])
