"""How `dialeval inspect` shows what was understood of a log."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dialeval.cli import output

if TYPE_CHECKING:
    from dialeval.dialogues import Dialogue
    from dialeval.dialogues.formats.overview import Overview

_MOST = 6  # names in a row
_LONGEST = 160  # characters of a turn


def show_overview(found: "Overview") -> None:
    """Print the counts as a table, then the first dialogues as they will be scored."""
    files = Counter(found.formats.values())
    rated = [f"{name} (n = {count}, mean {mean:.3g})" for name, (count, mean) in found.feedback.items()]
    passages = f"{found.evidence} in {output.counted(found.with_evidence, 'dialogue')}"
    rows = [
        ("format", ", ".join(f"{name} ({output.counted(n, 'file')})" for name, n in files.items())),
        ("dialogues", f"{found.dialogues}; turns {found.turns}; replies to score {found.replies}"),
        ("roles", _counts(found.roles)),
        ("systems", _counts(found.systems)),
        ("instructions", f"in {output.counted(found.with_instructions, 'dialogue')}"),
        ("tools", f"{_counts(found.tools)}; {output.counted(found.results, 'result')}"),
        ("evidence", passages),
        ("feedback", ", ".join(rated) or "none"),
        ("finish reasons", _counts(found.finish_reasons)),
        ("languages", _counts(found.languages)),
        *(("note", f"{count}: {note}") for note, count in found.notes.most_common(_MOST)),
    ]
    output.print_table("What was understood", ["what", "found"], rows)
    for dialogue in found.shown:
        output.print_lines(["", *_lines(dialogue)])


def _counts(counts: "Counter[str]") -> str:
    named = [f"{name} {count}" for name, count in counts.most_common(_MOST)]
    more = len(counts) - len(named)
    return ", ".join([*named, *([f"{more} more"] if more > 0 else [])]) or "none"


def _lines(dialogue: "Dialogue") -> Iterator[str]:
    """Yield a dialogue line by line; > marks the replies that are scored."""
    from dialeval.dialogues import scored_turns

    scored = set(scored_turns(dialogue))
    system = f", system {dialogue.system}" if dialogue.system else ""
    yield f"dialogue {dialogue.id or '(named by its content)'}{system}; > is scored"
    if dialogue.instructions:
        yield f"     instructions: {_cut(dialogue.instructions)}"
    for number, turn in enumerate(dialogue.turns):
        mark = ">" if number in scored else " "
        if turn.text or not turn.tool_calls:
            yield f"{mark} {number:2} {turn.speaker}: {_cut(turn.text) or '(empty)'}"
        for call in turn.tool_calls:
            given = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
            yield f"  {number:2} {turn.speaker} calls {call.name}: {_cut(given)}"
        for passage in turn.evidence:
            yield f"     evidence{f' ({passage.source})' if passage.source else ''}: {_cut(passage.text)}"
        for name, value in turn.feedback.items():
            yield f"     feedback: {name} {value:g}"


def _cut(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _LONGEST else f"{flat[:_LONGEST]}…"
