"""A judge to be tested against, as a process of its own: what it does is the first part of the path.

Run as `python judge_server.py`; it prints its port. GET tells how often each path was asked, and what last.
"""

import json
import math
import sys
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

sys.path.insert(0, str(Path(__file__).parents[1] / "systems"))
from tally import Tally


class Handler(BaseHTTPRequestHandler):
    tally: ClassVar[Tally] = Tally()
    last: ClassVar[list[Any]] = [None]

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._send(200, {"counts": self.tally.counts, "last": self.last[0], "most": self.tally.most})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        way = self.path.split("/")[1]
        self.last[0] = asked
        with suppress(BrokenPipeError, ConnectionResetError):
            getattr(self, way)(asked, self.tally.count(way))

    def _send(self, status: int, body: object, **headers: str) -> None:
        packed = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(packed)))
        self.end_headers()
        self.wfile.write(packed)

    def _say(self, text: str, chances: dict[str, float] | None = None) -> None:
        choice: dict[str, Any] = {"message": {"role": "assistant", "content": text}}
        if chances:
            top = [{"token": token, "logprob": math.log(value)} for token, value in chances.items()]
            choice["logprobs"] = {
                "content": [{"token": text, "logprob": top[0]["logprob"], "top_logprobs": top}]
            }
        self._send(200, {"choices": [choice]})

    def sure(self, asked: dict[str, Any], _: int) -> None:
        chances = {"4": 0.6, "5": 0.2, " 2": 0.1, "x": 0.1} if asked.get("logprobs") else None
        self._say("4", chances)

    def bound(self, asked: dict[str, Any], _: int) -> None:
        top = [{"token": "3", "logprob": math.log(0.6)}, {"token": "4", "logprob": math.log(0.2)}]
        tokens = [
            {"token": '{"rating":', "logprob": 0.0, "top_logprobs": [{"token": "9", "logprob": -0.1}]},
            {"token": " 3", "logprob": top[0]["logprob"], "top_logprobs": top},
        ]
        choice = {"message": {"content": '{"rating": 3}'}, "logprobs": {"content": tokens}}
        self._send(200, {"choices": [choice]})

    def plain(self, asked: dict[str, Any], _: int) -> None:
        self._say("4")

    def old(self, asked: dict[str, Any], _: int) -> None:
        if "logprobs" in asked:
            self._send(400, {"error": "unknown field logprobs"})
        else:
            self._say("2")

    def varied(self, asked: dict[str, Any], number: int) -> None:
        self._say(str(2 + number % 3))

    def chatty(self, asked: dict[str, Any], _: int) -> None:
        self._say("I would say 4 out of 5.")

    def sometimes(self, asked: dict[str, Any], number: int) -> None:
        self._say("great!" if number == 1 else "3")

    def late(self, asked: dict[str, Any], _: int) -> None:
        time.sleep(1.5)
        self._say("5")

    def slow(self, asked: dict[str, Any], _: int) -> None:
        with self.tally.under_way():
            time.sleep(0.1)
        self._say("5")

    def full(self, asked: dict[str, Any], number: int) -> None:
        if number == 1:
            self._send(429, {"error": "too many"}, Retry_After="0.05")
        else:
            self._say("3")

    def broken(self, asked: dict[str, Any], _: int) -> None:
        self._send(500, {"error": "broken"})

    def garbled(self, asked: dict[str, Any], _: int) -> None:
        self._send(200, b'{"choices": [{"mess')

    def strange(self, asked: dict[str, Any], _: int) -> None:
        choice = {"message": {"content": "4"}, "logprobs": {"content": [{"top_logprobs": "none"}]}}
        self._send(200, {"choices": [choice]})


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()
