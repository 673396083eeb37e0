"""The door of every page that people open: who may come in, from where, with how much.

`Door.app` makes an application of plain functions, and keeps watch around them:

- the `Host` header must be one of the names the server goes by, so that no other site can borrow it;
- everybody needs a personal link with a token of 128 bits, compared in constant time; the link leaves it in a
  cookie that scripts cannot read. There are no passwords and nobody can register;
- every form carries a code made from its owner's token; a post without it, or from another origin, is
  refused;
- a body larger than `limit` is refused before it is read, and only forms are read;
- every answer forbids all content but the server's own, framing, sniffing, caching, and sending addresses
  away.

A handler is a function from `Visit` to a Starlette response. It runs in a thread, so it may wait for the
disk.
"""

import asyncio
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from dialeval.annotation.server import host_name

LIMIT = 256 * 1024
_FIELDS = 5_000
_FORM = "application/x-www-form-urlencoded"
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with no-referrer, browsers would send no origin with a form
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
Scope = Any


class Refusal(Exception):  # noqa: N818  # not an error of ours: an answer to somebody
    """A request that is turned down, with words for whoever sent it."""

    def __init__(self, status: int, title: str, message: str) -> None:
        super().__init__(title)
        self.status, self.title, self.message = status, title, message


@dataclass(frozen=True, slots=True)
class Person:
    """Who sent a request, as their token says."""

    name: str
    role: str
    token: str


@dataclass(frozen=True, slots=True)
class Visit:
    """A request whose sender is known and whose form, if it has one, is genuine."""

    person: Person
    code: str
    path: Mapping[str, Any]
    query: Mapping[str, str]
    fields: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def first(self, name: str) -> str:
        """Return the first value of a field of the form, or nothing."""
        return next(iter(self.fields.get(name, ())), "")


Handler = Callable[[Visit], Response]


@dataclass(frozen=True, slots=True)
class Page:
    """A path, the method it answers to, who may use it, and the function that answers."""

    path: str
    handler: Handler
    roles: Collection[str]
    method: str = "GET"


@dataclass(frozen=True, slots=True)
class Door:
    """What an application needs to know to keep the wrong people out.

    Args:
        people: Gives everybody who has a link: name to role and token. Asked each time, so that a new rater
            can come in at once.
        secret: What codes of forms are made with.
        name: Tells this application's cookie from others on the same machine.
        hosts: Names the server goes by, beside those of this machine to itself.
        show: Makes a page of a status, a title and a message.
        home: Where a link leads, by role.
        is_secure: Whether people reach it by HTTPS, through a proxy: then the cookie goes no other way.
        limit: The most bytes of a form.
        seconds: The longest a form may take to arrive.
    """

    people: Callable[[], Mapping[str, tuple[str, str]]]
    secret: bytes
    name: str
    show: Callable[[int, str, str], Response]
    home: Mapping[str, str]
    hosts: Collection[str] = ()
    is_secure: bool = False
    limit: int = LIMIT
    seconds: float | None = None

    def refused(self, path: str, headers: Mapping[str, str]) -> tuple[int, str, str] | None:
        """Refuse nobody before it is known who they are."""
        return None

    def app(self, pages: Sequence[Page], public: Mapping[str, tuple[bytes, str]]) -> "Guard":
        """Put pages behind the door, and beside it what everybody may have: path to bytes and type."""
        by_path: dict[str, dict[str, Page]] = {}
        for page in pages:
            by_path.setdefault(page.path, {})[page.method] = page
        routes = [Route("/in/{token}", self._enter, methods=["GET"])]
        routes += [Route(path, self._public(*given), methods=["GET"]) for path, given in public.items()]
        routes += [Route(path, self._page(found), methods=list(found)) for path, found in by_path.items()]
        handlers: Any = {HTTPException: self._http, Refusal: self._refused, Exception: self._failed}
        return Guard(Starlette(routes=routes, exception_handlers=handlers), self)

    def person(self, token: str) -> Person | None:
        """Find whose token this is, in a time that does not tell how near it came."""
        given, found = token.encode(), None
        for name, (role, known) in self.people().items():
            if hmac.compare_digest(known.encode(), given):
                found = Person(name, role, known)
        return found

    def code(self, token: str) -> str:
        """Return the code that this person's forms carry."""
        return hmac.new(self.secret, b"form " + token.encode(), hashlib.sha256).hexdigest()[:32]

    @property
    def cookie(self) -> str:
        """The name of the cookie."""
        return f"dialeval-{self.name}"

    async def _enter(self, request: Request) -> Response:
        person = await run_in_threadpool(self.person, request.path_params["token"])
        if person is None:
            raise Refusal(401, "This link is not known", "Ask whoever sent it to you for a new one.")
        answer = RedirectResponse(self.home[person.role], 303)
        answer.set_cookie(
            self.cookie,
            person.token,
            max_age=90 * 86_400,
            httponly=True,
            samesite="lax",
            secure=self.is_secure,
        )
        return answer

    def _public(self, body: bytes, kind: str) -> Callable[[Request], Awaitable[Response]]:
        async def answer(_: Request) -> Response:
            return Response(body, media_type=kind)

        return answer

    def _page(self, pages: Mapping[str, Page]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            page = pages["GET" if request.method == "HEAD" else request.method]
            body = await request.body()
            return await run_in_threadpool(self._answer, page, request, body)

        return answer

    def _answer(self, page: Page, request: Request, body: bytes) -> Response:
        person = self.person(request.cookies.get(self.cookie, ""))
        if person is None:
            raise Refusal(401, "Please open your personal link", "This page is for invited people only.")
        if person.role not in page.roles:
            raise Refusal(403, "Not for you", "Your link does not open this page.")
        code, fields = self.code(person.token), {}
        if page.method == "POST":
            fields = self._form(request, body)
            given = next(iter(fields.get("code", ())), "")
            if not hmac.compare_digest(given.encode(), code.encode()):
                raise Refusal(403, "This form is not genuine", "Open the page again and send it from there.")
        return page.handler(Visit(person, code, request.path_params, dict(request.query_params), fields))

    def _form(self, request: Request, body: bytes) -> dict[str, list[str]]:
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
            raise Refusal(
                403, "This form comes from elsewhere", "Open the page again and send it from there."
            )
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
            raise Refusal(415, "Not a form", "Only forms of these pages are read.")
        try:
            text = body.decode("ascii")
            return parse_qs(text, keep_blank_values=True, max_num_fields=_FIELDS, errors="replace")
        except ValueError:
            raise Refusal(400, "Not a form", "What was sent could not be read.") from None

    async def _refused(self, _: Request, refusal: Any) -> Response:
        return self.show(refusal.status, refusal.title, refusal.message)

    async def _http(self, _: Request, error: Any) -> Response:
        titles = {404: "There is no such page", 405: "Not that way"}
        answer = self.show(error.status_code, titles.get(error.status_code, error.detail), "")
        answer.headers.update(error.headers or {})
        return answer

    async def _failed(self, _: Request, __: Exception) -> Response:
        return self.show(
            500,
            "Something went wrong here",
            "Please try again, and tell the coordinator if it happens again.",
        )


class Gate(Protocol):
    """What a guard needs to know: see `Door`."""

    @property
    def hosts(self) -> Collection[str]:
        """Names the server goes by, beside those of this machine to itself."""

    @property
    def limit(self) -> int:
        """The most bytes of a body."""

    @property
    def seconds(self) -> float | None:
        """The longest a body may take to arrive."""

    def show(self, status: int, title: str, message: str) -> Response:
        """Make an answer of a refusal."""

    def refused(self, path: str, headers: Mapping[str, str]) -> tuple[int, str, str] | None:
        """Say what is wrong with a request of which nothing but its head was read, if anything is."""


class Guard:
    """What stands before an application: names, sizes, and headers of every answer."""

    def __init__(self, app: Starlette, gate: Gate) -> None:
        self.app, self.gate = app, gate

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answer a request, or turn it down before anything of it is read."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                kept = [pair for pair in message["headers"] if pair[0].lower().decode() not in _HEADERS]
                added = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message = {**message, "headers": [*kept, *added]}
            await send(message)

        refusal, body = await self._examined(scope, receive)
        if refusal is not None:
            await self.gate.show(*refusal)(scope, receive, guarded)
            return
        parts = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def replay() -> Any:
            return next(parts, None) or await receive()

        await self.app(scope, replay, guarded)

    async def _examined(self, scope: Scope, receive: Any) -> tuple[tuple[int, str, str] | None, bytes]:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if host_name(headers.get("host", "")) not in {*_LOCAL, *self.gate.hosts}:
            return (421, "Not here", "This server does not go by the name that was asked for."), b""
        if refusal := self.gate.refused(scope["path"], headers):
            return refusal, b""
        large = (413, "Too much", f"At most {self.gate.limit // 1024} KB can be sent at once.")
        if headers.get("content-length", "0").isdigit() and (
            int(headers.get("content-length", "0")) > self.gate.limit
        ):
            return large, b""
        try:
            async with asyncio.timeout(self.gate.seconds):
                body = await _received(receive, self.gate.limit)
        except TimeoutError:
            return (408, "Too slow", "The request did not arrive in time."), b""
        return (large, b"") if body is None else (None, body)


async def _received(receive: Any, limit: int) -> bytes | None:
    """Read a body; None if it is larger than the limit."""
    parts, size = list[bytes](), 0
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            return None
        if message["type"] != "http.request" or not message.get("more_body"):
            return b"".join(parts)
