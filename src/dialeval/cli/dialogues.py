"""Dialogues on the terminal: explanations beside what they were held against, and overviews of logs.

What a label or a person said is text, never markup or a terminal's command. Labels stand in brackets and
corresponding lines carry a sign, so that nothing depends on colour.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dialeval.cli import output
from dialeval.jobs.runs import Run
from dialeval.jobs.scoring import Summary
from dialeval.metrics.explanation import AlignedCell, AlignedLine, Explanation, side_by_side, to_json
from dialeval.reports.text import one_line, shorten

if TYPE_CHECKING:
    from dialeval.dialogues import Dialogue
    from dialeval.dialogues.formats.overview import Overview

_MOST_LINES = 60
_MOST_CHARACTERS = 400


def show_first(summary: Summary, out: str | None, most: int) -> None:
    """Print the first explanations, and say where the others are or could be."""
    if out is not None:
        output.say(f"explanations: {out}/explanations.jsonl; view them with: dialeval report {out}")
        return
    show(summary.explanations)
    shown = len({found.dialogue_id for found in summary.explanations})
    if not shown:
        output.say("no explanations for these dialogues")
    if summary.dialogues > most:
        output.say(
            f"explanations for {shown} of {output.counted(summary.dialogues, 'dialogue')}; -o run/ keeps all"
        )


def as_dict(summary: Summary, out: str | None) -> dict[str, Any]:
    """Return all explanations for `--json`, from memory or from the run folder just written."""
    found = summary.explanations if out is None else Run(out).explanations()
    return {"explanations": [json.loads(to_json(one)) for one in found]}


def show(explanations: Sequence[Explanation]) -> None:
    """Print explanations one after the other, on a terminal or in a pipe."""
    console = Console(highlight=False, emoji=False, markup=False)
    for found in explanations:
        console.print()
        for part in _parts(found):
            console.print(part)


def _parts(found: Explanation) -> list[Text | Table]:
    lines = side_by_side(found)
    shown: list[Text | Table] = [_heading(found)]
    if found.note:
        shown.append(Text(_plain(found.note), "italic"))
    if lines:
        shown.append(_table(found, lines[:_MOST_LINES]))
    if len(lines) > _MOST_LINES:
        shown.append(Text(f"{output.counted(len(lines) - _MOST_LINES, 'more line')}, not shown"))
    return shown


def _heading(found: Explanation) -> Text:
    """Say which dialogue, what it got, and what that is made of."""
    name = _plain(found.source) + (f" {_plain(found.dimension)}" if found.dimension else "")
    heading = Text.assemble((_plain(found.dialogue_id), "bold"), f": {name} ", (_value(found.value), "bold"))
    parts = [f"{_plain(part)} {_value(value)}" for part, value in found.parts.items()]
    return heading.append(f" ({', '.join(parts)})" if parts else "")


def _table(found: Explanation, lines: Sequence[AlignedLine]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, expand=True, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column(Text("this dialogue"), ratio=1, overflow="fold")
    if found.reference is not None:
        table.add_column(Text(""), width=1)
        table.add_column(Text(f"held against {_plain(found.reference.id)}"), ratio=1, overflow="fold")
    shown = len(table.columns)
    for line in lines:
        if line.opens:
            table.add_row(*(_speaker(line.own), "", _speaker(line.reference))[:shown])
        table.add_row(*(_cell(line.own), "=" if line.same else "", _cell(line.reference))[:shown])
    return table


def _speaker(cell: AlignedCell | None) -> Text:
    if cell is None or not cell.opens:
        return Text()
    number = "" if cell.turn.number is None else f" {cell.turn.number}"
    return Text(f"{_plain(cell.turn.speaker)}{number}", "dim")


def _cell(cell: AlignedCell | None) -> Text:
    made = Text()
    if cell is None:
        return made
    if cell.piece is None:
        return made.append("(empty turn)", "italic")
    if cell.piece.label is not None:
        made.append(f"[{_plain(cell.piece.label)}]", "cyan").append(" ")
    return made.append(_plain(cell.piece.text))


def _plain(text: str) -> str:
    """Keep a text to one line of characters that a terminal shows and does not obey."""
    return shorten(" ".join(one_line(text).split()), _MOST_CHARACTERS)


def _value(value: float | None) -> str:
    return "unscored" if value is None else f"{value:.3f}"


# --- what was understood of a log ---------------------------------------------------------------------------

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
        *(
            ("note", f"{count}: {note} (first in {found.places[note]})")
            for note, count in found.notes.most_common(_MOST)
        ),
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
