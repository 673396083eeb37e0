"""`dialeval serve`: scores over HTTP."""

import contextlib
from typing import Annotated

import typer

from dialeval.cli import output
from dialeval.cli.options import Cache, Metrics, Threads

PORT = 8000


def serve(
    metric: Metrics = None,
    host: Annotated[
        str, typer.Option(help="Where to listen; by default only for this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = PORT,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A name by which others reach this server; needed with --host 0.0.0.0."),
    ] = None,
    max_body: Annotated[float, typer.Option(min=0.001, help="The most megabytes of one request.")] = 8,
    max_turns: Annotated[int, typer.Option(min=1, help="The most turns of one request.")] = 5_000,
    max_waiting: Annotated[
        int, typer.Option(min=1, help="The most requests that wait; the next one gets a 503.")
    ] = 256,
    timeout: Annotated[float, typer.Option(min=0.01, help="The most seconds for one request.")] = 60,
    together: Annotated[int, typer.Option(min=1, help="Turns scored in one pass, at most.")] = 2_000,
    threads: Threads = None,
    cache: Cache = None,
) -> None:
    """Score dialogues that come over HTTP.

    On other addresses than this machine's own, everybody needs the token: that of DIALEVAL_TOKEN, or one that
    is made at the start and printed.

    Example: dialeval serve -m turn-quality --port 8000
    """
    from dialeval.annotation.server import address_of, check_host, listen
    from dialeval.annotation.server import serve as run
    from dialeval.errors import UsageError
    from dialeval.jobs.scoring import build_all
    from dialeval.jobs.serving.limits import Limits

    try:
        from dialeval.jobs.serving.service import make_service, warm_up
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is missing: pip install 'dialeval[serve]'") from None
    names = check_host(host, [name.lower() for name in allow_host or []])
    limits = Limits(int(max_body * (1 << 20)), max_turns, max_waiting, timeout, together)
    token, is_new = _token(host)
    metrics = build_all(metric or ())
    warm_up(metrics)
    app = make_service(metrics, limits, names, token)
    taken = listen(host, port)
    _announce(address_of(taken, names), list(metrics), token if is_new else None)
    _end_quietly()
    with contextlib.suppress(KeyboardInterrupt):
        run(app, taken, int(timeout) + 5)
    output.say("ended; everything that was accepted was answered")


def _token(host: str) -> tuple[str | None, bool]:
    """Return the token that is needed, if one is, and whether it was made just now."""
    import os
    import secrets

    from dialeval.annotation.server import is_loopback
    from dialeval.jobs.serving.service import check_token

    if given := os.environ.get("DIALEVAL_TOKEN"):
        return check_token(given), False
    return (None, False) if is_loopback(host) else (secrets.token_hex(16), True)


def _announce(address: str, sources: list[str], token: str | None) -> None:
    output.say(f"{', '.join(sources)} at {address} (POST /score; what it takes: {address}/openapi.json)")
    if token is not None:
        output.say(f"token: {token} (Authorization: Bearer …; DIALEVAL_TOKEN sets one that stays)")
    output.say("Ctrl-C or SIGTERM ends it, after what was accepted is answered.")


def _end_quietly() -> None:
    """Let SIGTERM end the server and not the program: the server passes it on after its last answer."""
    import signal

    signal.signal(signal.SIGTERM, lambda *_: None)
