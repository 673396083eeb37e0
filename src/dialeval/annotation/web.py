"""The web layer that all servers of dialeval share: annotation and chat pages, and the scoring service.

`guarded_app` puts routes behind a `RequestGuard`:

- the `Host` header must be one of the server's names, against DNS rebinding;
- a body that is too large or too slow is refused before it reaches a route;
- the headers of every response forbid foreign content, framing, sniffing, caching and referrers;
- a `Refusal` raised anywhere becomes a response.

`PersonalLinks` makes an application of pages that only invited people can open:

- everybody needs a personal link with a token of 128 bits, compared in constant time; the link stores it in a
  cookie that scripts cannot read. There are no passwords and there is no registration;
- every form has a code derived from its owner's token; a post without it, or from another origin, is refused,
  and only forms are read.

A handler of a page is a function from `Visit` to a Starlette response. It runs in a thread, so it may wait
for the disk. `listen` and `serve` run an application; `connections.py` bounds the connections themselves.
"""

import asyncio
import hashlib
import hmac
import ipaddress
import logging
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from dialeval.errors import UsageError

LIMIT = 256 * 1024
SECONDS = 20.0
_LOGGERS = ("asyncio", "uvicorn.error", "dialeval.serving")
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
Show = Callable[["Refusal"], Response]


class Refusal(Exception):  # noqa: N818  # not an error of ours: a response
    """A refused request: the status, the problem, the field, and the fix."""

    def __init__(
        self, status: int, title: str, message: str = "", *, field: str | None = None, fix: str | None = None
    ) -> None:
        super().__init__(title)
        self.status, self.title, self.message, self.field, self.fix = status, title, message, field, fix


@dataclass(frozen=True, slots=True)
class Person:
    """The sender of a request, identified by the token."""

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
        """Return the first value of a form field, or an empty string."""
        return next(iter(self.fields.get(name, ())), "")


Handler = Callable[[Visit], Response]


@dataclass(frozen=True, slots=True)
class Page:
    """A path and method, the roles that may use it, and its handler."""

    path: str
    handler: Handler
    roles: Collection[str]
    method: str = "GET"


@dataclass(frozen=True, slots=True)
class PersonalLinks:
    """Pages for invited people.

    Args:
        people: Returns role and token of everybody who has a link, by name. Called for each request, so that
            new raters are known at once.
        secret: The key for the codes of forms.
        hosts: Names of the server, besides the local ones.
        show: Renders a refusal.
        home: The page that a link leads to, by role.
        is_secure: Whether people use HTTPS, through a proxy: then the cookie is secure.
        errors: Exceptions of handlers that become a refusal (a full disk): status, title, message.
    """

    people: Callable[[], Mapping[str, tuple[str, str]]]
    secret: bytes
    show: Show
    home: Mapping[str, str]
    hosts: Collection[str] = ()
    is_secure: bool = False
    errors: Mapping[type[Exception], tuple[int, str, str]] = field(default_factory=dict)

    def app(self, pages: Sequence[Page], public: Mapping[str, tuple[bytes, str]]) -> "RequestGuard":
        """Return the application of these pages and of public files (path to bytes and type)."""
        by_path: dict[str, dict[str, Page]] = {}
        for page in pages:
            by_path.setdefault(page.path, {})[page.method] = page
        routes = [Route("/in/{token}", self._enter, methods=["GET"])]
        routes += [Route(path, self._public(*content), methods=["GET"]) for path, content in public.items()]
        routes += [
            Route(path, self._page(methods), methods=list(methods)) for path, methods in by_path.items()
        ]
        titles = {404: "There is no such page", 405: "Not that way"}
        return guarded_app(routes, self.show, self.hosts, titles=titles)

    def person(self, token: str) -> Person | None:
        """Return the owner of a token, compared in constant time."""
        sent, person = token.encode(), None
        for name, (role, own_token) in self.people().items():
            if hmac.compare_digest(own_token.encode(), sent) and sent:  # nobody's token is empty
                person = Person(name, role, own_token)
        return person

    def code(self, token: str) -> str:
        """Return the code of this person's forms."""
        return hmac.new(self.secret, b"form " + token.encode(), hashlib.sha256).hexdigest()[:32]

    @property
    def cookie(self) -> str:
        """The name of the cookie, unique for each application and no part of the secret."""
        return f"dialeval-{hmac.new(self.secret, b'cookie', hashlib.sha256).hexdigest()[:12]}"

    async def _enter(self, request: Request) -> Response:
        person = await run_in_threadpool(self.person, request.path_params["token"])
        if person is None:
            raise Refusal(401, "This link is not known", "Ask the person who sent it to you for a new one.")
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
            sent = next(iter(fields.get("code", ())), "")
            if not hmac.compare_digest(sent.encode(), code.encode()):
                raise Refusal(403, "This form is not genuine", "Open the page again and send it from there.")
        visit = Visit(person, code, request.path_params, dict(request.query_params), fields)
        try:
            return page.handler(visit)
        except tuple(self.errors) as error:
            raise Refusal(*self.errors[type(error)]) from None

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
            raise Refusal(400, "Not a form", "The request could not be read.") from None


@dataclass(frozen=True, slots=True)
class RequestGuard:
    """An application behind checks of every request.

    Args:
        show: Renders a refusal.
        hosts: Names of the server, besides the local ones.
        limit: Maximum size of a body in bytes.
        seconds: Maximum time for a body to arrive.
        check: Checks path and headers before the body is read, and returns a refusal or None.
    """

    app: Starlette
    show: Show
    hosts: Collection[str] = ()
    limit: int = LIMIT
    seconds: float = SECONDS
    check: Callable[[str, Mapping[str, str]], Refusal | None] = lambda *_: None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or refuse it before its body is read."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = [pair for pair in message["headers"] if pair[0].lower().decode() not in _HEADERS]
                added = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message = {**message, "headers": [*headers, *added]}
            await send(message)

        refusal, body = await self._examined(scope, receive)
        if refusal is not None:
            await self.show(refusal)(scope, receive, guarded)
            return
        parts = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def replay() -> Any:
            return next(parts, None) or await receive()

        await self.app(scope, replay, guarded)

    async def _examined(self, scope: Any, receive: Any) -> tuple[Refusal | None, bytes]:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if host_name(headers.get("host", "")) not in {*_LOCAL, *self.hosts}:
            return Refusal(421, "Not here", "The requested name is not one of this server."), b""
        if refusal := self.check(scope["path"], headers):
            return refusal, b""
        large = Refusal(413, "Too much", f"At most {self.limit // 1024} KB can be sent at once.")
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > self.limit:
            return large, b""
        try:
            async with asyncio.timeout(self.seconds):
                body = await _received(receive, self.limit)
        except TimeoutError:
            return Refusal(408, "Too slow", "The request did not arrive in time."), b""
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


def guarded_app(
    routes: Sequence[Route],
    show: Show,
    hosts: Collection[str] = (),
    *,
    titles: Mapping[int, str] | None = None,
    lifespan: Any = None,
    **checks: Any,
) -> RequestGuard:
    """Return an application of routes, in which refusals and failures are rendered by `show`.

    Args:
        show: Renders a refusal.
        hosts: Names of the server, besides the local ones.
        titles: Titles for Starlette's own errors (404, 405), by status.
        **checks: Other fields of a `RequestGuard`.
    """

    async def refused(_: Request, refusal: Any) -> Response:
        return show(refusal)

    async def unknown(_: Request, error: Any) -> Response:
        answer = show(Refusal(error.status_code, (titles or {}).get(error.status_code, error.detail)))
        answer.headers.update(error.headers or {})
        return answer

    async def failed(_: Request, __: Exception) -> Response:
        return show(Refusal(500, "Something went wrong here"))

    handlers: Any = {HTTPException: unknown, Refusal: refused, Exception: failed}
    app = Starlette(routes=list(routes), exception_handlers=handlers, lifespan=lifespan)
    return RequestGuard(app, show, hosts, **checks)


def host_name(host: str) -> str:
    """Return the name in a Host header, without its port.

    >>> host_name("Localhost:8750"), host_name("[::1]:80"), host_name("evil@127.0.0.1")
    ('localhost', '::1', '')
    """
    if any(character in host for character in "@/\\ ,"):
        return ""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that listens there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_host(host: str, hosts: Collection[str]) -> list[str]:
    """Return the names of a server; one that is reachable from outside needs at least one."""
    if host in _LOCAL:
        return list(hosts)
    if is_loopback(host):  # 127.0.0.2
        return [*hosts, host.lower()]
    try:
        everywhere = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        everywhere = False
    if everywhere and not hosts:
        raise UsageError(
            f"--host {host} makes this server reachable for others: set its name with --allow-host NAME"
        )
    return [*hosts, *([] if everywhere else [host.lower()])]


def outside(address: str | None) -> tuple[list[str], bool]:
    """Return the host name in the public address, and whether it uses HTTPS.

    >>> outside("https://rate.example.org/"), outside(None)
    ((['rate.example.org'], True), ([], False))
    """
    parts = urlsplit(address or "")
    if address and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise UsageError(f"--address {address}: expected https://NAME")
    return [parts.hostname] if parts.hostname else [], parts.scheme == "https"


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket."""
    try:
        family, kind, protocol = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][:3]
        taken = socket.socket(family, kind, protocol)  # without the protocol asyncio sets no TCP_NODELAY
    except OSError as error:
        raise UsageError(f"--host {host}: {error.strerror or error}") from None
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((host, port))
    except OSError as error:
        taken.close()
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror}; try --port {port + 1}") from None
    taken.listen(256)
    return taken


def address_of(taken: socket.socket, hosts: Collection[str] = ()) -> str:
    """Return the address to announce: with the first given name, or its own."""
    host, port = taken.getsockname()[:2]
    name = next(iter(hosts), host)
    return f"http://{f'[{name}]' if ':' in name else name}:{port}"


def serve(app: Any, taken: socket.socket, grace: int = 3) -> None:
    """Serve until Ctrl-C; running requests then have `grace` seconds left."""
    import uvicorn

    from dialeval.annotation.connections import LimitedConnection, SeldomFilter

    config = uvicorn.Config(
        app,
        http=LimitedConnection,
        backlog=max(8, LimitedConnection.most // 8),
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=grace,
    )
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(SeldomFilter())
    uvicorn.Server(config).run(sockets=[taken])
