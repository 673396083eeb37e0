"""A chat server to be tested against, as a process of its own: kind, slow, failing, hostile, by its path.

Run as `python chat_server.py`; it prints its port, and writes every request's path to standard output.
"""

import json
import sys
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from tally import Tally


class Handler(BaseHTTPRequestHandler):
    tally: ClassVar[Tally] = Tally()

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._json(200, {"counts": self.tally.counts, "most": self.tally.most})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        way = self.path.split("/")[1]
        self.number = self.tally.count(way)
        with suppress(BrokenPipeError, ConnectionResetError):
            getattr(self, way)(asked)

    def _json(self, status: int, body: object, **headers: str) -> None:
        packed = json.dumps(body).encode()
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(packed)))
        self.end_headers()
        self.wfile.write(packed)

    def _say(self, text: object) -> None:
        self._json(200, {"choices": [{"message": {"role": "assistant", "content": text}}]})

    def echo(self, asked: dict[str, Any]) -> None:
        last = asked["messages"][-1]["content"]
        if "please fail" in last:
            self._json(400, {"error": "as you wish"})
        else:
            self._say(f"{len(asked['messages'])} {asked['messages'][0]['role']} {last}")

    def shown(self, asked: dict[str, Any]) -> None:
        self._say(json.dumps({**asked, "key": self.headers.get("Authorization"), "path": self.path}))

    def brief(self, asked: dict[str, Any]) -> None:
        with self.tally.under_way():
            time.sleep(0.1)
        self.echo(asked)

    def slow(self, asked: dict[str, Any]) -> None:
        time.sleep(30)
        self.echo(asked)

    def drip(self, asked: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        for _ in range(600):
            self.wfile.write(b" ")
            self.wfile.flush()
            time.sleep(0.05)

    def endless(self, asked: dict[str, Any]) -> None:
        self.send_response(200)
        self.end_headers()
        for _ in range(600):
            self.wfile.write(b" ")
            self.wfile.flush()
            time.sleep(0.05)

    def flaky(self, asked: dict[str, Any]) -> None:
        if self.number % 3:
            self._json(503, {"error": "busy"})
        else:
            self._say("at last")

    def busy(self, asked: dict[str, Any]) -> None:
        if self.number == 1:
            self._json(429, {"error": "too many"}, Retry_After="0.2")
        else:
            self._say("now")

    def broken(self, asked: dict[str, Any]) -> None:
        self._json(500, {"error": "broken"})

    def refused(self, asked: dict[str, Any]) -> None:
        self._json(401, {"error": "no key"})

    def away(self, asked: dict[str, Any]) -> None:
        self._json(307, {}, Location=f"http://127.0.0.1:{self.server.server_address[1]}/elsewhere")

    def elsewhere(self, asked: dict[str, Any]) -> None:
        self._say("you should not be here")

    def malformed(self, asked: dict[str, Any]) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>hello</html>")

    def shapeless(self, asked: dict[str, Any]) -> None:
        self._json(200, {"choices": []})

    def silent(self, asked: dict[str, Any]) -> None:
        self._say(None)

    def huge(self, asked: dict[str, Any]) -> None:
        self._say("x" * (5 << 20))

    def cut(self, asked: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b'{"choices"')
        self.close_connection = True

    def rubbish(self, asked: dict[str, Any]) -> None:
        self.wfile.write(b"\x00\xff not HTTP at all\r\n\r\n")
        self.close_connection = True


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    sys.stdout.close()
    server.serve_forever()
