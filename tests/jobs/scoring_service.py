"""`dialeval serve` in a process of its own, on a port of its own, and a client."""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
JSON = "application/json"


def chat(*texts: str, name: str | None = None, **more: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    turns = [{"role": roles[number % 2], "content": text} for number, text in enumerate(texts)]
    return {**({} if name is None else {"id": name}), "messages": turns, **more}


class Answer:
    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status, self.headers, self.body = answer.status, answer.headers, answer.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def rows(self, source: str | None = None) -> list[tuple[Any, ...]]:
        assert self.status == 200, self.body[:500]
        return [
            (row["dialogue_id"], row["turn"], row["value"])
            for one in self.json["dialogues"]
            for row in one["scores"]
            if source in (None, row["source"])
        ]


class ScoringService:
    """The command with these arguments; what it says is kept in `said`."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        command = [sys.executable, str(HERE / "trying_metric.py"), "serve"]
        ports = [] if "--port" in arguments else ["--port", "0"]
        self.process = subprocess.Popen(
            [*command, *ports, *arguments],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        assert self.process.stderr is not None
        self.said = ""
        for line in self.process.stderr:
            self.said += line
            if line.startswith("Ctrl-C"):
                break
        found = re.search(r"at http://\S+?:(\d+) ", self.said)
        assert found, self.said + self.process.stderr.read()
        self.port = int(found[1])
        self._reader = threading.Thread(target=self._listen)
        self._reader.start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, method: str, path: str, body: bytes | str | None = None, **headers: str) -> Answer:
        connection = self.connect()
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, named)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, **headers)

    def post(self, body: Any, **headers: str) -> Answer:
        packed = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.ask("POST", "/score", packed, **{"content_type": JSON, **headers})

    def score(self, *dialogues: dict[str, Any], **more: Any) -> Answer:
        return self.post({"dialogues": dialogues, **more})

    @contextlib.contextmanager
    def busy(self, seconds: float = 0.5, name: str | None = None) -> Iterator[threading.Thread]:
        """Keep it scoring for a while, so that what is asked meanwhile gathers."""
        slow = threading.Thread(target=self.score, args=[chat("Hi", f"sleep {seconds}", name=name)])
        slow.start()
        yield slow
        slow.join()

    def figure(self, name: str) -> float:
        """Sum up a figure over all of its labels."""
        lines = self.get("/metrics").body.decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if re.match(rf"{name}[ {{]", line))

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end, and return the exit code; nothing it said is a stack trace."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(90)
        self._reader.join()
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code

    def __enter__(self) -> "ScoringService":
        return self

    def __exit__(self, *_: object) -> None:
        self.end(signal.SIGKILL)
