"""A real server process on a real study, and a client that keeps its cookie, as a browser does."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from dialeval.annotation import AnnotationProject, Scheme, assignment, create, parse_scheme, read_scheme
from dialeval.annotation.assignment import Assignment
from dialeval.dialogues import Dialogue, dialogue

FORM = "application/x-www-form-urlencoded"


def talks(count: int, system: str = "secret-bot") -> list[Dialogue]:
    said = "What shall we do on day {0}?", "We could go to place {0}.", "And then?", "Then we go home, {0}."
    roles = ("user", "assistant", "user", "assistant")
    return [
        dialogue(
            [(role, text.format(number)) for role, text in zip(roles, said, strict=True)],
            f"secret-id-{number}",
            system=system,
        )
        for number in range(count)
    ]


def make_study(
    folder: Path,
    scheme: str | Scheme = "turn-quality",
    dialogues: Sequence[Dialogue] | None = None,
    raters: Sequence[str] = ("ann", "bob", "cem"),
    **more: Any,
) -> Path:
    chosen = read_scheme(scheme) if isinstance(scheme, str) and "\n" not in scheme else scheme
    chosen = parse_scheme(chosen) if isinstance(chosen, str) else chosen
    create(folder, chosen, dialogues or talks(5), raters, **more).close()
    return folder


def answer_all(
    study: AnnotationProject,
    rater: str,
    given: dict[str, Any] | Callable[[Assignment], dict[str, Any]],
    count: int | None = None,
) -> int:
    """Answer a rater's open items, all or so many: alike, or as a function says; return how many."""
    done = 0
    while (place := assignment.current(study, rater)) is not None and done != count:
        seat = assignment.assignment_at(study, rater, place)
        assert seat is not None
        answers = given(seat) if callable(given) else given
        assignment.answer(study, rater, seat, answers, f"{rater} {place} {done}", 0.0)
        done += 1
    return done


def together(work: Callable[..., object], *arguments: tuple[object, ...]) -> None:
    """Call a function in as many threads as there are arguments, and wait for all of them."""
    threads = [threading.Thread(target=work, args=one) for one in arguments]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


class Reached:
    """A server that clients can be sent to."""

    links: dict[str, str]
    port: int
    clients: list["Client"]

    def client(self, name: str | None = None) -> "Client":
        made = Client(self)
        if name is not None:
            answer = made.get(urlsplit(self.links[name]).path)
            assert answer.status == 303, answer.text
        return made

    def hang_up(self) -> None:
        while self.clients:
            self.clients.pop().close()


class Server(Reached):
    """`dialeval annotate FOLDER` in a process of its own, on a port of its own."""

    def __init__(self, folder: Path, *arguments: str, port: int = 0) -> None:
        command = [sys.executable, "-c", "from dialeval.cli import main; main()", "annotate", str(folder)]
        started = time.perf_counter()
        self.process = subprocess.Popen(
            [*command, "--json", "--port", str(port), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert self.process.stdout is not None and self.process.stderr is not None
        text = ""
        for line in self.process.stdout:
            text += line
            if line.startswith("]"):
                break
        assert text, self.process.stderr.read()
        self.links: dict[str, str] = {row["name"]: row["link"] for row in json.loads(text)}
        self.address = urlsplit(next(iter(self.links.values())))
        self.port = self.address.port or 0
        self.clients: list[Client] = []
        Client(self).get("/style.css")
        self.seconds = time.perf_counter() - started

    def kill(self) -> None:
        self.hang_up()
        self.process.kill()
        self.process.communicate()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            _, said = self.process.communicate(timeout=20)
            assert "Traceback" not in said, said


class LocalServer(Reached):
    """The same application in a thread of the test: for tests that need many of them."""

    def __init__(self, folder: Path) -> None:
        import uvicorn

        from dialeval.annotation.app import make_app
        from dialeval.annotation.web import address_of, listen

        self.study = AnnotationProject(folder)
        taken = listen("127.0.0.1", 0)
        address = address_of(taken)
        self.links = {name: f"{address}/in/{token}" for name, (_, token) in self.study.people().items()}
        self.port, self.clients = urlsplit(address).port or 0, []
        config = uvicorn.Config(make_app(self.study), log_level="warning", access_log=False)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [taken]})
        self.thread.start()

    def __enter__(self) -> "LocalServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        self.server.should_exit = True
        self.thread.join()
        self.study.close()


class Answer:
    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status, self.headers, self.body = answer.status, answer.headers, answer.read()
        self.text = self.body.decode("utf-8", "replace")
        self.place = self.headers.get("location", "")

    def hidden(self, name: str) -> str:
        found = re.search(rf'name="{name}" value="([^"]*)"', self.text)
        assert found, self.text[:500]
        return found[1]


class Client:
    """One person's browser, without the browser."""

    def __init__(self, server: Reached) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self.cookie = ""
        server.clients.append(self)

    def ask(self, method: str, path: str, body: str | bytes | None = None, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        cookie = {"cookie": self.cookie} if self.cookie else {}
        self.connection.request(method, path, body, {**cookie, **named})
        answer = Answer(self.connection.getresponse())
        if "set-cookie" in answer.headers:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, **headers)

    def post(self, path: str, fields: dict[str, Any], **headers: str) -> Answer:
        headers = {"content_type": FORM, **headers}
        return self.ask("POST", path, urlencode(fields, doseq=True), **headers)

    def follow(self, answer: Answer) -> tuple[str, Answer]:
        place = answer.place
        while answer.status == 303:
            place = answer.place.partition("#")[0]
            answer = self.get(place)
        return place, answer

    def item(self) -> tuple[str, Answer]:
        """Where the rater is now."""
        return self.follow(self.get("/rate"))

    def answer(self, place: str, page: Answer, **fields: Any) -> Answer:
        given = {"code": page.hidden("code"), "action": "save"}
        given |= {name: page.hidden(name) for name in ("ticket", "shown")}
        return self.post(place, {**given, **fields})

    def answer_next(self, **fields: Any) -> Answer:
        return self.answer(*self.item(), **fields)

    def close(self) -> None:
        self.connection.close()
