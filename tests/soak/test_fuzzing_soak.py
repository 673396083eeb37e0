"""A coverage-guided fuzzer on every reader, for a fixed time each; `DIALEVAL_FUZZ_SECONDS` makes it longer.

Each run begins from the good files of the readers, may take 2 GB and 20 seconds for one file, and ends at
the first thing that comes out of a reader and is no message. What did it is kept, and named.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from readers import READERS

pytest.importorskip("atheris", reason="the fuzzer has no build for this Python or this system")

CONTRACT = Path(__file__).parents[1] / "contract"
SECONDS = int(os.environ.get("DIALEVAL_FUZZ_SECONDS", "20"))
RUNS = 1_000_000
LARGEST = 1 << 16  # bytes of a file that is tried; good ones that are larger set the limit themselves


def command(name: str, corpus: Path, largest: int) -> list[str]:
    return [
        *(sys.executable, str(CONTRACT / "fuzz_reader.py"), name, str(corpus), "-seed=1"),
        *(f"-runs={RUNS}", f"-max_total_time={SECONDS}", f"-max_len={largest}", "-rss_limit_mb=2048"),
        *("-timeout=20", "-print_final_stats=1", f"-artifact_prefix={corpus.parent}/found-"),
    ]


@pytest.mark.soak
@pytest.mark.parametrize("name", READERS)
def test_fuzzing_finds_nothing(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    seeds = READERS[name].seeds()
    for number, content in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(content)
    largest = max(LARGEST, *(2 * len(content) for content in seeds))
    done = subprocess.run(
        command(name, corpus, largest),
        capture_output=True,
        timeout=SECONDS * 3 + 300,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"RUST_BACKTRACE": "0", "OMP_NUM_THREADS": "1"},
    )
    said = done.stderr.decode("utf-8", "replace") + done.stdout.decode("utf-8", "replace")
    found = sorted(path.name for path in tmp_path.glob("found-*"))
    executed = re.search(r"number_of_executed_units:\s*(\d+)", said)
    count = int(executed[1]) if executed else 0
    rss = re.search(r"peak_rss_mb:\s*(\d+)", said)
    with capsys.disabled():
        kept = len(list(corpus.iterdir()))
        print(
            f"\n{name}: {count} files tried, corpus {kept}, crashes {len(found)}, {rss[1] if rss else '?'} MB"
        )
    assert done.returncode == 0, f"{found}\n{said[-4000:]}"
    assert not found
    assert count > len(seeds)
