"""`dialeval chat`: people talk to a system in their browsers, and rate it."""

import contextlib
from pathlib import Path
from typing import Annotated, Any

import typer

from dialeval.cli import output
from dialeval.cli.options import Json
from dialeval.cli.responding import (
    Instructions,
    MaxTokens,
    Model,
    Name,
    SystemSpec,
    Temperature,
    Timeout,
    Tries,
)


def chat(
    system: SystemSpec,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder of the conversations.")],
    people: Annotated[str, typer.Option(help="Who may talk to it: names, with commas.")] = "me",
    scheme: Annotated[
        str | None,
        typer.Option(help="What is asked at the end: a scheme about dialogues, by name or a .toml file."),
    ] = None,
    name: Name = None,
    model: Model = None,
    instructions: Instructions = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    timeout: Timeout = None,
    tries: Tries = None,
    host: Annotated[
        str, typer.Option(help="Where to listen; by default only for this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8751,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A name by which others reach this server; needed with --host 0.0.0.0."),
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="Where others find it through a proxy: https://NAME.")
    ] = None,
    json: Json = False,
) -> None:
    """Let people talk to a system in their browsers and rate the conversation at the end.

    Run it again with the same folder to go on.

    Example: dialeval chat --system http://localhost:8000/v1 -o talks/ --people ann,bob
    """
    from dialeval.annotation.server import address_of, check_host, listen, outside, serve
    from dialeval.annotation.talks import DIALOGUES, RATINGS, Talks
    from dialeval.errors import UsageError
    from dialeval.systems import Conversation, build

    try:
        from dialeval.annotation.chat import make_chat
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is missing: pip install 'dialeval[serve]'") from None
    asked: dict[str, Any] = {"model": model, "temperature": temperature, "max_tokens": max_tokens}
    made = build(system, name=name, instructions=instructions, timeout=timeout, tries=tries, **asked)
    Conversation(made)  # refuses one that nobody can talk to, before a folder is made
    known, is_secure = outside(address)
    names = check_host(host, [one.lower() for one in [*(allow_host or []), *known]])
    talks = Talks(out, [one for one in people.split(",") if one.strip()], scheme)
    app = make_chat(talks, made, names, is_secure=is_secure)
    taken = listen(host, port)
    _announce(talks, address.rstrip("/") if address else address_of(taken, names), json)
    output.say(f"{made.name}: {made.signature}")
    output.say("Give each person their own link; it is their key. Ctrl-C ends; the same command goes on.")
    with contextlib.suppress(KeyboardInterrupt):
        serve(app, taken)
    output.say(
        f"{output.counted(len(talks.rated()), 'conversation')} rated: {out / DIALOGUES}, {out / RATINGS}"
    )


def _announce(talks: Any, address: str, json: bool) -> None:
    import sys

    from dialeval import files
    from dialeval.dialogues.visibility import visible

    rows = [(name, f"{address}/in/{token}") for name, (_, token) in talks.people().items()]
    if json:
        output.print_json([dict(zip(("name", "link"), row, strict=True)) for row in rows])
    elif files.is_terminal(sys.stdout):  # a table would break the links
        for name, link in rows:
            print(f"{visible(name)}\n  {link}")
    else:
        output.print_table("Links", ("name", "link"), rows)
    sys.stdout.flush()
