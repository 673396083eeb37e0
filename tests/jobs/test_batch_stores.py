"""Inputs and outputs in an object store: a real S3-compatible server, on loopback."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from batch_cases import parts, run, talks

from dialeval import stores
from dialeval.dialogues.formats import read, write
from dialeval.errors import DataError

pytest.importorskip("moto.server")
SERVER = """
import socket, sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdout is not None
    yield int(server.stdout.readline())
    server.send_signal(signal.SIGKILL)
    server.communicate()


@pytest.fixture
def bucket(port: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make an empty bucket; the address of the server stands in the environment."""
    from pyarrow import fs

    keys = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    settings = dict.fromkeys(keys, "test") | {
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    for key, value in settings.items():
        monkeypatch.setenv(key, value)
    name = f"logs-{time.time_ns()}"
    fs.S3FileSystem(
        endpoint_override=f"127.0.0.1:{port}", scheme="http", allow_bucket_creation=True
    ).create_dir(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    return name


def put(bucket: str, path: Path) -> None:
    stores.write_bytes(f"s3://{bucket}/in/{path.name}", path.read_bytes())


def test_a_batch_from_store_to_store_is_the_batch_on_disk(bucket: str, tmp_path: Path) -> None:
    write(talks(20), tmp_path / "a.jsonl")
    write(talks(30)[20:], tmp_path / "b.parquet")
    for path in (tmp_path / "a.jsonl", tmp_path / "b.parquet"):
        put(bucket, path)
    words = ("-m", "length", "-m", "turns", "--turns-per-shard", 40, "--workers", 2)
    run(tmp_path / "a.jsonl", tmp_path / "b.parquet", *words, "-o", tmp_path / "out")
    out = f"s3://{bucket}/out"
    run(f"s3://{bucket}/in/", *words, "-o", out)
    below = set(stores.sizes_below(out))
    assert {"_SUCCESS", "run.json", "summary.json", "scores/part-00002.parquet"} <= below
    there = {name: stores.read_bytes(f"{out}/scores/{name}") for name in parts(tmp_path / "out")}
    assert there == parts(tmp_path / "out")
    stores.write_bytes(f"{out}/scores/part-00001.parquet", b"PAR1 and no more")
    stores.remove(f"{out}/scores/part-00002.parquet")
    again = run(f"s3://{bucket}/in/*", *words, "-o", out)
    assert "3 shards, 1 of them done before" in again.stderr
    assert {name: stores.read_bytes(f"{out}/scores/{name}") for name in there} == there
    stores.write_bytes(f"s3://{bucket}/in/a.jsonl", b'{"messages": []}\n')
    changed = run(f"s3://{bucket}/in/", *words, "-o", out, code=1)
    assert f"input s3://{bucket}/in/a.jsonl has changed" in changed.stderr


def test_an_address_may_say_where_its_server_is(
    bucket: str, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    query = f"?endpoint_override=127.0.0.1:{port}&scheme=http"
    write(talks(3), tmp_path / "a.jsonl")
    stores.write_bytes(f"s3://{bucket}/in/a.jsonl{query}", (tmp_path / "a.jsonl").read_bytes())
    assert list(stores.sizes_below(f"s3://{bucket}/in{query}")) == ["a.jsonl"]
    assert list(read(f"s3://{bucket}/in/a.jsonl{query}")) == talks(3)


def test_what_is_not_there_is_said(bucket: str) -> None:
    with pytest.raises(DataError, match=r"s3://.*/nothing.jsonl: no such file"):
        next(read(f"s3://{bucket}/nothing.jsonl"))
    assert stores.read_bytes(f"s3://{bucket}/nothing") is None
    stores.remove(f"s3://{bucket}/nothing")
    done = run(f"s3://{bucket}/in/", "-m", "length", "-o", f"s3://{bucket}/out", code=1)
    assert "no dialogues in s3://" in done.stderr
    assert os.environ["AWS_ENDPOINT_URL"].startswith("http://127.")


def test_a_refusal_of_the_store_is_no_traceback(bucket: str, tmp_path: Path) -> None:
    write(talks(3), tmp_path / "a.jsonl")
    done = run(tmp_path / "a.jsonl", "-m", "length", "-o", "s3://no-such-bucket-here/out", code=1)
    assert "s3://no-such-bucket-here/out/run.json: the store says" in done.stderr
