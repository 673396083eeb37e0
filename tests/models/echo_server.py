"""A completions server that says how likely a prompt is: `echo_server.py model.gguf` prints its port."""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from dialeval.models.gguf import BytePairs, Gguf
from dialeval.models.likelihood import Tree
from dialeval.models.llama import Llama


class Handler(BaseHTTPRequestHandler):
    llama: Llama
    words: BytePairs

    def log_message(self, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = {"choices": [{"text": "x"}]} if self.path.startswith("/mute/") else self._echo(asked)
        packed = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(packed)))
        self.end_headers()
        self.wfile.write(packed)

    def _echo(self, asked: dict[str, Any]) -> dict[str, Any]:
        assert self.path == "/v1/completions"
        assert asked["echo"]
        found = self.words._marks.encode(asked["prompt"], add_special_tokens=False)
        values = self.llama.log_likelihoods(found.ids[:1], [(1, Tree.of([found.ids[1:]]))])[0][0]
        offsets = [start for start, _ in found.offsets]
        logprobs = {
            "text_offset": [*offsets, len(asked["prompt"])],
            "token_logprobs": [None, *map(float, values), -1.0],
        }
        return {"choices": [{"text": asked["prompt"] + "!", "logprobs": logprobs}]}


if __name__ == "__main__":
    file = Gguf(Path(sys.argv[1]))
    Handler.llama, Handler.words = Llama(file), BytePairs(file)
    server = HTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
