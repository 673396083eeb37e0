"""The application that `dialeval serve` runs: five routes, and what stands before them."""

import asyncio
import contextlib
import dataclasses
import hmac
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dialeval import __version__
from dialeval.annotation.web import Guard
from dialeval.dialogues import Dialogue, Turn
from dialeval.errors import UsageError
from dialeval.jobs.serving.batches import Batches
from dialeval.jobs.serving.figures import CONTENT_TYPE, Figures
from dialeval.jobs.serving.limits import Limits
from dialeval.jobs.serving.openapi import document
from dialeval.jobs.serving.requests import Asked, Refusal, parse
from dialeval.metrics import describe, signature_of
from dialeval.scores import Score

OPEN = "/health"  # what a load balancer asks, without the token
_METHODS = ("GET", "HEAD", "POST")
_SHORTEST = 32  # characters of a token: 128 bits in hexadecimal
Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Gate:
    """What is known of a request before its body is read, and how a refusal looks: see `Guard`."""

    hosts: Collection[str]
    limit: int
    seconds: float
    token: str | None

    def show(self, status: int, title: str, message: str) -> Response:
        """Write a refusal."""
        return _refusal(status, f"{title}: {message}" if message else title)

    def refused(self, path: str, headers: Mapping[str, str]) -> tuple[int, str, str] | None:
        """Ask for the token, in a time that does not tell how near a wrong one came."""
        if self.token is None or path == OPEN:
            return None
        kind, _, given = headers.get("authorization", "").partition(" ")
        right = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self.token.encode())
        if right and kind.lower() == "bearer":
            return None
        return 401, "This needs the token", "send it as Authorization: Bearer TOKEN"


def check_token(token: str) -> str:
    """Refuse a token that could be guessed.

    >>> len(check_token("0123456789abcdef" * 2))
    32
    """
    if len(token) < _SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            f"DIALEVAL_TOKEN: expected {_SHORTEST} letters and digits or more, as of `openssl rand -hex 16`"
        )
    return token


def warm_up(metrics: Mapping[str, Any]) -> None:
    """Load what metrics need, so that the first request does not wait; those that cost money are spared."""
    chat = Dialogue("warm-up", (Turn("user", "Hello."), Turn("assistant", "Hello, how are you?")))
    for made in metrics.values():
        if not hasattr(made, "estimate"):
            made.score([chat])


class Service:
    """The routes of a service with some metrics, each under the name of its source."""

    def __init__(self, metrics: Mapping[str, Any], limits: Limits, *, token: bool) -> None:
        self.metrics, self.limits = metrics, limits
        self.figures = Figures(lambda: len(self.batches))
        self.batches = Batches(metrics, limits, self.figures)
        self.signatures = {source: str(signature_of(made)) for source, made in metrics.items()}
        self.document = msgspec.json.encode(document(list(metrics), limits, token=token))

    def routes(self) -> dict[str, tuple[str, Handler]]:
        """Return the method and the handler of each path."""
        return {
            OPEN: ("GET", self.health),
            "/score": ("POST", self.score),
            "/sources": ("GET", self.sources),
            "/metrics": ("GET", self.show_figures),
            "/openapi.json": ("GET", self.openapi),
        }

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Score from the first request on until the last one is answered."""
        self.batches.start()
        try:
            yield
        finally:
            await asyncio.to_thread(self.batches.stop)

    async def health(self, _: Request) -> Response:
        """Say that the service answers."""
        return _answer({"status": "ok", "dialeval": __version__})

    async def score(self, request: Request) -> Response:
        """Score dialogues, together with those of others who ask now."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Refusal(415, "only JSON is read", fix="send Content-Type: application/json")
        asked = parse(await request.body(), self.metrics, self.limits.turns)
        found = await self._scored(request, asked)
        shown = [
            {"id": one.id, "scores": [row._asdict() for row in rows]}
            for one, rows in zip(asked.dialogues, found, strict=True)
        ]
        return _answer(
            {"dialogues": shown, "signatures": {name: self.signatures[name] for name in asked.sources}}
        )

    async def _scored(self, request: Request, asked: Asked) -> list[list[Score]]:
        """Wait for the scores, as long as there is time and somebody who wants them."""
        scoring = asyncio.ensure_future(self.batches.score(asked))
        leaving = asyncio.ensure_future(request.receive())  # nothing more comes but that they hang up
        try:
            await asyncio.wait({scoring, leaving}, timeout=self.limits.seconds, return_when="FIRST_COMPLETED")
            if scoring.done():
                found = scoring.result()
                if found is None:
                    raise Refusal(503, "too many requests wait already", fix="ask again in a second")
                return found
            if leaving.done():
                raise Refusal(499, "nobody is there any more")
            limit = f"not scored within {self.limits.seconds:g} seconds"
            raise Refusal(504, limit, fix="send fewer turns at once, or ask again later")
        finally:
            scoring.cancel()
            leaving.cancel()

    async def sources(self, _: Request) -> Response:
        """List what can be asked for."""
        return _answer({"sources": [self._source(source, made) for source, made in self.metrics.items()]})

    def _source(self, source: str, made: Any) -> dict[str, Any]:
        about = describe(made.name)
        return {
            "source": source,
            "metric": made.name,
            "what": about["what"],
            "dimensions": list(about["dimensions"]),
            "better": about["better"],
            "fields": {item.name: getattr(made, item.name) for item in dataclasses.fields(made)},
            "signature": self.signatures[source],
        }

    async def show_figures(self, _: Request) -> Response:
        """Write what Prometheus reads."""
        return Response(self.figures.text(), headers={"content-type": CONTENT_TYPE})

    async def openapi(self, _: Request) -> Response:
        """Describe all of this."""
        return Response(self.document, media_type="application/json")


def make_service(
    metrics: Mapping[str, Any],
    limits: Limits | None = None,
    hosts: Collection[str] = (),
    token: str | None = None,
) -> "Counted":
    """Return the application.

    Args:
        metrics: Made metrics, by the name of their source.
        limits: What is refused.
        hosts: Names the service goes by, beside those of this machine to itself.
        token: What everybody has to send; None lets all in who reach it.
    """
    limits = limits or Limits()
    service = Service(metrics, limits, token=token is not None)
    routes = [Route(path, handler, methods=[method]) for path, (method, handler) in service.routes().items()]
    handlers: Any = {HTTPException: _http, Refusal: _refused, Exception: _failed}
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=service.lifespan)
    app.router.redirect_slashes = False
    guard = Guard(app, Gate(hosts, limits.body, limits.seconds, token))
    return Counted(guard, service.figures, frozenset(service.routes()))


class Counted:
    """Counts every answer, also those that nothing but the guard gave."""

    def __init__(self, app: Guard, figures: Figures, paths: Collection[str]) -> None:
        self.app, self.figures, self.paths = app, figures, paths

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request and count it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def seen(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, seen)
        finally:
            route = scope["path"] if scope["path"] in self.paths else "other"
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self.figures.count_request(route, method, status, time.perf_counter() - began)


def _answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    packed = msgspec.json.encode(value, enc_hook=str)
    return Response(packed, status, headers=headers, media_type="application/json")


def _refusal(status: int, error: str, field: str | None = None, fix: str | None = None) -> Response:
    headers = {401: {"www-authenticate": "Bearer"}, 503: {"retry-after": "1"}}.get(status)
    return _answer({"error": error, "field": field, "fix": fix}, status, headers)


async def _refused(_: Request, refusal: Any) -> Response:
    return _refusal(refusal.status, refusal.error, refusal.field, refusal.fix)


async def _http(_: Request, error: Any) -> Response:
    answer = _refusal(error.status_code, error.detail, fix="see /openapi.json")
    answer.headers.update(error.headers or {})
    return answer


async def _failed(_: Request, __: Exception) -> Response:
    return _refusal(500, "something went wrong here")
