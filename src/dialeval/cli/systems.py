"""`dialeval respond`, `simulate` and `chat`: a system answers fixed contexts, simulated users, or people."""

import contextlib
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from dialeval.cli import output
from dialeval.cli.options import Asking, ChatSource, Json, Running, split_names
from dialeval.cli.serving import PageServer, Port, print_links


def respond(
    source: ChatSource,
    asking: Asking,
    _: Running,
    out: Annotated[str, typer.Option("-o", "--out", help="A .jsonl file of replies, one dialogue each.")],
    speaker: Annotated[
        str | None, typer.Option(help="Speaker that the system plays; default: the assistant.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=256, help="Concurrent requests; default: 4.")
    ] = None,
    give_up: Annotated[int, typer.Option(min=1, help="Stop after this many failures in a row.")] = 20,
    retry: Annotated[bool, typer.Option("--retry", help="Retry failed replies.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Start again instead of resuming.")] = False,
    json: Json = False,
) -> None:
    """Let a system answer fixed contexts.

    Every system turn is answered, always after the original context. Repeat the command to resume.

    Example: dialeval respond chats.jsonl --system mybot:answer -o replies.jsonl
    """
    from dialeval.jobs.responding import respond_to

    system_under_test = asking.build(at_once=concurrency)
    with output.progress("contexts asked") as watch:
        done = respond_to(
            source.open(),
            system_under_test,
            out,
            speaker=speaker,
            retry=retry,
            overwrite=overwrite,
            give_up=give_up,
            watch=watch,
        )
    if json:
        output.print_json({"input": source.name, "output": out, **asdict(done)})
    else:
        header = ("system", "contexts", "answered", "failed", "from earlier")
        row = (done.system, done.contexts, done.answered, done.failed, done.earlier)
        output.print_table("Replies", header, [row])
    for why, count in done.failures.items():
        output.say(f"{output.counted(count, 'failure')}: {why}")
    if not done.contexts:
        output.say(f"{source.name}: no turn to answer; set the speaker that the system plays with --speaker")
    if done.left_out:
        output.say(f"{output.counted(done.left_out, 'context')} left out: no wizard chose anything there")
    if done.failed and not retry:
        output.say("--retry repeats failed replies")
    output.say(f"{done.system}: {done.signature}")
    output.say(f"written: {out}")


def simulate(
    asking: Asking,
    _: Running,
    scenarios: Annotated[Path, typer.Option(help="TOML file of users: their goals, facts and moods.")],
    out: Annotated[str, typer.Option("-o", "--out", help="A .jsonl file of dialogues, one per scenario.")],
    user: Annotated[
        str,
        typer.Option(
            help="Source of users' words: template, retrieval:corpus=FILE, or the address of a model."
        ),
    ] = "template",
    user_model: Annotated[str | None, typer.Option(help="Model name at the users' address.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the users.")] = 0,
    repeats: Annotated[int, typer.Option(min=1, help="Conversations per scenario.")] = 1,
    turns: Annotated[
        int | None, typer.Option(min=1, help="Maximum turns of a user; default: that of the file.")
    ] = None,
    like: Annotated[
        str | None, typer.Option(help="Log of real users, to measure how similar the simulated ones are.")
    ] = None,
    json: Json = False,
) -> None:
    """Let simulated users talk to a system.

    Every version of a system meets the same users.

    Example: dialeval simulate --system mybot:answer --scenarios scenarios.toml -o new.jsonl
    """
    from collections import Counter

    from dialeval.dialogues import formats
    from dialeval.jobs.simulating import likeness, simulate
    from dialeval.systems.users import read_scenarios

    bot = asking.build()
    options = {"model": user_model} if user_model else {}
    users = read_scenarios(scenarios)
    with output.progress("conversations") as watch:
        done = simulate(
            users, bot, user=user, seed=seed, repeats=repeats, turns=turns, watch=watch, **options
        )
    formats.write(done, out)
    ends = Counter(str(dialogue.meta["end"]) for dialogue in done)
    user_turns = sum(turn.speaker == "user" for dialogue in done for turn in dialogue.turns) / len(done)
    figures = likeness(done, list(formats.read(like, note=output.say)), seed) if like else []
    if json:
        rows = [figure.to_dict() for figure in figures]
        output.print_json({"output": out, "conversations": len(done), "ends": ends, "likeness": rows})
    else:
        kinds = ("done", "gave up", "turns", "system failed")
        others = len(done) - sum(ends[kind] for kind in kinds)
        header = ("system", "conversations", "user turns", *kinds, "user failed")
        row = (bot.name, len(done), user_turns, *(ends[kind] for kind in kinds), others)
        output.print_table("Conversations", header, [row])
        if figures:
            shown = [
                (figure.figure, figure.simulated, figure.human, figure.difference.value, figure.p_holm)
                for figure in figures
            ]
            output.print_table(
                "Likeness", ("figure", "simulated", "human", "difference", "p"), shown, further=True
            )
    output.say(f"{bot.name}: {bot.signature}")
    output.say(f"written: {out}")


def chat(
    asking: Asking,
    server: PageServer,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder of the conversations.")],
    people: Annotated[str, typer.Option(help="Comma-separated names of the participants.")] = "me",
    scheme: Annotated[
        str | None,
        typer.Option(help="Questions at the end: a scheme about dialogues, by name or a .toml file."),
    ] = None,
    reply_scheme: Annotated[
        str | None, typer.Option(help="Questions about every reply: a scheme about turns.")
    ] = None,
    port: Port = 8751,
    json: Json = False,
) -> None:
    """Let people talk to a system in a browser and rate it.

    Repeat the command with the same folder to resume.

    Example: dialeval chat --system http://localhost:8000/v1 -o talks/
    """
    names, is_secure = server.names()
    from dialeval.annotation.chat import make_chat
    from dialeval.annotation.chat_folder import DIALOGUES, RATINGS, ChatFolder
    from dialeval.systems import Conversation

    bot = asking.build()
    Conversation(bot)  # refuses one that nobody can talk to, before a folder is made
    chats = ChatFolder(out, split_names(people), scheme, reply_scheme)

    def announce(address: str) -> None:
        links = {name: f"{address}/in/{token}" for name, (_, token) in chats.people().items()}
        print_links([{"name": name, "link": link} for name, link in links.items()], json)
        output.say(f"{bot.name}: {bot.signature}")
        output.say(
            "Send each person only their own link: it is the key. Ctrl-C stops; repeat the command to resume."
        )

    with contextlib.closing(chats):
        app = make_chat(chats, bot, names, is_secure=is_secure, say=output.say)
        server.serve(app, port, names, announce)
    output.say(
        f"{output.counted(len(chats.rated()), 'conversation')} rated: {out / DIALOGUES}, {out / RATINGS}"
    )
