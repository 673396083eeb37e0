"""Twenty kills of a process that writes to the cache of encodings: what is there is what was written."""

import random
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from dialeval.models.cache import DiskCache, key

KILLS = 20
LIMIT = 6 << 20
NUMBERS = 12_000  # about three times what fits
WRITER = """
import random, sys
import numpy as np
from dialeval.models.cache import DiskCache, key

cache, chance = DiskCache(sys.argv[1], int(sys.argv[2])), random.Random(int(sys.argv[3]))
first = True
while True:
    numbers = [chance.randrange(int(sys.argv[4])) for _ in range(chance.choice([1, 50, 2000]))]
    arrays = [np.random.default_rng(number).standard_normal(384).astype(np.float32) for number in numbers]
    cache.store([key("soak", str(number)) for number in numbers], arrays)
    cache.fetch([key("soak", str(number)) for number in numbers])
    if first:
        print("ready", flush=True)
    first = False
"""


@pytest.mark.soak
@pytest.mark.parametrize("writers", [1, 2])
def test_twenty_kills(writers: int, tmp_path: Path) -> None:
    chance, most = random.Random(writers), 0
    keys = [key("soak", str(number)) for number in range(NUMBERS)]
    written = [
        np.random.default_rng(number).standard_normal(384).astype(np.float32) for number in range(NUMBERS)
    ]
    for kill in range(KILLS):
        command = [sys.executable, "-W", "error", "-c", WRITER, str(tmp_path), str(LIMIT)]
        running = [
            subprocess.Popen([*command, str(2 * kill + one), str(NUMBERS)], stdout=subprocess.PIPE)
            for one in range(writers)
        ]
        if kill % 4:  # else somewhere in the start
            assert [one.stdout and one.stdout.readline() for one in running] == [b"ready\n"] * writers
        time.sleep(chance.uniform(0, 0.6))
        for one in running:
            one.kill()
            one.communicate()
            assert one.returncode == -signal.SIGKILL
        with warnings.catch_warnings(), DiskCache(tmp_path, LIMIT) as cache:
            warnings.simplefilter("error")
            found = cache.fetch(keys)
            cache.store([key("mine", str(kill))], [written[kill]])
            mine = cache.fetch([key("mine", str(kill))])
        for one, other in zip([*found, *mine], [*written, written[kill]], strict=True):
            assert one is None or np.array_equal(one, other)
        assert mine[0] is not None
        most = max(most, sum(one is not None for one in found))
        assert sum(entry.stat().st_size for entry in tmp_path.iterdir()) <= LIMIT
        assert sorted(entry.name for entry in tmp_path.iterdir()) == ["encodings.lock", "encodings.sqlite"]
    assert most > 1_500
    base = sqlite3.connect(tmp_path / "encodings.sqlite")
    assert base.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    base.close()
