"""`dialeval respond`: a system answers fixed contexts."""

from typing import Annotated

import typer

from dialeval.cli import output
from dialeval.cli.options import Cache, Columns, Format, Json, Threads

SystemSpec = Annotated[
    str,
    typer.Option(
        "--system",
        help="http(s) address of an OpenAI-compatible endpoint; module:function; or retrieval[:corpus=FILE], "
        "wizard-max-voted:votes=FILE, wizard-random:votes=FILE[,seed=0].",
    ),
]
Name = Annotated[
    str | None, typer.Option(help="What the system is called; by default the model or --system.")
]
Model = Annotated[str | None, typer.Option(help="Model to ask the endpoint for.")]
Instructions = Annotated[str | None, typer.Option(help="System prompt to send first.")]
Temperature = Annotated[
    float | None, typer.Option(min=0, help="Temperature; by default 0.", show_default=False)
]
MaxTokens = Annotated[
    int | None, typer.Option(min=1, help="Longest answer in tokens; by default 256.", show_default=False)
]
Timeout = Annotated[
    float | None,
    typer.Option(
        min=0.01,
        help="Seconds for one try of an endpoint, or one call of a function; by default 60.",
        show_default=False,
    ),
]
Tries = Annotated[
    int | None, typer.Option(min=1, help="Tries for one answer; by default 3.", show_default=False)
]


def respond(
    contexts: Annotated[
        str, typer.Argument(help="Dialogues between people, in any known format; - is JSONL.")
    ],
    system: SystemSpec,
    out: Annotated[str, typer.Option("-o", "--out", help="A .jsonl file of replies, one dialogue each.")],
    speaker: Annotated[
        str | None, typer.Option(help="Whose turns the system plays; by default the assistant's.")
    ] = None,
    name: Name = None,
    model: Model = None,
    instructions: Instructions = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    timeout: Timeout = None,
    tries: Tries = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=256, help="Answers under way at once; by default 4.")
    ] = None,
    give_up: Annotated[int, typer.Option(min=1, help="Stop after so many failures in a row.")] = 20,
    retry: Annotated[bool, typer.Option("--retry", help="Ask again where the system failed.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Begin anew.")] = False,
    format: Format = None,
    columns: Columns = None,
    threads: Threads = None,
    cache: Cache = None,
    json: Json = False,
) -> None:
    """Let a system answer every system turn of dialogues, the context reset each time; resumes.

    Example: dialeval respond contexts.jsonl --system http://localhost:8000/v1 -o replies.jsonl
    """
    from dialeval.dialogues import formats
    from dialeval.jobs.responding import respond_to
    from dialeval.systems import build

    made = build(
        system,
        name=name,
        instructions=instructions,
        at_once=concurrency,
        model=model,
        temperature=temperature,
        max_tokens=max_tokens,
        timeout=timeout,
        tries=tries,
    )
    read = formats.read(contexts, format, formats.TurnColumns.parse(columns) if columns else None)
    with output.progress("contexts asked") as watch:
        done = respond_to(
            read,
            made,
            out,
            speaker=speaker,
            retry=retry,
            overwrite=overwrite,
            give_up=give_up,
            watch=watch,
        )
    if json:
        output.print_json({"input": contexts, "output": out, **done.to_dict()})
    else:
        header = ("system", "contexts", "answered", "failed", "from earlier")
        row = (done.system, done.contexts, done.answered, done.failed, done.earlier)
        output.print_table("Replies", header, [row])
    for why, count in done.failures.items():
        output.say(f"{output.counted(count, 'failure')}: {why}")
    if not done.contexts:
        output.say(f"{contexts}: no turn to answer; --speaker says whose turns the system plays")
    if done.left_out:
        output.say(f"{output.counted(done.left_out, 'context')} left out: no wizard chose anything there")
    if done.failed and not retry:
        output.say("--retry asks again where it failed")
    output.say(f"{done.system}: {done.signature}")
    output.say(f"written: {out}")
