"""Indexes: what is found is what is nearest, and nothing on disk is believed blindly."""

import contextlib
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dialeval.dialogues import Dialogue, dialogue
from dialeval.errors import DataError, UsageError
from dialeval.models.index import Hit, Index, approximate, features
from dialeval.models.index.layout import IndexConfig
from dialeval.models.index.ragged import bucket, words

SAID = [
    "I need a cheap hotel in the north",
    "a hotel, a cheap hotel!",
    "When does the train to Ely leave?",
    "",
    "The train leaves at noon. The train is late",
    "Ich möchte ein günstiges Zimmer",
    "I need a cheap hotel in the north",
    "?!",
]


@dataclass(frozen=True)
class Letters:
    """An encoder that counts letters: real vectors, no weights."""

    name: str = "letters"
    sha: str = "a" * 64
    width: int = 26
    asked: list[int] = field(default_factory=list, compare=False)

    def vectors(self, texts: Sequence[str]) -> Any:
        self.asked.append(len(texts))
        counts = [[text.lower().count(chr(97 + one)) for one in range(self.width)] for text in texts]
        return np.array(counts, np.float32) + 0.01


def names(number: int, start: int = 0) -> list[str]:
    return [f"d{one}" for one in range(start, start + number)]


def vectors(rows: int, width: int = 16, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(rows, width)).astype(np.float32)


def clustered(rows: int, width: int = 32, seed: int = 0) -> Any:
    chance = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(40, width))
    return (centres[chance.integers(0, 40, rows)] + 0.6 * chance.normal(size=(rows, width))).astype(
        np.float32
    )


def brute(stored: Any, query: Any, k: int) -> list[tuple[int, float]]:
    """The textbook: all cosines in double precision, highest first, then earliest."""
    stored, query = stored.astype(np.float64), query.astype(np.float64)
    lengths = np.linalg.norm(stored, axis=1) * np.linalg.norm(query)
    scores = np.divide(stored @ query, lengths, out=np.zeros(len(stored)), where=lengths > 0)
    return [(row, scores[row]) for row in sorted(range(len(stored)), key=lambda row: (-scores[row], row))[:k]]


def said(hits: list[Hit]) -> list[tuple[str, float]]:
    return [(hit.id, round(hit.score, 9)) for hit in hits]


@pytest.fixture
def small(tmp_path: Path) -> Index:
    """Two segments, both kinds of column, documents."""
    given = {"text": vectors(8), "words": SAID}
    texts = [text.encode() for text in SAID]
    index = Index.build(tmp_path / "small", names(8), given, documents=texts, encoder=Letters())
    index.add(names(3, 8), {"text": vectors(3, seed=1), "words": SAID[:3]}, documents=texts[:3])
    return index


def parts(index: Index) -> list[Path]:
    return sorted(path for path in (index.folder / "parts").rglob("*") if path.is_file())


# --- exact search -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "width", "k"), [(1, 1, 5), (40, 3, 40), (500, 64, 50), (20_000, 24, 50)])
def test_exact_equals_brute_force(rows: int, width: int, k: int, tmp_path: Path) -> None:
    stored, queries = vectors(rows, width), vectors(9, width, seed=5)
    index = Index.build(tmp_path / "index", names(rows), {"text": stored})
    kept = index.vectors("text")
    for query, hits in zip(queries, index.search(queries, k), strict=True):
        wanted = brute(kept, query, k)
        assert [hit.id for hit in hits] == [f"d{row}" for row, _ in wanted]
        assert [hit.score for hit in hits] == pytest.approx([score for _, score in wanted], abs=1e-12)
        assert [score for _, score in brute(stored, query, k)] == pytest.approx(
            [h.score for h in hits], abs=1e-6
        )


def test_of_equals_the_earlier_row_wins(tmp_path: Path) -> None:
    one, other = vectors(2, 48, seed=3)
    stored = np.stack([other, one, one, other * 3, one * 0.5, np.zeros(48)] * 2000)
    index = Index.build(tmp_path / "index", names(12_000), {"text": stored.astype(np.float32)})
    (hits,) = index.search(one[None], 5)
    assert [hit.id for hit in hits] == ["d1", "d2", "d4", "d7", "d8"]
    assert all(abs(hit.score - 1) < 1e-7 and hit.score <= 1 for hit in hits)
    (nothing,) = index.search(np.zeros((1, 48)), 3)
    assert nothing == [Hit("d0", 0.0), Hit("d1", 0.0), Hit("d2", 0.0)]
    assert index.search(-one[None], 12_000)[0][-1].score == pytest.approx(-1)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0, 1e-30, 3e37]), min_size=3, max_size=3), min_size=1
    ),
    k=st.integers(1, 12),
)
def test_any_small_matrix(rows: list[list[float]], k: int, tmp_path: Path) -> None:
    index = Index.build(tmp_path / "index", names(len(rows)), {"text": np.array(rows)})
    for query, hits in zip(index.vectors(), index.search(index.vectors(), k), strict=True):
        scores = [score for _, score in brute(index.vectors(), query, k)]
        assert [hit.score for hit in hits] == pytest.approx(scores, abs=1e-9)
        assert [(-hit.score, int(hit.id[1:])) for hit in hits] == sorted(
            (-h.score, int(h.id[1:])) for h in hits
        )


def test_company_and_order_of_queries_change_nothing(tmp_path: Path) -> None:
    stored, queries = vectors(3000, 40), vectors(300, 40, seed=8)
    texts = [" ".join(f"w{one}" for one in np.abs(row * 9).astype(int)) for row in stored]
    index = Index.build(tmp_path / "index", names(3000), {"text": stored, "words": texts})
    asked: list[tuple[str, Any]] = [("text", queries), ("words", texts[:300])]
    for column, every in asked:
        whole = index.search(every, 20, column=column)
        for size in (1, 7, 64):
            parts = [index.search(every[at : at + size], 20, column=column) for at in range(0, 70, size)]
            assert [hits for part in parts for hits in part][:70] == whole[:70]
        order = np.random.default_rng(1).permutation(300).tolist()
        turned = index.search(
            [every[at] for at in order] if column == "words" else every[order], 20, column=column
        )
        assert turned == [whole[at] for at in order]


def test_cosines_are_the_scores_of_all(small: Index) -> None:
    for column, query in (("text", vectors(4, seed=7)), ("words", ["cheap train", "", "Zimmer", "north"])):
        every = small.cosines(query, column=column)
        assert every.shape == (4, 11)
        for row, hits in zip(every, small.search(query, 11, column=column), strict=True):
            assert {hit.id: hit.score for hit in hits} == dict(zip(small.ids, row.tolist(), strict=True))
    assert small.cosines(np.empty((0, 16))).shape == (0, 11)
    assert small.search(np.empty((0, 16))) == small.search([], column="words") == []


# --- words --------------------------------------------------------------------------------------------------


def test_tfidf_equals_an_independent_one(tmp_path: Path) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    queries = [
        "A CHEAP train to the north",
        "unseen word",
        "hotel hotel unseen",
        "",
        "günstiges Zimmer, late train",
    ]
    terms = {term for text in SAID + queries for term in words(text)}
    assert len({bucket(term, 1 << 20) for term in terms}) == len(terms)  # no two share one here
    index = Index.build(tmp_path / "index", names(5), {"words": SAID[:5]})
    index.add(names(3, 5), {"words": SAID[5:]})
    oracle = TfidfVectorizer(tokenizer=words, token_pattern=None, lowercase=False)
    stored = oracle.fit_transform(SAID)
    wanted = (oracle.transform(queries) @ stored.T).toarray()
    assert np.abs(index.cosines(queries, column="words") - wanted).max() < 1e-6
    for row, hits in zip(wanted, index.search(queries, 8, column="words"), strict=True):
        assert [hit.score for hit in hits] == pytest.approx(sorted(row, reverse=True), abs=1e-6)
    assert wanted.max() > 0.5


def test_terms_are_taken_as_they_are(tmp_path: Path) -> None:
    index = Index.build(tmp_path / "index", ["a", "b"], {"acts": [["Inform", "inform hotel"], ["inform"]]})
    assert index.search([["inform hotel"]], column="acts")[0][0] == Hit("a", pytest.approx(math.sqrt(0.5)))
    assert index.search(["inform hotel"], column="acts")[0][0] == Hit("b", pytest.approx(1.0))


def test_buckets_do_not_depend_on_the_process(small: Index) -> None:
    code = (
        "import sys; from dialeval.models.index import Index; i = Index.open(sys.argv[1])\n"
        "print([tuple(h) for hits in i.search(['cheap train'], column='words') for h in hits])\n"
        "print([tuple(h) for hits in i.search(i.vectors()[:3], column='text') for h in hits])\n"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code, str(small.folder)],
            env={**os.environ, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": seed, "OPENBLAS_NUM_THREADS": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    found = [tuple(hit) for hit in small.search(["cheap train"], column="words")[0]]
    assert len(printed) == 1
    assert printed.pop().splitlines()[0] == str(found)


# --- adding and opening -------------------------------------------------------------------------------------


def test_add_equals_build(tmp_path: Path) -> None:
    stored, texts = vectors(400), [f"{SAID[one % 8]} {one % 31}" for one in range(400)]
    jsons = [text.encode() for text in texts]
    whole = Index.build(tmp_path / "whole", names(400), {"text": stored, "words": texts}, documents=jsons)
    grown = Index.build(
        tmp_path / "grown", names(7), {"text": stored[:7], "words": texts[:7]}, documents=jsons[:7]
    )
    start = 7
    for step in [1] * 20 + [3, 100, 50, 0, 220]:
        part = slice(start, start + step)
        grown.add(names(step, start), {"text": stored[part], "words": texts[part]}, documents=jsons[part])
        start += step
    assert len(grown) == len(whole) == start == 400
    config = json.loads((grown.folder / "config.json").read_text())
    assert len(config["segments"]) <= 9  # not 24: small ones became one
    for index in (grown, Index.open(grown.folder)):
        assert list(index.ids) == list(whole.ids) == names(400)
        assert index.search(stored[:50], 30) == whole.search(stored[:50], 30)
        assert index.search(texts[:50], 30, column="words") == whole.search(texts[:50], 30, column="words")
        assert index.documents(names(400)) == jsons
        assert np.array_equal(index.vectors(), whole.vectors())
        assert np.array_equal(index.vectors("text", ["d399", "d0"]), whole.vectors()[[399, 0]])
        assert index.rows(["d399", "d3"]) == [399, 3]


def test_vectors_are_mapped_not_read(tmp_path: Path) -> None:
    index = Index.build(tmp_path / "index", names(10), {"text": vectors(10)})
    found = Index.open(index.folder).vectors()
    maps = Path("/proc/self/maps").read_text().splitlines()
    ranges = [line.split()[0].split("-") for line in maps if line.endswith(".arrow")]
    assert any(int(first, 16) <= found.ctypes.data < int(last, 16) for first, last in ranges)
    assert not found.flags.writeable
    assert np.allclose(np.linalg.norm(found, axis=1), 1)


def test_same_content_same_sha(tmp_path: Path) -> None:
    one, other, third = (
        Index.build(tmp_path / name, names(5), {"text": vectors(5, seed=seed)}, encoder=encoder)
        for name, seed, encoder in (("a", 1, Letters()), ("b", 1, Letters()), ("c", 1, None))
    )
    assert one.sha == other.sha != third.sha
    assert Index.open(one.folder).sha == one.sha
    other.add(["new"], {"text": vectors(1)})
    assert one.sha != other.sha


def test_the_last_bits_of_vectors_are_no_part_of_the_sha_of_texts(tmp_path: Path) -> None:
    """They differ between processors; a signature that names a corpus must not."""
    here, there = vectors(5), np.nextafter(vectors(5), np.float32(2))
    texts = [f"text {number}".encode() for number in range(5)]

    def built(name: str, made: Any, documents: list[bytes] | None) -> str:
        columns = {"text": made}
        return Index.build(tmp_path / name, names(5), columns, encoder=Letters(), documents=documents).sha

    assert built("a", here, texts) == built("b", there, texts)
    assert built("c", here, None) != built("d", there, None)
    assert built("e", here, [*texts[:-1], b"other"]) != built("a", here, texts)


def test_another_encoder_is_refused(small: Index, tmp_path: Path) -> None:
    other = Letters("other", "b" * 64)
    assert Index.open(small.folder, encoder=Letters("renamed")).encoder == small.encoder
    with pytest.raises(
        DataError, match=r"small: was built with 'letters' \(aaaaaaaaaaaa\), not with 'other' \(bbb"
    ):
        Index.open(small.folder, encoder=other)
    with pytest.raises(DataError, match="letters"):
        small.add_dialogues([dialogue([("user", "hi")])], other)
    bare = Index.build(tmp_path / "bare", ["a"], {"text": vectors(1)})
    with pytest.raises(DataError, match="without an encoder"):
        Index.open(bare.folder, encoder=other)
    with pytest.raises(UsageError, match="64 hex"):
        Index.build(tmp_path / "bad", ["a"], {"text": vectors(1)}, encoder=Letters(sha="abc"))


def test_adding_keeps_what_another_has_added(small: Index) -> None:
    other = Index.open(small.folder)
    other.add(["theirs"], {"text": vectors(1), "words": ["x"]}, documents=[b"theirs"])
    small.add(["ours"], {"text": vectors(1), "words": ["x"]}, documents=[b"ours"])
    assert list(small.ids)[-2:] == ["theirs", "ours"]
    assert small.documents(["ours", "theirs", "d0"]) == [b"ours", b"theirs", SAID[0].encode()]
    assert len(other) == 12  # as it was opened, until it is opened again
    assert other.search(vectors(1), 3) is not None
    Index.build(small.folder, ["a"], {"text": vectors(1, 4)})
    with pytest.raises(DataError, match="open it again"):
        small.add(["b"], {"text": vectors(1), "words": ["x"]}, documents=[b""])
    assert other.documents(["theirs"]) == [b"theirs"]  # what is open stays whole, though its files are gone


# --- what cannot be done ------------------------------------------------------------------------------------

ODD_IDS = ["späte Züge", "喂", "a\nb", "a", "a\x00", " ", "../../etc", "é", "e\u0301", "🙂" * 2000]


def test_ids_of_any_kind(tmp_path: Path) -> None:
    index = Index.build(tmp_path / "index", ODD_IDS, {"text": vectors(10)}, documents=[b"\n\n", b""] * 5)
    again = Index.open(index.folder)
    assert list(again.ids) == ODD_IDS
    assert again.rows(ODD_IDS[::-1]) == list(range(10))[::-1]
    assert again.ids[-1] == ODD_IDS[-1]
    assert again.ids[2:4] == ["a\nb", "a"]
    assert again.documents(ODD_IDS) == [b"\n\n", b""] * 5
    assert {hit.id for hit in again.search(vectors(1), 99)[0]} == set(ODD_IDS)
    with pytest.raises(IndexError):
        again.ids[10]


@pytest.mark.parametrize(
    ("ids", "columns", "message"),
    [
        (["a", "b", "a"], {"text": vectors(3)}, "'a': rows 0 and 2 have the same id"),
        (["a", ""], {"text": vectors(2)}, "empty"),
        (["a", "\ud800"], {"text": vectors(2)}, "surrogate"),
        (["a", 3], {"text": vectors(2)}, "not 3"),
        ("ab", {"text": vectors(2)}, "list of strings"),
        (["a"], {"text": vectors(2)}, "text: 2 rows for 1 ids"),
        (["a"], {"words": ["x", "y"]}, "words: 2 rows for 1 ids"),
        (["a"], {"words": "x"}, "words: 1 rows|list of strings"),
        (["a"], {"words": [3]}, "words: 3 is neither"),
        (["a"], {"words": [[0.5]]}, "a numpy array"),
        (["a"], {"words": [None]}, "None is neither"),
        (["a"], {"text": vectors(1)[0]}, "text: 16 rows"),
        (["a"], {"text": np.array(["x"])}, "array of numbers"),
        (["a"], {"text": np.empty((1, 0))}, "array of numbers"),
        (["a"], {"text": np.array([[1j]])}, "array of numbers"),
        (["a", "b"], {"text": np.array([[1.0], [np.nan]])}, "text: the vector of 'b' is not finite"),
        (["a", "b"], {"text": np.array([[-np.inf], [1]])}, "text: the vector of 'a' is not finite"),
        (["a"], {}, "needs a column"),
        (["a"], {"Text": vectors(1)}, "'Text' cannot be the name"),
        (["a"], {"../x": ["a"]}, "cannot be the name"),
        (["a"], {"ids": ["a"]}, "'ids' cannot be the name"),
        ([], {"text": vectors(0)}, "no dialogues"),
    ],
)
def test_bad_rows_are_refused_and_leave_nothing(
    ids: Any, columns: Any, message: str, small: Index, tmp_path: Path
) -> None:
    before = {path: path.read_bytes() for path in parts(small)}
    for folder in (tmp_path / "fresh", small.folder):
        with pytest.raises((DataError, UsageError), match=message):
            Index.build(folder, ids, columns)
    assert not (tmp_path / "fresh").exists()
    assert {path: path.read_bytes() for path in parts(small)} == before
    assert len(Index.open(small.folder)) == 11


@pytest.mark.parametrize(
    ("ids", "columns", "documents", "message"),
    [
        (["new", "d9"], {"text": vectors(2), "words": ["", ""]}, [b"", b""], "'d9': is in the index already"),
        (["x", "y", "x"], {"text": vectors(3), "words": [""] * 3}, [b""] * 3, "same id"),
        (["new"], {"text": vectors(1, 15), "words": [""]}, [b""], "15 wide, those of the index 16"),
        (["new"], {"text": vectors(1)}, [b""], r"columns \['text'\], but the index has \['text', 'words'\]"),
        (["new"], {"text": vectors(1), "words": [""]}, None, "with documents"),
        (["new"], {"text": vectors(1) * np.inf, "words": [""]}, [b""], "'new' is not finite"),
    ],
)
def test_bad_additions_are_refused(
    ids: Any, columns: Any, documents: Any, message: str, small: Index
) -> None:
    with pytest.raises((DataError, UsageError), match=message):
        small.add(ids, columns, documents=documents)
    assert len(small) == len(Index.open(small.folder)) == 11
    assert len(list((small.folder / "parts").iterdir())) == 2
    small.add(["late"], {"text": vectors(1), "words": [""]}, documents=[b""])
    assert len(small) == 12


@pytest.mark.parametrize(
    ("query", "options", "message"),
    [
        (vectors(1), {"k": 0}, "not 0"),
        (vectors(1), {"k": -3}, "not -3"),
        (vectors(1), {"k": 2.5}, "not 2.5"),
        (vectors(1), {"k": True}, "not True"),
        (vectors(1), {"column": "acts"}, "no column 'acts' in this index; it has text, words"),
        (vectors(1)[0], {}, "a row for each"),
        (vectors(1, 15), {}, "15 wide"),
        (vectors(1) * np.nan, {}, "query 0 is not finite"),
        (["hello"], {}, "array of numbers"),
        ("hello", {"column": "words"}, "list of strings"),
        (vectors(1), {"column": "words"}, "list of strings"),
    ],
)
def test_bad_queries_are_refused(query: Any, options: Any, message: str, small: Index) -> None:
    with pytest.raises((UsageError, DataError), match=message):
        small.search(query, **options)


def test_what_is_not_there(small: Index, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'nobody': is not in the index"):
        small.documents(["d0", "nobody"])
    with pytest.raises(UsageError, match="list of strings"):
        small.rows("d0")
    with pytest.raises(UsageError, match="has words, not vectors"):
        small.vectors("words")
    with pytest.raises(DataError, match="not a dialogue"):
        small.dialogues(["d0"])
    bare = Index.build(tmp_path / "bare", ["a"], {"text": vectors(1)})
    with pytest.raises(UsageError, match="without documents"):
        bare.documents(["a"])
    for nothing in (tmp_path / "nothing", tmp_path / "bare" / "config.json"):
        with pytest.raises(DataError):
            Index.open(nothing)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="not an index"):
        Index.open(tmp_path / "empty")


@pytest.mark.parametrize("kind", ["file", "notes", "artefact", "json", "git"])
def test_other_folders_are_left_alone(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "place"
    if kind == "file":
        place.write_text("mine")
    else:
        place.mkdir()
        names = {"notes": "notes.txt", "artefact": "config.json", "json": "config.json", "git": ".git"}
        (place / names[kind]).write_text('{"class": "encoder.v1"}' if kind == "artefact" else "mine")
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    with pytest.raises(DataError, match=str(place)):
        Index.build(place, ["a"], {"text": vectors(1)})
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_a_full_disk_changes_nothing(small: Index) -> None:
    code = (
        "import resource, sys, numpy as np\n"
        "from dialeval.models.index import Index\n"
        "index = Index.open(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "ids = [f'n{one}' for one in range(2000)]\n"
        "index.add(ids, {'text': np.ones((2000, 16)), 'words': ids}, documents=[b''] * 2000)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(small.folder)], check=False, capture_output=True, text=True
    )
    assert "DataError" in done.stderr.splitlines()[-1]
    assert "nothing was changed" in done.stderr.splitlines()[-1]
    assert len(Index.open(small.folder)) == 11
    assert len(list((small.folder / "parts").iterdir())) == 2


# --- damage and malice --------------------------------------------------------------------------------------


def test_every_byte_is_checked_on_opening_and_none_is_carried_on(small: Index) -> None:
    for path in parts(small):
        whole = bytearray(path.read_bytes())
        whole[0] ^= 1
        path.write_bytes(whole)
        with pytest.raises(DataError, match=f"{path}: changed or damaged"):
            Index.open(small.folder)
        assert len(Index.open(small.folder, trust=True)) == 11
        with pytest.raises(DataError, match=str(path)):  # even where it would become one with what is added
            small.add(names(20, 20), {"text": vectors(20), "words": ["x"] * 20}, documents=[b""] * 20)
        whole[0] ^= 1
        path.write_bytes(whole)
    assert len(Index.open(small.folder)) == 11
    assert len(parts(small)) == 2


@pytest.mark.parametrize("how", ["short", "long", "missing", "link", "pipe"])
def test_a_file_of_another_size_or_kind_is_refused_at_once(how: str, small: Index) -> None:
    path = parts(small)[0]
    whole = path.read_bytes()
    path.unlink()
    if how == "link":
        (small.folder.parent / "elsewhere").write_bytes(whole)
        path.symlink_to(small.folder.parent / "elsewhere")
    elif how == "pipe":
        os.mkfifo(path)
    elif how != "missing":
        path.write_bytes(whole[:-1] if how == "short" else whole + b"\0")
    with pytest.raises(DataError, match=str(path)):
        Index.open(small.folder)


def edited(index: Index, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change `config.json` as somebody would who knows how it is signed."""
    path = index.folder / "config.json"
    config = json.loads(path.read_text())
    change(config)
    with contextlib.suppress(msgspec.ValidationError):
        config["sha"] = msgspec.convert(config, IndexConfig).signed().sha
    path.write_text(json.dumps(config))


def renamed(config: dict[str, Any], name: Any) -> None:
    config["segments"][0]["name"] = name


def test_an_index_of_the_older_layout_says_how_to_build_it_again(small: Index) -> None:
    edited(small, lambda c: c.update({"class": "index.v2"}))
    with pytest.raises(DataError, match=r"this is 'index.v2', not index.v3"):
        Index.open(small.folder)


HOSTILE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "unknown class": lambda c: c.update({"class": "index.v9"}),
    "another class": lambda c: c.update({"class": "encoder.v1"}),
    "no class": lambda c: c.pop("class"),
    "class no string": lambda c: c.update({"class": ["index.v1"]}),
    "parent": lambda c: renamed(c, "../rows-0123456789abcdef.arrow"),
    "absolute": lambda c: renamed(c, "/etc"),
    "newline": lambda c: renamed(c, c["segments"][0]["name"] + "\n"),
    "no name": lambda c: renamed(c, None),
    "another part": lambda c: renamed(c, "rows-0123456789abcdef.arrow"),
    "no file": lambda c: c["segments"][0].pop("file"),
    "column parent": lambda c: c["columns"].update({"../text": {"kind": "dense", "width": 16}}),
    "column more": lambda c: c["columns"].update({"more": {"kind": "sparse", "buckets": 8}}),
    "column kind": lambda c: c["columns"]["text"].update({"kind": "pickled"}),
    "no columns": lambda c: c.update({"columns": {}}),
    "width": lambda c: c["columns"]["text"].update({"width": 17}),
    "huge width": lambda c: c["columns"]["text"].update({"width": 2**60}),
    "huge rows": lambda c: c["segments"][0].update({"rows": 2**39}),
    "beyond rows": lambda c: c["segments"][0].update({"rows": 2**60}),
    "negative rows": lambda c: c["segments"][0].update({"rows": -1}),
    "no rows": lambda c: c["segments"][0].update({"rows": 0}),
    "no segments": lambda c: c.update({"segments": []}),
    "size": lambda c: c["segments"][0]["file"].update({"size": 2**60}),
    "hash": lambda c: c["segments"][0]["file"].update({"sha256": "x"}),
    "more fields": lambda c: c.update({"run": "rm -rf ~"}),
    "encoder": lambda c: c.update({"encoder": {"name": "x", "sha": "../../x"}}),
    "approximate": lambda c: c["approximate"].update({"text": {"method": "python", "rows": 1}}),
    "approximate rows": lambda c: c["approximate"].update({"text": {"method": "exact", "rows": 99}}),
    "approximate words": lambda c: c["approximate"].update({"words": {"method": "exact", "rows": 1}}),
    "approximate nothing": lambda c: c["approximate"].update({"more": {"method": "exact", "rows": 1}}),
    "approximate without": lambda c: c["approximate"].update({"text": {"method": "ivf", "rows": 1}}),
}


@pytest.mark.parametrize("kind", list(HOSTILE))
def test_hostile_configs_are_refused(kind: str, small: Index) -> None:
    edited(small, HOSTILE[kind])
    with pytest.raises(DataError, match=str(small.folder)):
        Index.open(small.folder)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{", b"\xff", b'{"class": NaN}', b"[" * 100_000, b'{"a":1,"a":2}', b" " * 2_000_000]
)
def test_what_is_no_config_is_refused(text: bytes, small: Index) -> None:
    (small.folder / "config.json").write_bytes(text)
    with pytest.raises(DataError, match=str(small.folder / "config.json")):
        Index.open(small.folder)
    Index.build(small.folder, ["a"], {"text": vectors(1)})  # a damaged index may be built afresh
    assert len(Index.open(small.folder)) == len(list((small.folder / "parts").iterdir())) == 1


def test_any_changed_byte_of_the_config_is_noticed(small: Index) -> None:
    path = small.folder / "config.json"
    whole, chance = path.read_bytes(), np.random.default_rng(4)
    version = whole.index(b'"dialeval"')
    for place in [*chance.integers(0, len(whole), 200).tolist(), 0, len(whole) - 3]:
        if version <= place < version + 22:  # which version wrote it is for people
            continue
        changed = bytes([whole[place] ^ (1 << int(chance.integers(0, 7)))])
        path.write_bytes(whole[:place] + changed + whole[place + 1 :])
        if whole[place : place + 1].isspace() and changed.isspace():
            continue
        with pytest.raises(DataError, match=str(small.folder)):
            Index.open(small.folder)


@pytest.mark.parametrize("what", ["config.json", "parts", "part"])
def test_links_are_not_followed(what: str, small: Index, tmp_path: Path) -> None:
    place = small.folder / what if what != "part" else next((small.folder / "parts").iterdir())
    elsewhere = tmp_path / "elsewhere"
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    with pytest.raises(DataError, match=f"{place}: .*link"):
        Index.open(small.folder)
    (tmp_path / "way").symlink_to(small.folder)
    place.unlink()
    elsewhere.rename(place)
    assert len(Index.open(tmp_path / "way")) == 11  # the user's own link to the folder is fine


FORGED: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "words ends": (lambda one: one.offsets, lambda old: np.full_like(old, 2**50)),
    "words buckets": (lambda one: one.values.field(0), lambda old: np.full_like(old, 2**30)),
    "words counts": (lambda one: one.values.field(1), lambda old: old * np.nan),
    "ids starts": (lambda one: np.frombuffer(one.buffers()[1], "<i8")[:9], lambda old: old + 2**50),
    "documents starts": (lambda one: np.frombuffer(one.buffers()[1], "<i8")[:9], lambda old: -old - 1),
    "text vectors": (lambda one: one.flatten(), lambda old: old * np.inf),
}
USES: dict[str, Callable[[Index], Any]] = {
    "words": lambda index: index.search(["hotel"], column="words"),
    "text": lambda index: index.search(vectors(2), 11),
    "ids": lambda index: [index.rows(["d0", "d1"]), list(index.ids)],
    "documents": lambda index: index.documents(["d0"]),
}


@pytest.mark.parametrize("name", list(FORGED))
def test_forged_numbers_lead_nowhere(name: str, small: Index) -> None:
    """Somebody puts other numbers into a file, and signs that, too."""
    (take, forge), column = FORGED[name], name.partition(" ")[0]
    path = (
        small.folder / "parts" / json.loads((small.folder / "config.json").read_text())["segments"][0]["name"]
    )
    whole = path.read_bytes()
    old = np.array(take(pa.ipc.open_file(pa.BufferReader(whole)).read_all()[column].chunk(0)))
    with np.errstate(invalid="ignore"):
        new = forge(old).astype(old.dtype)
    changed = whole.replace(old.tobytes(), new.tobytes(), 1)
    assert changed != whole
    path.write_bytes(changed)
    sha = hashlib.sha256(changed).hexdigest()
    edited(small, lambda c: c["segments"][0]["file"].update({"sha256": sha}))
    with pytest.raises(DataError, match=str(small.folder)):
        USES[column](Index.open(small.folder))


# --- two at once --------------------------------------------------------------------------------------------

WRITER = """
import sys, time, numpy as np
from dialeval.models.index import Index

def blocks():
    yield ["first"], {"text": np.ones((1, 16)), "words": ["x"]}, [b""]
    print("writing", flush=True)
    sys.stdin.readline()
    yield ["second"], {"text": np.ones((1, 16)), "words": ["x"]}, [b""]

Index.open(sys.argv[1]).add_from(blocks())
"""


@pytest.fixture
def writer(small: Index) -> Iterator[Any]:
    command = [sys.executable, "-c", WRITER, str(small.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "writing\n"
        yield running
        running.kill()


def test_a_second_writer_is_refused_and_a_reader_is_not(small: Index, writer: Any) -> None:
    with pytest.raises(DataError, match="another process is writing"):
        small.add(["ours"], {"text": vectors(1), "words": ["x"]}, documents=[b""])
    with pytest.raises(DataError, match="another process is writing"):
        Index.build(small.folder, ["ours"], {"text": vectors(1)})
    reader = Index.open(small.folder)
    assert len(reader) == 11
    writer.communicate("go\n")
    assert writer.returncode == 0
    assert len(reader) == 11
    assert reader.search(np.ones((1, 16)), 1)[0][0].id.startswith("d")
    assert Index.open(small.folder).search(np.ones((1, 16)), 1)[0][0].id == "first"


def test_what_a_kill_leaves_is_swept_by_the_next_writer(small: Index, writer: Any) -> None:
    writer.kill()
    writer.wait()
    left = list((small.folder / "parts").iterdir())
    assert len(left) == 3
    (small.folder / ".config.json.x.part").write_text("half")
    assert len(Index.open(small.folder)) == 11
    assert sorted((small.folder / "parts").iterdir()) == sorted(left)  # readers touch nothing
    small.add(["ours"], {"text": vectors(1), "words": ["x"]}, documents=[b""])
    assert len(Index.open(small.folder)) == 12
    kept = {part["name"] for part in json.loads((small.folder / "config.json").read_text())["segments"]}
    assert {path.name for path in (small.folder / "parts").iterdir()} == kept
    assert sorted(path.name for path in small.folder.iterdir()) == [".lock", "config.json", "parts"]


def test_readers_see_the_old_or_the_new(small: Index) -> None:
    code = (
        "import sys, numpy as np\n"
        "from dialeval.models.index import Index\n"
        "for number in range(1, 31):\n"
        "    ids = [f'{number}-{one}' for one in range(number)]\n"
        "    words = [f'w{number}'] * number\n"
        "    Index.build(sys.argv[1], ids, {'text': np.full((number, 16), number), 'words': words})\n"
    )
    Index.build(small.folder, ["1-0"], {"text": np.full((1, 16), 1), "words": ["w1"]})
    seen = set()
    with subprocess.Popen([sys.executable, "-c", code, str(small.folder)]) as building:
        while building.poll() is None:
            index = Index.open(small.folder)
            number = len(index)
            assert list(index.ids) == [f"{number}-{one}" for one in range(number)]
            hits = index.search([f"w{number}"], 50, column="words")[0]
            assert [round(hit.score, 9) for hit in hits] == [1.0] * number
            seen.add(number)
    assert building.returncode == 0
    assert len(seen) > 3
    assert len(Index.open(small.folder)) == 30


# --- approximate search -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ivf") / "large"
    index = Index.build(folder, names(4000), {"text": clustered(4000)}, exact_up_to=2000)
    assert index.approximate["text"].method == "ivf"
    return folder


@pytest.fixture
def large(built: Path, tmp_path: Path) -> Index:
    shutil.copytree(built, tmp_path / "large")
    return Index.open(tmp_path / "large")


def recall(index: Index, queries: Any) -> float:
    found, exact = index.search(queries, 50), index.search(queries, 50, exact=True)
    shared = [
        len({h.id for h in one} & {h.id for h in other}) for one, other in zip(found, exact, strict=True)
    ]
    return sum(shared) / (50 * len(exact))


def test_approximate_search_finds_nearly_all_of_it(large: Index) -> None:
    entry = json.loads((large.folder / "config.json").read_text())["approximate"]["text"]
    assert entry["recall_at_50"] >= 0.95
    assert entry["queries"] == 300
    assert entry["rows"] == 4000
    assert entry["effort"] > 0
    queries = clustered(200, seed=7)
    for index in (large, Index.open(large.folder)):
        assert recall(index, queries) >= 0.95
    exact = {hit.id: hit.score for hit in large.search(queries[:1], 4000, exact=True)[0]}
    assert all(exact[hit.id] == hit.score for hit in large.search(queries[:1], 50)[0])


def test_approximate_search_does_not_depend_on_company(large: Index) -> None:
    queries = clustered(100, seed=7)
    whole = large.search(queries, 50)
    for size in (1, 7, 64):
        parts = [large.search(queries[at : at + size], 50) for at in range(0, 100, size)]
        assert [hits for part in parts for hits in part] == whole


def test_what_is_added_to_a_large_index_is_found(large: Index) -> None:
    before = large.approximate["text"]
    large.add(names(1500, 4000), {"text": clustered(1500, seed=1)})
    assert large.approximate["text"] == before  # few enough to be searched one by one
    queries = clustered(1500, seed=1)[::50]
    assert [hits[0].id for hits in large.search(queries, 5)] == [f"d{row}" for row in range(4000, 5500, 50)]
    assert recall(large, clustered(200, seed=7)) >= 0.95
    large.add(names(600, 5500), {"text": clustered(600, seed=2)})
    assert large.approximate["text"].rows == 6100  # too many: all of them are in it now
    assert large.approximate["text"].part != before.part
    assert len([path for path in (large.folder / "parts").iterdir() if path.name.startswith("lists")]) == 1
    assert recall(Index.open(large.folder), clustered(200, seed=7)) >= 0.95


def test_growing_past_the_limit(tmp_path: Path) -> None:
    stored = clustered(2400)
    index = Index.build(tmp_path / "index", names(1900), {"text": stored[:1900]}, exact_up_to=2000)
    assert index.approximate == {}
    index.add(names(500, 1900), {"text": stored[1900:]})
    assert index.approximate["text"].rows == 2400
    assert recall(index, clustered(200, seed=7)) >= 0.95


def test_few_dialogues_are_always_searched_exactly(tmp_path: Path) -> None:
    index = Index.build(tmp_path / "index", names(3), {"text": vectors(3)}, exact_up_to=0)
    assert index.approximate == {}
    assert len(index.search(vectors(1))[0]) == 3
    for wrong in (-1, 2.5):
        with pytest.raises(UsageError, match="exact_up_to"):
            Index.build(tmp_path / "wrong", ["a"], {"text": vectors(1)}, exact_up_to=wrong)  # type: ignore[arg-type]


def test_large_questions_are_answered_exactly(large: Index) -> None:
    queries = clustered(3, seed=7)
    assert large.search(queries, 101) == large.search(queries, 101, exact=True)
    assert [len(hits) for hits in large.search(queries, 100)] == [100] * 3


def test_a_reader_outlives_the_graph_it_has_not_looked_at(large: Index) -> None:
    reader = Index.open(large.folder)
    Index.build(large.folder, ["only"], {"text": clustered(1)})
    queries = clustered(3, seed=7)
    assert [hits[0].id for hits in reader.search(queries, 5)] == [
        hits[0].id for hits in reader.search(queries, 5)
    ]
    assert reader.search(queries, 5) == reader.search(queries, 5, exact=True)


def graph(index: Index) -> Path:
    return next(path for path in parts(index) if path.name.startswith("lists"))


def test_a_damaged_graph_never_reaches_faiss(large: Index) -> None:
    path = graph(large)
    whole = path.read_bytes()
    path.write_bytes(whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:])
    with pytest.raises(DataError, match=f"{path}: changed or damaged"):
        Index.open(large.folder)
    index = Index.open(large.folder, trust=True)
    for _ in range(2):
        with pytest.raises(DataError, match=f"{path}: changed or damaged"):
            index.search(clustered(1))
    assert len(index.search(clustered(1), exact=True)[0]) == 50
    path.write_bytes(whole)
    assert len(Index.open(large.folder).search(clustered(1))[0]) == 50
    path.write_bytes(whole[:-1])
    with pytest.raises(DataError, match=f"{path}: .*cut off"):
        Index.open(large.folder)


@pytest.mark.parametrize("kind", ["other rows", "no faiss file", "text"])
def test_a_forged_graph_is_refused(kind: str, large: Index) -> None:
    import faiss

    path = graph(large)
    if kind == "text":
        path.write_bytes(b"IHNf" + b"\xff" * 500)
    elif kind == "other rows":
        other = faiss.IndexFlatIP(32)
        other.add(clustered(4000))
        faiss.write_index(other, str(path))
    else:
        path.write_bytes(b"")
    stored = {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "size": path.stat().st_size}
    edited(large, lambda c: c["approximate"]["text"]["part"]["file"].update(stored))
    with pytest.raises(DataError, match=str(path)):
        Index.open(large.folder).search(clustered(1))


def test_too_low_recall_leaves_search_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approximate, "_EFFORTS", (1,))
    index = Index.build(tmp_path / "index", names(4000), {"text": vectors(4000, 64)}, exact_up_to=2000)
    entry = index.approximate["text"]
    assert (entry.method, entry.part) == ("exact", None)
    assert entry.recall_at_50 is not None
    assert entry.recall_at_50 < 0.95
    assert "search stays exact" in str(entry.note)
    assert recall(Index.open(index.folder), vectors(20, 64, seed=7)) == 1.0
    index.add(["new"], {"text": vectors(1, 64, seed=3)})  # and is not tried again each time
    assert index.approximate["text"] == entry


def test_without_faiss_search_is_exact(large: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    queries = clustered(5, seed=7)
    reader = Index.open(large.folder)
    assert reader.search(queries) == reader.search(queries, exact=True)
    index = Index.build(tmp_path / "index", names(2100), {"text": clustered(2100)}, exact_up_to=2000)
    assert "not installed" in str(index.approximate["text"].note)
    assert len(Index.open(index.folder).search(queries)[0]) == 50


# --- dialogues ----------------------------------------------------------------------------------------------


def chats(number: int, start: int = 0) -> Iterator[Dialogue]:
    for one in range(start, start + number):
        turns = [
            ("system", "Be kind."),
            ("user", f"{SAID[one % 8]} {'x' * (one % 50)}"),
            ("assistant", "Zzz"),
        ]
        yield dialogue(turns, f"chat-{one}", system="bot", references={2: ["Fine."]}, meta={"n": one})


def test_dialogues_come_back_as_they_were(tmp_path: Path) -> None:
    encoder, told = Letters(), list[int]()
    index = Index.of_dialogues(tmp_path / "index", chats(4500), encoder, progress=told.append)
    assert told == [2000, 4000, 4500]
    assert max(encoder.asked) <= 2001  # a stream: never all of them at once, and each text once
    assert index.columns == {"text": "dense", "words": "sparse"}
    assert index.dialogues(["chat-4499", "chat-0"]) == [*chats(1, 4499), *chats(1)]
    assert index.encoder is not None
    assert index.encoder.name == "letters"
    found = features(list(chats(2, 17)), encoder)
    for column in ("text", "words"):
        hits = Index.open(index.folder, encoder=encoder).search(found[column], 3, column=column)
        assert [round(hits[row][0].score, 6) for row in (0, 1)] == [1.0, 1.0]
    assert hits[0][0].id == "chat-17"
    index.add_dialogues(chats(2, 5000), encoder)
    assert index.ids[-2:] == ["chat-5000", "chat-5001"]
    with pytest.raises(DataError, match="'chat-3': is in the index already"):
        index.add_dialogues(chats(1, 3), encoder)


def test_the_text_of_a_dialogue_is_the_mean_of_its_turns(tmp_path: Path) -> None:
    turns = [("system", "zzzz"), ("user", "aab"), ("assistant", ""), ("assistant", "b"), ("tool", "{}")]
    some = [dialogue(turns, "d1"), dialogue([], "d2"), dialogue([("user", None)], "d3")]
    index = Index.of_dialogues(tmp_path / "index", some, Letters())
    first, *others = index.vectors()
    mean = (Letters().vectors(["aab"]) + Letters().vectors(["b"]))[0] / 2
    assert np.allclose(first, mean / np.linalg.norm(mean), atol=1e-6)
    assert not np.any(others)
    assert [hit.score for hit in index.search(features(some[1:2], Letters())["text"])[0]] == [0, 0, 0]
    with pytest.raises(DataError, match="no dialogues"):
        Index.of_dialogues(tmp_path / "none", [], Letters())
    assert not (tmp_path / "none").exists()


def test_an_error_in_the_stream_changes_nothing(small: Index) -> None:
    def broken() -> Iterator[Dialogue]:
        yield from chats(2500)
        raise DataError("not a list", file="chats.jsonl", line=2501)

    for folder in (small.folder, small.folder.parent / "fresh"):
        with pytest.raises(DataError, match=r"chats\.jsonl:2501"):
            Index.of_dialogues(folder, broken(), Letters())
    assert not (small.folder.parent / "fresh").exists()
    assert len(Index.open(small.folder)) == 11


def test_import_is_light() -> None:
    heavy = "'faiss', 'scipy', 'pyarrow', 'onnxruntime'"
    code = f"import sys, dialeval.models.index; print([one for one in ({heavy}) if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_a_copied_index_opens(small: Index, tmp_path: Path) -> None:
    shutil.copytree(small.folder, tmp_path / "copy")
    assert Index.open(tmp_path / "copy").search(vectors(2)) == small.search(vectors(2))
    assert Index.open(tmp_path / "copy").sha == small.sha


def test_the_shipped_encoder_fits(tmp_path: Path) -> None:
    from dialeval.models.encoder import Encoder

    encoder = Encoder.load()
    some = [
        dialogue([("user", text), ("assistant", "Let me see.")], f"d{one}") for one, text in enumerate(SAID)
    ]
    index = Index.of_dialogues(tmp_path / "index", some, encoder)
    asked = features([dialogue([("user", "Where can I sleep for little money?")], "q")], encoder)
    hits = Index.open(index.folder, encoder=encoder).search(asked["text"], 3)[0]
    assert {hit.id for hit in hits} <= {"d0", "d1", "d5", "d6"}  # rooms, not trains
    with pytest.raises(DataError, match="was built with 'dialeval-encoder-small'"):
        Index.open(index.folder, encoder=Letters())
