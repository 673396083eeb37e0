"""The caches of encodings: what goes in comes out, within their limits, whatever happens to the file."""

import gc
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialeval.errors import UsageError
from dialeval.models.cache import Array, Cache, DiskCache, key

MIB = 1 << 20


def vector(number: int, width: int = 384) -> Array:
    return np.random.default_rng(number).standard_normal(width).astype(np.float32)


def named(*numbers: int) -> list[bytes]:
    return [key("test", str(number)) for number in numbers]


def same(found: Array | None, expected: Array) -> bool:
    return (
        found is not None
        and found.dtype == expected.dtype
        and found.shape == expected.shape
        and found.tobytes() == expected.tobytes()
    )


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[DiskCache]:
    with DiskCache(tmp_path / "cache") as cache:
        yield cache


@pytest.fixture(params=["memory", "disk", "layered"])
def cache(request: pytest.FixtureRequest, disk: DiskCache) -> Cache | DiskCache:
    kinds: dict[str, Cache | DiskCache] = {"memory": Cache(), "disk": disk, "layered": Cache(disk=disk)}
    return kinds[request.param]


# Keys


@given(st.text(), st.text(), st.text(), st.text())
def test_key_is_unambiguous(name: str, text: str, other_name: str, other_text: str) -> None:
    assert len(key(name, text)) == 20
    assert (key(name, text) == key(other_name, other_text)) == ((name, text) == (other_name, other_text))
    cut = len(text) // 2
    assert (key(name + text[:cut], text[cut:]) == key(name, text)) == (cut == 0)


def test_key_of_lone_surrogates() -> None:
    texts = ["", "\ud83d", "\ude00", "\ud83d\ude00", "\U0001f600", "�", "\x00", "\x00\x00"]
    assert len({key(name, text) for name in ("", "\ud800", "a") for text in texts}) == 3 * len(texts)


# What all of them do


@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize("shape", [(384,), (1,), (0,), (7, 384), (1, 1), (0, 384), (3, 0)])
def test_round_trip(
    cache: Cache | DiskCache, shape: tuple[int, ...], kind: type[np.floating[object]]
) -> None:
    expected = np.random.default_rng(1).standard_normal(shape).astype(kind)
    expected.flat[: 2 * 3] = [np.nan, np.inf, -np.inf, -0.0, 1e-7, 3][: expected.size]
    cache.store(named(1), [expected])
    found, missing = cache.fetch(named(1, 2))
    assert same(found, expected)
    assert missing is None


def test_rows_columns_and_repeats(cache: Cache | DiskCache) -> None:
    matrix = np.stack([vector(number) for number in range(5)])
    cache.store(named(*range(5)), matrix)
    cache.store(named(9), [matrix[:, 3]])  # not contiguous
    cache.store(named(4, 7, 7), [vector(99), vector(7), vector(98)])  # the first of a key stays
    found = cache.fetch(named(3, 0, 3, 8, 9, 4, 7))
    assert found[3] is None
    expected = [matrix[3], matrix[0], matrix[3], matrix[0], matrix[:, 3], matrix[4], vector(7)]
    assert all(
        same(one, other) for place, (one, other) in enumerate(zip(found, expected, strict=True)) if place != 3
    )
    assert cache.fetch([]) == []
    cache.store([], [])


def test_what_comes_out_cannot_be_changed(cache: Cache | DiskCache) -> None:
    given_in = vector(1)
    cache.store(named(1), [given_in])
    given_in[:] = 0  # the caller's array is the caller's
    for _ in range(2):
        (found,) = cache.fetch(named(1))
        assert found is not None
        assert same(found, vector(1))
        with pytest.raises(ValueError, match="read-only"):
            found[0] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            found.flags.writeable = True


@pytest.mark.parametrize(
    ("keys", "arrays", "message"),
    [
        (named(1, 2), [vector(1)], "2 keys for 1 arrays"),
        (named(1), [np.zeros(3)], "float64 with 1 dimensions"),
        (named(1), [np.zeros((2, 2, 2), np.float32)], "float32 with 3 dimensions"),
        (named(1), [np.zeros(3, ">f4")], "1 dimensions"),
        (named(1), [np.array(["x"], object)], "object"),
    ],
)
def test_calls_that_make_no_sense(
    cache: Cache | DiskCache, keys: list[bytes], arrays: list[Array], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        cache.store(keys, arrays)
    assert cache.fetch(named(1)) == [None]


def test_threads(cache: Cache | DiskCache) -> None:
    failures: list[str] = []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(20):
            numbers = chance.sample(range(300), 20)
            cache.store(named(*numbers), [vector(number) for number in numbers])
            numbers = chance.sample(range(400), 40)
            for number, found in zip(numbers, cache.fetch(named(*numbers)), strict=True):
                if found is not None and not same(found, vector(number)):
                    failures.append(f"wrong: {number}")
            numbers = [*range(400, 405)]
            cache.store(named(*numbers), [vector(number) for number in numbers])
            if any(found is None for found in cache.fetch(named(*numbers))):
                failures.append("lost")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


# Memory


def test_memory_is_bounded_by_what_is_held() -> None:
    limit = 8 * MIB
    cache = Cache(limit)
    vector(0)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for start in range(0, 40_000, 1_000):  # rows of batches, each of which would be 96 kB to 1.5 MB
        width = 24 if start % 2_000 else 384
        batch = np.full((1_000, width), start, np.float32)
        cache.store(named(*range(start, start + 1_000)), batch)
        assert cache.held <= limit
    del batch
    gc.collect()
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert 0.6 * limit < held <= limit * 1.02  # the table of keys grows in steps
    assert cache.held > 0.9 * limit


def test_memory_forgets_what_was_used_least_recently() -> None:
    cache = Cache(3 * (4 * 384 + 400))

    def there(*numbers: int) -> list[bool]:
        return [found is not None for found in cache.fetch(named(*numbers))]

    cache.store(named(1, 2, 3), [vector(1), vector(2), vector(3)])
    cache.fetch(named(1))
    cache.store(named(4), [vector(4)])  # 2 goes
    assert there(1, 2, 3, 4) == [True, False, True, True]
    cache.store(named(1), [vector(1)])  # there already: now the youngest
    cache.store(named(5), [vector(5)])  # 3 goes
    assert there(1, 3, 4, 5) == [True, False, True, True]
    cache.store(named(6), [np.zeros(10_000, np.float32)])  # larger than all there is: nobody has to go for it
    assert there(1, 4, 5, 6) == [True, True, True, False]


def test_memory_of_no_size_keeps_nothing() -> None:
    cache = Cache(0)
    cache.store(named(1), [np.zeros(0, np.float32)])
    assert (cache.fetch(named(1)), cache.held) == ([None], 0)
    with pytest.raises(UsageError, match="-1 bytes"):
        Cache(-1)


def test_layers_promote(disk: DiskCache) -> None:
    disk.store(named(1), [vector(1)])
    layered = Cache(disk=disk)
    assert same(layered.fetch(named(0, 1))[1], vector(1))
    layered.store(named(2), [vector(2)])
    assert same(disk.fetch(named(2))[0], vector(2))
    layered.disk = None
    assert all(
        same(one, vector(number)) for number, one in zip((1, 2), layered.fetch(named(1, 2)), strict=True)
    )


# Disk


def test_disk_remembers(tmp_path: Path) -> None:
    numbers = range(3_000)  # several queries, several transactions
    with DiskCache(tmp_path) as first:
        first.store(named(*numbers), [vector(number) for number in numbers])
    with DiskCache(tmp_path) as second:
        found = second.fetch(named(*numbers, 3_001))
    assert found.pop() is None
    assert all(same(one, vector(number)) for number, one in zip(numbers, found, strict=True))


WRITER = """
import sys, time
import numpy as np
from dialeval.models.cache import DiskCache, key

folder, limit, first, last, go = sys.argv[1], *map(int, sys.argv[2:5]), float(sys.argv[5])
cache = DiskCache(folder, limit)
time.sleep(max(0, go - time.time()))
for start in range(first, last, 50):
    numbers = range(start, start + 50)
    rows = [np.random.default_rng(number).standard_normal(384).astype(np.float32) for number in numbers]
    keys = [key("test", str(number)) for number in numbers]
    cache.store(keys, rows)
    for found, row in zip(cache.fetch(keys), rows, strict=True):
        assert found is None or found.tobytes() == row.tobytes()
"""


def write_at_once(folder: Path, limit: int, ranges: list[tuple[int, int]]) -> None:
    """Several processes that begin at the same moment, with no file there yet."""
    go = str(time.time() + 1.0)
    command = [sys.executable, "-W", "error", "-c", WRITER, str(folder), str(limit)]
    writers = [
        subprocess.Popen([*command, str(first), str(last), go], stderr=subprocess.PIPE)
        for first, last in ranges
    ]
    assert [writer.communicate(timeout=120)[1] for writer in writers] == [b""] * len(writers)
    assert [writer.returncode for writer in writers] == [0] * len(writers)


def test_processes_write_the_same_and_other_keys_at_once(tmp_path: Path) -> None:
    write_at_once(tmp_path / "new", 64 * MIB, [(0, 2_000), (1_000, 3_000), (0, 2_000)])
    with DiskCache(tmp_path / "new", 64 * MIB) as cache:
        found = cache.fetch(named(*range(3_000)))
    assert all(same(one, vector(number)) for number, one in enumerate(found))


def test_processes_keep_the_limit_together(tmp_path: Path) -> None:
    write_at_once(tmp_path, 2 * MIB, [(0, 2_000), (2_000, 4_000)])  # each writes more than fits
    assert size(tmp_path) <= 2 * MIB
    with DiskCache(tmp_path, 2 * MIB) as cache:
        found = cache.fetch(named(*range(4_000)))
        assert integrity(cache.path) == "ok"
    assert sum(one is not None for one in found) > 600
    assert all(one is None or same(one, vector(number)) for number, one in enumerate(found))


def size(folder: Path) -> int:
    total = 0
    for entry in folder.iterdir():
        if not entry.name.endswith("-shm"):  # 32 kB of shared memory
            total += entry.stat().st_size
    return total


def integrity(path: Path) -> str:
    base = sqlite3.connect(path)
    try:
        return str(base.execute("PRAGMA integrity_check").fetchone()[0])
    finally:
        base.close()


@pytest.mark.parametrize("rows", [0, 5, 20])
def test_disk_keeps_its_limit(rows: int, tmp_path: Path) -> None:
    limit = 2 * MIB
    largest, kept = 0, 0
    with DiskCache(tmp_path, limit) as cache:
        for start in range(0, 6_000 // (rows + 1), 200):
            numbers = range(start, start + 200)
            arrays = [vector(number, 384 * max(rows, 1)) for number in numbers]
            if rows:
                arrays = [array.reshape(rows, 384) for array in arrays]
            cache.store(named(*numbers), arrays)
            largest = max(largest, size(tmp_path))
            kept = sum(one is not None for one in cache.fetch(named(*numbers)))
            assert kept == 200 or rows
        everything = [one for one in cache.fetch(named(*range(start + 200))) if one is not None]
    assert largest <= limit  # at every moment, the journal included
    assert sum(one.nbytes for one in everything) > 0.4 * limit  # and puts the room to use
    assert size(tmp_path) <= limit


def test_disk_forgets_what_was_not_used_for_long(tmp_path: Path) -> None:
    with DiskCache(tmp_path, 2 * MIB) as cache:
        for start in range(0, 4_000, 100):
            numbers = range(start, start + 100)
            cache.store(named(*numbers), [vector(number) for number in numbers])
            cache.fetch(named(*range(50)))  # in use all the time
        found = [one is not None for one in cache.fetch(named(*range(4_000)))]
    assert all(found[:50])
    assert all(found[-500:])
    assert not any(found[50:2_900])


def test_a_lower_limit_gives_room_back(tmp_path: Path) -> None:
    with DiskCache(tmp_path, 16 * MIB) as cache:
        cache.store(named(*range(4_000)), [vector(number) for number in range(4_000)])
    before = size(tmp_path)
    with DiskCache(tmp_path, 2 * MIB) as cache:
        cache.store(named(4_000), [vector(4_000)])
        found = cache.fetch(named(*range(4_001)))
    assert before > 6 * MIB
    assert size(tmp_path) <= 2 * MIB
    assert found[0] is None
    assert same(found[3_999], vector(3_999))
    assert same(found[4_000], vector(4_000))


def test_an_array_too_large_for_the_disk_is_not_kept(tmp_path: Path) -> None:
    with DiskCache(tmp_path, MIB) as cache:
        cache.store(named(1, 2), [vector(1), vector(2, 300_000)])
        assert [one is not None for one in cache.fetch(named(1, 2))] == [True, False]
    with pytest.raises(UsageError, match="1048576 or more"):
        DiskCache(tmp_path, MIB - 1)


# Damage


def filled(folder: Path, number: int = 500) -> Path:
    with DiskCache(folder) as cache:
        cache.store(named(*range(number)), [vector(one) for one in range(number)])
    return cache.path


@pytest.mark.parametrize("place", [0, 1, 2, 4, 8, 12, 16, 700, 1551])
def test_a_damaged_entry_is_missing_then_replaced(place: int, tmp_path: Path) -> None:
    path = filled(tmp_path)
    base = sqlite3.connect(path)
    (body,) = base.execute("SELECT body FROM entries WHERE key = ?", named(7)).fetchone()
    assert len(body) == 1552
    bad = body[:place] + bytes([body[place] ^ 4]) + body[place + 1 :]
    base.execute("UPDATE entries SET body = ? WHERE key = ?", (bad, *named(7)))
    base.commit()
    base.close()
    with DiskCache(tmp_path) as cache:
        found = cache.fetch(named(6, 7, 8))
        assert [one is not None for one in found] == [True, False, True]
        cache.store(named(7), [vector(7)])
        assert same(cache.fetch(named(7))[0], vector(7))


@pytest.mark.parametrize("body", [None, b"", b"\x01", 7, 0.5, "text", b"\x01" * 1552])
def test_an_entry_of_another_kind_is_missing(body: object, tmp_path: Path) -> None:
    base = sqlite3.connect(filled(tmp_path, 5))
    base.execute("UPDATE entries SET body = ?, tick = 'x' WHERE key = ?", (body, *named(1)))
    base.execute(
        "UPDATE entries SET body = (SELECT body FROM entries WHERE key = ?) WHERE key = ?", named(2, 3)
    )
    base.execute("UPDATE entries SET tick = 1")
    base.commit()
    base.close()
    with DiskCache(tmp_path) as cache:
        assert [one is not None for one in cache.fetch(named(*range(5)))] == [True, False, True, False, True]


def overwrite(path: Path, start: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(content)


def other_database(path: Path) -> None:
    path.unlink()
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE entries (name)")
    base.commit()
    base.close()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "header": lambda path: overwrite(path, 0, b"\x00" * 16),
    "first page": lambda path: overwrite(path, 0, random.Random(1).randbytes(8192)),
    "text": lambda path: path.write_text("not a database, but some text that is long enough " * 40),
    "schema": lambda path: overwrite(path, 100, b"\xff" * 8092),
    "cut": lambda path: os.truncate(path, 20_000),
    "pages": lambda path: overwrite(path, 16384, b"\xa5" * 200_000),
    "other database": other_database,
}


@pytest.mark.parametrize("damage", list(DAMAGES))
def test_a_damaged_file_is_set_aside(damage: str, tmp_path: Path) -> None:
    path = filled(tmp_path)
    DAMAGES[damage](path)
    with DiskCache(tmp_path) as cache:
        with pytest.warns(RuntimeWarning, match=r"set aside as encodings\.sqlite\.damaged") as caught:
            found = cache.fetch(named(*range(500)))
            cache.store(named(*range(500)), [vector(number) for number in range(500)])
        assert len(caught) == 1
        assert all(one is None or same(one, vector(number)) for number, one in enumerate(found))
        again = cache.fetch(named(*range(500)))
    assert all(same(one, vector(number)) for number, one in enumerate(again))
    assert (tmp_path / "encodings.sqlite.damaged").exists()
    assert integrity(path) == "ok"


@pytest.mark.parametrize("tick", [2**63 - 1, -(2**63), 0.5, "x", None])
def test_a_damaged_order_does_no_harm(tick: object, tmp_path: Path) -> None:
    path = filled(tmp_path, 20)
    base = sqlite3.connect(path)
    base.execute("UPDATE entries SET tick = ? WHERE id = 3", (tick,))
    base.commit()
    base.close()
    with DiskCache(tmp_path) as cache:
        for start in (20, 40):
            cache.store(named(*range(start, start + 20)), [vector(one) for one in range(start, start + 20)])
        found = cache.fetch(named(*range(60)))
    assert all(same(one, vector(number)) for number, one in enumerate(found))


def test_damage_of_any_page_gives_nothing_wrong(tmp_path: Path) -> None:
    whole = filled(tmp_path / "whole", 200).read_bytes()
    chance = random.Random(5)
    for turn in range(30):
        folder = tmp_path / str(turn)
        folder.mkdir()
        content = bytearray(whole)
        for _ in range(chance.choice([1, 20, 500])):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        (folder / "encodings.sqlite").write_bytes(content)
        with DiskCache(folder) as cache, warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            for _ in range(2):
                found = cache.fetch(named(*range(200)))
                assert all(one is None or same(one, vector(number)) for number, one in enumerate(found))
                cache.store(named(*range(200)), [vector(number) for number in range(200)])


def test_another_process_sets_the_file_aside_or_deletes_it(tmp_path: Path) -> None:
    with DiskCache(tmp_path) as one, DiskCache(tmp_path) as other:
        one.store(named(1), [vector(1)])
        assert same(other.fetch(named(1))[0], vector(1))
        for entry in tmp_path.iterdir():
            entry.unlink()
        one.store(named(2), [vector(2)])
        other.store(named(3), [vector(3)])
        for cache in (one, other):
            assert [found is not None for found in cache.fetch(named(1, 2, 3))] == [False, True, True]


def test_damage_that_comes_back_ends_the_cache(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(10):
            cache.close()
            (tmp_path / "encodings.sqlite").write_bytes(b"rust " * 4000)
            cache.store(named(1), [vector(1)])
    said = [str(warning.message) for warning in caught]
    assert ["set aside" in one for one in said] == [True, True, True, False]
    assert "the run continues" in said[3]
    assert cache.fetch(named(1)) == [None]


# No room, no permission


@pytest.mark.parametrize("place", ["file/cache", "file/..", "folder"])
def test_nothing_can_be_kept_there(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder" / "encodings.sqlite").mkdir(parents=True)  # in the place of the file
    cache = DiskCache(tmp_path / place)
    with pytest.warns(RuntimeWarning, match="the run continues") as caught:
        for _ in range(3):
            assert cache.fetch(named(1)) == [None]
            cache.store(named(1), [vector(1)])
    assert len(caught) == 1


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="permissions of POSIX")
def test_no_permission() -> None:
    with tempfile.TemporaryDirectory() as folder:
        filled(Path(folder))
        Path(folder).chmod(0o555)
        cache = DiskCache(folder)
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)
        try:
            with pytest.warns(RuntimeWarning, match="the run continues") as caught:
                cache.fetch(named(1))
                cache.store(named(1_000), [vector(1_000)])
                cache.store(named(1_001), [vector(1_001)])
        finally:
            if root:
                os.seteuid(0)
            Path(folder).chmod(0o755)
        assert len(caught) == 1


FULL = """
import resource, sys, warnings
import numpy as np
from dialeval.models.cache import DiskCache, key

resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))  # every write beyond this fails
cache = DiskCache(sys.argv[1])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for number in range(2_000):
        cache.store([key("full", str(number))], [np.full(384, number, np.float32)])
    found = cache.fetch([key("full", str(number)) for number in range(2_000)])
there = [number for number, one in enumerate(found) if one is not None]
assert all((found[number] == number).all() for number in there)
print(len(caught), len(there) > 20)
"""


def test_no_room() -> None:
    pytest.importorskip("resource")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", FULL, folder], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.stdout, done.stderr) == ("1 True\n", "")
        with DiskCache(folder) as cache:
            cache.store([key("full", "1999")], [np.full(384, 1999, np.float32)])
            assert cache.fetch([key("full", "1999")])[0] is not None


@pytest.mark.parametrize(
    ("setting", "message"),
    [("query_only = ON", "readonly"), ("max_page_count = 1", "database or disk is full")],
)
def test_reading_goes_on_where_nothing_can_be_stored(setting: str, message: str, tmp_path: Path) -> None:
    filled(tmp_path)
    with DiskCache(tmp_path) as cache:
        assert same(cache.fetch(named(1))[0], vector(1))
        assert cache._base is not None
        cache._base.execute(f"PRAGMA {setting}")  # SQLite refuses as it does when the system refuses
        with pytest.warns(RuntimeWarning, match=message) as caught:
            for number in range(500, 900, 100):
                cache.store(named(*range(number, number + 100)), [vector(number)] * 100)
        assert len(caught) == 1
        assert same(cache.fetch(named(2))[0], vector(2))


# Forks


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_forks_while_threads_are_at_work(tmp_path: Path) -> None:
    cache = Cache(disk=DiskCache(tmp_path))
    cache.store(named(0), [vector(0)])
    done = threading.Event()

    def work() -> None:
        number = 10_000
        while not done.is_set():
            cache.store(named(number), [vector(number)])
            cache.fetch(named(0, number))
            number += 1

    thread = threading.Thread(target=work)
    thread.start()
    children = []
    for child in range(1, 9):
        pid = os.fork()
        if pid == 0:
            status = 1
            signal.alarm(40)  # a child that waits for ever fails
            try:
                numbers = range(child * 100, child * 100 + 100)
                for number in numbers:
                    cache.store(named(number), [vector(number)])
                assert cache.disk is not None
                found = cache.disk.fetch(named(0, *numbers))
                status = int(
                    not all(same(*pair) for pair in zip(found, map(vector, (0, *numbers)), strict=True))
                )
            finally:
                os._exit(status)
        children.append(pid)
    statuses = [os.waitpid(pid, 0)[1] for pid in children]
    done.set()
    thread.join()
    assert statuses == [0] * 8
    assert cache.disk is not None
    found = cache.disk.fetch(named(*range(100, 900)))
    assert all(same(one, vector(number)) for number, one in zip(range(100, 900), found, strict=True))
    cache.disk.close()
    assert integrity(cache.disk.path) == "ok"


def test_nothing_is_left_open(tmp_path: Path) -> None:
    filled(tmp_path)
    cache = DiskCache(tmp_path)
    cache.fetch(named(1))

    def is_open() -> bool:
        return any(os.path.realpath(one) == str(cache_path) for one in Path("/proc/self/fd").iterdir())

    cache_path = cache.path
    assert is_open()
    del cache
    gc.collect()
    assert not is_open()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["encodings.lock", "encodings.sqlite"]
