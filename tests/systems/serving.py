"""Start the chat server of these tests in a process of its own."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Server:
    def __init__(self, port: int) -> None:
        self.port = port

    def at(self, way: str) -> str:
        return f"http://127.0.0.1:{self.port}/{way}/v1"

    def state(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/state", timeout=10) as answer:
            return dict(json.load(answer))

    def count(self, way: str) -> int:
        return int(self.state()["counts"].get(way, 0))


@contextmanager
def serving() -> Iterator[Server]:
    script = Path(__file__).with_name("chat_server.py")
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Server(int(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
