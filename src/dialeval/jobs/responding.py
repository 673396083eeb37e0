"""Static context: a system answers every system turn of dialogues, each after its original context.

Replies are stored in a journal beside the output (`replies.jsonl.part`), so that the same command resumes.
The output, in the order of the input, is written at the end. A failure of the system is an empty reply with a
note, which is repeated on request. Wizards are asked only about contexts they voted on.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dialeval import files
from dialeval.dialogues import Dialogue, formats
from dialeval.dialogues.contexts import Context, answered, contexts, failure_of
from dialeval.dialogues.formats.shapes import parse_record
from dialeval.dialogues.formats.writing import to_json
from dialeval.errors import DataError
from dialeval.systems import System
from dialeval.systems.system import reason

Watch = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class ReplySummary:
    """Counts of a run: contexts asked, contexts without votes left out, replies, failures and why."""

    system: str
    signature: str
    contexts: int
    left_out: int
    answered: int
    failed: int
    earlier: int
    seconds: float
    failures: dict[str, int]


def respond_to(
    dialogues: Iterable[Dialogue],
    system: System,
    out: str | Path,
    *,
    speaker: str | None = None,
    retry: bool = False,
    overwrite: bool = False,
    give_up: int = 20,
    watch: Watch | None = None,
) -> ReplySummary:
    """Let a system answer contexts, and write one dialogue for each reply.

    Args:
        out: A `.jsonl` file.
        speaker: The speaker that the system plays; by default that of the scored turns.
        retry: Whether to repeat failed replies.
        overwrite: Whether to delete an existing output and journal.
        give_up: Stop after this many failures in a row; replies so far are kept.

    Raises:
        DataError: If the output holds something else, or the system failed too often in a row.
    """
    target, journal = Path(out), Path(f"{out}.part")
    files.check_endings([target], [".jsonl"])
    all_contexts = list(contexts(dialogues, speaker))
    knows = getattr(system, "knows", lambda _: True)  # wizards' votes exist for some contexts only
    asked = [context for context in all_contexts if knows(context)]
    if overwrite:
        for path in (target, journal):
            path.unlink(missing_ok=True)
    begun = time.monotonic()
    done = _earlier(asked, system, target, journal)
    replies = {name: reply for name, reply in done.items() if not (retry and failure_of(reply))}
    todo = [context for context in asked if context.name not in replies]
    if watch:
        watch(len(replies))
    if todo or journal.is_file() or not target.is_file():
        with files.appending(journal) as file:
            fresh = {reply.id: reply for reply in _ask(todo, system, file, give_up, watch)}
        formats.write((({**replies, **fresh})[context.name] for context in asked), target)
        journal.unlink(missing_ok=True)
        replies |= fresh
    failures: dict[str, int] = {}
    for reply in replies.values():
        if failure := failure_of(reply):
            failures[failure] = failures.get(failure, 0) + 1
    failed = sum(failures.values())
    return ReplySummary(
        system=system.name,
        signature=str(system.signature),
        contexts=len(asked),
        left_out=len(all_contexts) - len(asked),
        answered=len(asked) - failed,
        failed=failed,
        earlier=len(asked) - len(todo),
        seconds=round(time.monotonic() - begun, 3),
        failures=dict(sorted(failures.items(), key=lambda item: -item[1])),
    )


def _earlier(asked: Sequence[Context], system: System, target: Path, journal: Path) -> dict[str, Dialogue]:
    """Return the replies of an interrupted run, the journal last; raises if they are of another run."""
    by_name, replies = {context.name: context for context in asked}, {}
    for path in (target, journal):
        for reply in _lines(path) if path.is_file() else ():
            context = by_name.get(reply.id)
            same = context is not None and reply.turns[:-1] == context.turns and reply.system == system.name
            if not same or reply.meta.get("by") != str(system.signature):
                raise DataError(
                    f"holds replies of another run ({reply.id}, {reply.system})",
                    file=path,
                    fix="choose another name, or --overwrite",
                )
            replies[reply.id] = reply
    return replies


def _lines(path: Path) -> Iterator[Dialogue]:
    """Yield the replies of a file; a repeated reply occurs twice, and the last line may be incomplete."""
    with files.open_binary(path) as file:
        for number, line in enumerate(file, 1):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                if not line.endswith(b"\n"):
                    return
                raise DataError("not a reply", file=path, line=number, fix="--overwrite") from None
            yield parse_record(record, None, path, number)[0][0]


def _ask(
    todo: Sequence[Context], system: System, journal: BinaryIO, give_up: int, watch: Watch | None
) -> Iterator[Dialogue]:
    """Yield replies, several requested at a time; each is in the journal before it is yielded."""
    by, in_a_row, synced = {"by": str(system.signature)}, 0, time.monotonic()

    def ask(context: Context) -> Dialogue:
        try:
            return answered(context, system.reply(context), system.name, by)
        except Exception as error:  # any error of the system is a failed reply
            return answered(context, None, system.name, by, reason(error))

    pool = ThreadPoolExecutor(max(1, system.at_once))
    try:
        for reply in _finished(pool, ask, todo, 2 * max(1, system.at_once)):
            journal.write(to_json(reply) + b"\n")
            journal.flush()
            if time.monotonic() - synced > 1:
                os.fsync(journal.fileno())
                synced = time.monotonic()
            yield reply
            if watch:
                watch(1)
            failure = failure_of(reply)
            in_a_row = in_a_row + 1 if failure else 0
            if in_a_row >= give_up:
                raise DataError(
                    f"{system.name} failed {in_a_row} times in a row, the last time: {failure}",
                    fix="what was answered is kept: run the same command with --retry to go on",
                )
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _finished(
    pool: ThreadPoolExecutor, ask: Callable[[Context], Dialogue], todo: Sequence[Context], ahead: int
) -> Iterator[Dialogue]:
    """Yield replies in order of completion, with a bounded number of requests at a time."""
    waiting, under_way = iter(todo), set[Future[Dialogue]]()
    while True:
        while len(under_way) < ahead and (context := next(waiting, None)) is not None:
            under_way.add(pool.submit(ask, context))
        if not under_way:
            return
        ended, under_way = wait(under_way, return_when=FIRST_COMPLETED)
        for future in sorted(ended, key=lambda finished: finished.exception() is not None):
            yield future.result()
