"""`dialeval serve`: scores over HTTP; and the options and steps that all verbs with a server share."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from dialeval.cli import output
from dialeval.cli.options import Metrics, Running

Host = Annotated[str, typer.Option(help="Address to listen on; default: this machine only.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 selects a free one.")]
AllowHost = Annotated[
    list[str] | None, typer.Option(help="Host name of this server for others; required with --host 0.0.0.0.")
]


@dataclass(frozen=True)
class PageServer:
    """A server of pages for invited people."""

    host: Host = "127.0.0.1"
    allow_host: AllowHost = None
    address: Annotated[
        str | None, typer.Option(help="Public address behind a proxy: https://rating.example.org")
    ] = None

    def names(self) -> tuple[list[str], bool]:
        """Return the names that pages are reached by, and whether by HTTPS; needs the extra `serve`."""
        require_extra()
        from dialeval.annotation.web import check_host, outside

        known, is_secure = outside(self.address)
        hosts = [name.lower() for name in [*(self.allow_host or ()), *known]]
        return check_host(self.host, hosts), is_secure

    def serve(self, app: Any, port: int, names: Sequence[str], announce: Callable[[str], None]) -> None:
        """Listen, announce the address that people open, and serve until Ctrl-C."""
        from dialeval.annotation.web import address_of, listen
        from dialeval.annotation.web import serve as run

        taken = listen(self.host, port)
        announce(self.address.rstrip("/") if self.address else address_of(taken, names))
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            run(app, taken)


def require_extra(*more: str) -> None:
    """Refuse where the libraries of the extra `serve` are missing, before anything is written."""
    import importlib

    from dialeval.errors import UsageError

    try:
        for name in ("starlette", "uvicorn", *more):
            importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is missing: pip install 'dialeval[serve]'") from None


def print_links(rows: Sequence[dict[str, str]], json: bool) -> None:
    """Print everybody's link: as JSON, for people on a terminal, or as a table."""
    from dialeval import files

    if json:
        output.print_json(list(rows))
    elif files.is_terminal(sys.stdout):  # a table would break the links
        for row in rows:
            role = " (expert)" if row.get("role") == "expert" else ""
            output.print_lines([f"{row['name']}{role}", f"  {row['link']}"])
    else:
        header = tuple(rows[0]) if rows else ()
        output.print_table("Links", header, [tuple(row.values()) for row in rows])


def serve(
    _: Running,
    metric: Metrics = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    allow_host: AllowHost = None,
    max_body: Annotated[float, typer.Option(min=0.001, help="Maximum megabytes per request.")] = 8,
    max_turns: Annotated[int, typer.Option(min=1, help="Maximum turns per request.")] = 5_000,
    max_waiting: Annotated[
        int, typer.Option(min=1, help="Maximum queued requests; further ones get a 503.")
    ] = 256,
    timeout: Annotated[float, typer.Option(min=0.01, help="Maximum seconds per request.")] = 60,
    together: Annotated[int, typer.Option(min=1, help="Maximum turns per scoring pass.")] = 2_000,
) -> None:
    """Serve scores over HTTP.

    On addresses other than this machine's own a token is required: DIALEVAL_TOKEN, or one that is generated
    and printed at start.

    Example: dialeval serve -m turn-quality --port 8000
    """
    require_extra("prometheus_client")
    from dialeval.annotation.web import address_of, check_host, listen
    from dialeval.annotation.web import serve as run
    from dialeval.jobs.scoring import build_all
    from dialeval.jobs.serving.requests import Limits
    from dialeval.jobs.serving.service import make_service, warm_up

    names = check_host(host, [name.lower() for name in allow_host or []])
    limits = Limits(int(max_body * (1 << 20)), max_turns, max_waiting, timeout, together)
    token, is_new = _token(host)
    metrics = build_all(metric or ())
    warm_up(metrics)
    app = make_service(metrics, limits, names, token)
    taken = listen(host, port)
    _announce(address_of(taken, names), list(metrics), token if is_new else None)
    # SIGTERM ends the server and not the program: the server passes it on after its last answer.
    signal.signal(signal.SIGTERM, lambda *_: None)
    with contextlib.suppress(KeyboardInterrupt):
        run(app, taken, int(timeout) + 5)
    output.say("stopped; all accepted requests were answered")
    if app.batches.is_scoring:  # for nobody; the interpreter would wait for native code, or crash in it
        os._exit(0)


def _token(host: str) -> tuple[str | None, bool]:
    """Return the token that is needed, if one is, and whether it was made just now."""
    import secrets

    from dialeval.annotation.web import is_loopback
    from dialeval.jobs.serving.service import check_token

    if token := os.environ.get("DIALEVAL_TOKEN"):
        return check_token(token), False
    return (None, False) if is_loopback(host) else (secrets.token_hex(16), True)


def _announce(address: str, sources: list[str], token: str | None) -> None:
    output.say(f"{', '.join(sources)} at {address} (POST /score; API: {address}/openapi.json)")
    if token is not None:
        output.say(f"token: {token} (Authorization: Bearer …; set DIALEVAL_TOKEN for a fixed one)")
    output.say("Ctrl-C or SIGTERM stops it after answering accepted requests.")
