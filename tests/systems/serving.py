"""Start a server of the tests, by default the chat server, in a process of its own."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHAT = Path(__file__).with_name("chat_server.py")


class Server:
    def __init__(self, port: int) -> None:
        self.port = port
        self.root = f"http://127.0.0.1:{port}"

    def at(self, way: str) -> str:
        return f"{self.root}/{way}/v1"

    def state(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.root}/state", timeout=10) as answer:
            return dict(json.load(answer))

    def count(self, way: str) -> int:
        return int(self.state()["counts"].get(way, 0))


@contextmanager
def serving(script: Path = CHAT, *arguments: str) -> Iterator[Server]:
    """Run a script that prints its port."""
    command = [sys.executable, str(script), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Server(int(process.stdout.readline()))
        finally:
            process.kill()
