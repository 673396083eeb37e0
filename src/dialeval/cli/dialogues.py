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
    shown = len({explanation.dialogue_id for explanation in summary.explanations})
    if not shown:
        output.say("no explanations for these dialogues")
    if summary.dialogues > most:
        output.say(
            f"explanations for {shown} of {output.counted(summary.dialogues, 'dialogue')}; -o run/ keeps all"
        )


def as_dict(summary: Summary, out: str | None) -> dict[str, Any]:
    """Return all explanations for `--json`, from memory or from the run folder just written."""
    explanations = summary.explanations if out is None else Run(out).explanations()
    return {"explanations": [json.loads(to_json(explanation)) for explanation in explanations]}


def show(explanations: Sequence[Explanation]) -> None:
    """Print explanations one after the other, on a terminal or in a pipe."""
    console = Console(highlight=False, emoji=False, markup=False)
    for explanation in explanations:
        console.print()
        for part in _parts(explanation):
            console.print(part)


def _parts(explanation: Explanation) -> list[Text | Table]:
    lines = side_by_side(explanation)
    shown: list[Text | Table] = [_heading(explanation)]
    if explanation.note:
        shown.append(Text(_plain(explanation.note), "italic"))
    if lines:
        shown.append(_table(explanation, lines[:_MOST_LINES]))
    if len(lines) > _MOST_LINES:
        shown.append(Text(f"{output.counted(len(lines) - _MOST_LINES, 'more line')}, not shown"))
    return shown


def _heading(explanation: Explanation) -> Text:
    """Return the heading: the dialogue, its value and the parts of the value."""
    name = _plain(explanation.source) + (f" {_plain(explanation.dimension)}" if explanation.dimension else "")
    heading = Text.assemble(
        (_plain(explanation.dialogue_id), "bold"), f": {name} ", (_value(explanation.value), "bold")
    )
    parts = [f"{_plain(part)} {_value(value)}" for part, value in explanation.parts.items()]
    return heading.append(f" ({', '.join(parts)})" if parts else "")


def _table(explanation: Explanation, lines: Sequence[AlignedLine]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, expand=True, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column(Text("this dialogue"), ratio=1, overflow="fold")
    if explanation.reference is not None:
        table.add_column(Text(""), width=1)
        table.add_column(Text(f"held against {_plain(explanation.reference.id)}"), ratio=1, overflow="fold")
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
    text = Text()
    if cell is None:
        return text
    if cell.piece is None:
        return text.append("(empty turn)", "italic")
    if cell.piece.label is not None:
        text.append(f"[{_plain(cell.piece.label)}]", "cyan").append(" ")
    return text.append(_plain(cell.piece.text))


def _plain(text: str) -> str:
    """Keep a text to one line of characters that a terminal shows and does not obey."""
    return shorten(" ".join(one_line(text).split()), _MOST_CHARACTERS)


def _value(value: float | None) -> str:
    return "unscored" if value is None else f"{value:.3f}"


# --- what was understood of a log ---------------------------------------------------------------------------

_MOST = 6  # names in a row
_LONGEST = 160  # characters of a turn


def show_overview(overview: "Overview") -> None:
    """Print the counts as a table, then the first dialogues as they will be scored."""
    files = Counter(overview.formats.values())
    rated = [f"{name} (n = {count}, mean {mean:.3g})" for name, (count, mean) in overview.feedback.items()]
    passages = f"{overview.evidence} in {output.counted(overview.with_evidence, 'dialogue')}"
    rows = [
        ("format", ", ".join(f"{name} ({output.counted(n, 'file')})" for name, n in files.items())),
        ("dialogues", f"{overview.dialogues}; turns {overview.turns}; replies to score {overview.replies}"),
        ("roles", _counts(overview.roles)),
        ("systems", _counts(overview.systems)),
        ("instructions", f"in {output.counted(overview.with_instructions, 'dialogue')}"),
        ("tools", f"{_counts(overview.tools)}; {output.counted(overview.results, 'result')}"),
        ("evidence", passages),
        ("feedback", ", ".join(rated) or "none"),
        ("finish reasons", _counts(overview.finish_reasons)),
        ("languages", _counts(overview.languages)),
        *(
            ("note", f"{count}: {note} (first in {overview.places[note]})")
            for note, count in overview.notes.most_common(_MOST)
        ),
    ]
    output.print_table("What was understood", ["what", "found"], rows)
    for dialogue in overview.shown:
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
            arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
            yield f"  {number:2} {turn.speaker} calls {call.name}: {_cut(arguments)}"
        for passage in turn.evidence:
            yield f"     evidence{f' ({passage.source})' if passage.source else ''}: {_cut(passage.text)}"
        for name, value in turn.feedback.items():
            yield f"     feedback: {name} {value:g}"


def _cut(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _LONGEST else f"{flat[:_LONGEST]}…"
