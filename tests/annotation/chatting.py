"""`dialeval chat` in a process of its own, and a client that keeps its cookie."""

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlencode

# Notes every address that the process connects to.
_WATCH = """
import os, socket
_connect = socket.socket.connect
def connect(self, address):
    with open(os.environ["CONNECTED"], "a") as file:
        print(address, file=file)
    return _connect(self, address)
socket.socket.connect = connect
"""


@contextmanager
def chatting(folder: Path, system: str, *more: str, people: str = "ann,bob") -> Iterator[dict[str, str]]:
    """Serve; give everybody's link. What the server connects to is in `connected.txt` beside the folder."""
    watch = folder.parent / "watch"
    watch.mkdir(exist_ok=True)
    (watch / "sitecustomize.py").write_text(_WATCH)
    path = os.pathsep.join([str(watch), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    words = [sys.executable, "-c", "from dialeval.cli import main; main()", "chat", "--system", system]
    words += ["-o", str(folder), "--people", people, "--port", "0", "--json", "--name", "secret-bot", *more]
    environment = {**os.environ, "PYTHONPATH": path, "CONNECTED": str(folder.parent / "connected.txt")}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            lines: list[str] = []
            while not lines or lines[-1].rstrip() != "]":
                line = process.stdout.readline()
                assert line, "the server ended"
                lines.append(line)
            yield {one["name"]: one["link"] for one in json.loads("".join(lines))}
        finally:
            process.kill()


class Client:
    """A browser without script."""

    def __init__(self, link: str) -> None:
        self.root = link.partition("/in/")[0]
        self.jar = CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.jar))
        self.status, self.text = 0, ""
        self.open(link)

    def open(self, address: str, fields: dict[str, str] | None = None, **headers: str) -> str:
        address = address if address.startswith("http") else self.root + address
        body = None if fields is None else urlencode(fields).encode()
        request = urllib.request.Request(
            address, body, {key.replace("_", "-"): v for key, v in headers.items()}
        )
        try:
            with self.opener.open(request, timeout=60) as answer:
                self.status, self.text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            self.status, self.text = error.code, error.read().decode()
        return self.text

    def hidden(self) -> dict[str, str]:
        return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', self.text))

    def send(self, path: str, **fields: str) -> str:
        return self.open(path, {**self.hidden(), **fields})

    def say(self, text: str) -> str:
        return self.send("/chat", text=text, action="say")
