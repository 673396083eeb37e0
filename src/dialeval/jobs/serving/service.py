"""The application that `dialeval serve` runs: its five routes, the token, and how errors are answered."""

import asyncio
import contextlib
import dataclasses
import hmac
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dialeval import __version__
from dialeval.annotation.web import Refusal, RequestGuard, guarded_app
from dialeval.dialogues import Dialogue, Turn
from dialeval.errors import UsageError
from dialeval.jobs.serving.batches import CONTENT_TYPE, Batches, ScoringFailedError, ServiceFigures
from dialeval.jobs.serving.requests import (
    ErrorAnswer,
    HealthAnswer,
    Limits,
    ParsedRequest,
    ScoreAnswer,
    ScoredDialogue,
    ScoreRow,
    SourceDescription,
    SourceList,
    openapi_document,
    parse,
)
from dialeval.metrics import describe, signature_of
from dialeval.scores import Score

OPEN = "/health"  # what a load balancer asks, without the token
_METHODS = ("GET", "HEAD", "POST")
_TRIAL = Dialogue("warm-up", (Turn("user", "Hello."), Turn("assistant", "Hello, how are you?")))
_TRIAL_SECONDS = 2.0
_SHORTEST = 32  # characters of a token: 128 bits in hexadecimal


def token_check(token: str | None) -> Callable[[str, Mapping[str, str]], Refusal | None]:
    """Return a check of the bearer token, in constant time."""

    def check(path: str, headers: Mapping[str, str]) -> Refusal | None:
        if token is None or path == OPEN:
            return None
        kind, _, sent = headers.get("authorization", "").partition(" ")
        right = hmac.compare_digest(sent.strip().encode("utf-8", "replace"), token.encode())
        if right and kind.lower() == "bearer":
            return None
        return Refusal(401, "This needs the token", "send it as Authorization: Bearer TOKEN")

    return check


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
    for source in _without_cost(metrics):
        metrics[source].score([_TRIAL])


def _without_cost(metrics: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(source for source, metric in metrics.items() if not hasattr(metric, "estimate"))


class Service:
    """The routes of a service with some metrics, each under the name of its source."""

    def __init__(self, metrics: Mapping[str, Any], limits: Limits, *, token: bool) -> None:
        self.metrics, self.limits = metrics, limits
        self.figures = ServiceFigures(lambda: len(self.batches))
        self.batches = Batches(metrics, limits, self.figures)
        self._free = _without_cost(metrics)
        self.signatures = {source: str(signature_of(metric)) for source, metric in metrics.items()}
        self.document = msgspec.json.encode(openapi_document(list(metrics), limits, token=token))

    def routes(self) -> list[Route]:
        """Return the handler of each path."""
        return [
            Route(OPEN, self.health, methods=["GET"]),
            Route("/score", self.score, methods=["POST"]),
            Route("/sources", self.sources, methods=["GET"]),
            Route("/metrics", self.show_figures, methods=["GET"]),
            Route("/openapi.json", self.openapi, methods=["GET"]),
        ]

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Score from the first request on until the last one is answered."""
        self.batches.start()
        try:
            yield
        finally:
            await asyncio.to_thread(self.batches.stop)

    async def health(self, _: Request) -> Response:
        """Answer whether a score can be made now; where there is doubt, one is."""
        if self.batches.trouble():
            with contextlib.suppress(TimeoutError, ScoringFailedError):
                async with asyncio.timeout(_TRIAL_SECONDS):
                    await self.batches.score(ParsedRequest([_TRIAL], self._free, len(_TRIAL.turns)))
        if trouble := self.batches.trouble():
            raise Refusal(503, "no score can be made now", trouble)
        return _answer(HealthAnswer("ok", __version__))

    async def score(self, request: Request) -> Response:
        """Score dialogues, together with those of others who ask now."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Refusal(415, "only JSON is read", fix="send Content-Type: application/json")
        asked = parse(await request.body(), self.metrics, self.limits.turns)
        rows_of = await self._scored(request, asked)
        shown = [
            ScoredDialogue(dialogue.id, [ScoreRow(*row) for row in rows])
            for dialogue, rows in zip(asked.dialogues, rows_of, strict=True)
        ]
        return _answer(ScoreAnswer(shown, {name: self.signatures[name] for name in asked.sources}))

    async def _scored(self, request: Request, asked: ParsedRequest) -> list[list[Score]]:
        """Wait for the scores until the time is up or the client has hung up."""
        scoring = asyncio.ensure_future(self.batches.score(asked))
        leaving = asyncio.ensure_future(request.receive())  # nothing more comes but that they hang up
        try:
            await asyncio.wait({scoring, leaving}, timeout=self.limits.seconds, return_when="FIRST_COMPLETED")
            if scoring.done():
                rows = scoring.result()
                if rows is None:
                    raise Refusal(503, "too many requests wait already", fix="ask again in a second")
                return rows
            if leaving.done():
                raise Refusal(499, "the client disconnected")
            limit = f"not scored within {self.limits.seconds:g} seconds"
            raise Refusal(504, limit, fix="send fewer turns at once, or ask again later")
        except ScoringFailedError:
            raise Refusal(500, "scoring failed", fix="the log of the service says why") from None
        finally:
            scoring.cancel()
            leaving.cancel()

    async def sources(self, _: Request) -> Response:
        """List the sources that can be asked for."""
        return _answer(SourceList([self._source(source, metric) for source, metric in self.metrics.items()]))

    def _source(self, source: str, metric: Any) -> SourceDescription:
        about = describe(metric.name)
        fields = {item.name: getattr(metric, item.name) for item in dataclasses.fields(metric)}
        dimensions = list(about["dimensions"])
        return SourceDescription(
            source, metric.name, about["what"], dimensions, about["better"], fields, self.signatures[source]
        )

    async def show_figures(self, _: Request) -> Response:
        """Return the figures for Prometheus."""
        return Response(self.figures.text(), headers={"content-type": CONTENT_TYPE})

    async def openapi(self, _: Request) -> Response:
        """Return the OpenAPI document."""
        return Response(self.document, media_type="application/json")


def make_service(
    metrics: Mapping[str, Any],
    limits: Limits | None = None,
    hosts: Collection[str] = (),
    token: str | None = None,
) -> "RequestCounter":
    """Return the application.

    Args:
        metrics: Made metrics, by the name of their source.
        hosts: Names the service goes by, beside those of this machine to itself.
        token: What everybody has to send; None lets all in who reach it.
    """
    limits = limits or Limits()
    service = Service(metrics, limits, token=token is not None)
    routes = service.routes()
    guard = guarded_app(
        routes,
        show_refusal,
        hosts,
        lifespan=service.lifespan,
        limit=limits.body,
        seconds=limits.seconds,
        check=token_check(token),
    )
    guard.app.router.redirect_slashes = False
    return RequestCounter(guard, service.batches, frozenset(route.path for route in routes))


class RequestCounter:
    """Counts every answer of an application, also those that its guard gave."""

    def __init__(self, app: RequestGuard, batches: Batches, paths: Collection[str]) -> None:
        self.app, self.batches, self.paths = app, batches, paths

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
            self.batches.figures.count_request(route, method, status, time.perf_counter() - began)


def _answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    packed = msgspec.json.encode(value, enc_hook=str)
    return Response(packed, status, headers=headers, media_type="application/json")


def show_refusal(refusal: Refusal) -> Response:
    """Return a refusal as JSON: what is wrong, the field, the fix."""
    headers = {401: {"www-authenticate": "Bearer"}, 503: {"retry-after": "1"}}.get(refusal.status)
    error = f"{refusal.title}: {refusal.message}" if refusal.message else refusal.title
    fix = refusal.fix or ("see /openapi.json" if refusal.status in (404, 405) else None)
    return _answer(ErrorAnswer(error, refusal.field, fix), refusal.status, headers)
