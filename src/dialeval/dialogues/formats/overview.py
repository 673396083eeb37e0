"""What was understood of a log before it is scored: formats, roles, tools, evidence, feedback, losses."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import msgspec

from dialeval.dialogues.dialogue import Dialogue, instructions_of, is_step, scored_turns, takes_part
from dialeval.dialogues.formats.opening import public_part, read_public, source_files
from dialeval.dialogues.formats.reading import numbered, readable
from dialeval.dialogues.formats.tables import TurnColumns
from dialeval.dialogues.languages import dialogue_language

SHOWN = 3
_LANGUAGES = 2000  # dialogues whose language is looked for


@dataclass
class Overview:
    """Counts over all dialogues of a source, and the first of them as they will be scored.

    Attributes:
        formats: The format of each file.
        roles: Turns by speaker; a message that only calls a tool counts as `step`.
        tools: Calls by the tool's name.
        feedback: What users said, by name: how often, and the mean.
        notes: What is noted on dialogues and turns, and how often.
        places: Where each of these stands first.
        told: What was guessed and what was lost, file by file.
        shown: The first dialogues.
    """

    formats: dict[str, str] = field(default_factory=dict)
    dialogues: int = 0
    turns: int = 0
    replies: int = 0
    roles: Counter[str] = field(default_factory=Counter)
    systems: Counter[str] = field(default_factory=Counter)
    tools: Counter[str] = field(default_factory=Counter)
    results: int = 0
    evidence: int = 0
    with_evidence: int = 0
    with_instructions: int = 0
    feedback: dict[str, tuple[int, float]] = field(default_factory=dict)
    finish_reasons: Counter[str] = field(default_factory=Counter)
    languages: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    places: dict[str, str] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    shown: list[Dialogue] = field(default_factory=list)

    def add(self, made: Dialogue) -> None:
        """Take in one more dialogue."""
        self.dialogues += 1
        self.turns += len(made.turns)
        self.replies += len(scored_turns(made))
        self.systems[made.system or "not named"] += 1
        self.with_instructions += instructions_of(made) is not None
        passages = len(made.evidence)
        for number, turn in enumerate(made.turns):
            self.roles["step" if is_step(turn) else turn.speaker] += 1
            self.tools.update(call.name for call in turn.tool_calls)
            self.results += turn.speaker == "tool"
            passages += len(turn.evidence)
            self.finish_reasons.update([turn.finish_reason] if turn.finish_reason else ())
            self._rate(turn.feedback)
            if "note" in turn.meta:
                self.note(f"turn: {turn.meta['note']}", made, f", turn {number}")
        self._rate(made.feedback)
        self.evidence += passages
        self.with_evidence += passages > 0
        if "note" in made.meta:
            self.note(f"dialogue: {made.meta['note']}", made)
        people = {turn.speaker for turn in made.turns if takes_part(turn)}
        if people and people.isdisjoint(("user", "assistant")) and "scored" not in made.meta:
            self.note("dialogue: no name says who the bot is: every turn but the first is scored", made)
        if not made.turns:
            self.note("dialogue: no message in it", made)
        if self.dialogues <= _LANGUAGES:
            self.languages[dialogue_language(made) or "not known"] += 1
        if len(self.shown) < SHOWN:
            self.shown.append(made)

    def note(self, note: str, made: Dialogue, where: str = "") -> None:
        """Count what is noted on a dialogue, or at a place in it."""
        self.notes[note] += 1
        self.places.setdefault(note, f"dialogue {made.id or f'number {self.dialogues}'}{where}")

    def _rate(self, given: dict[str, float]) -> None:
        for name, value in given.items():
            count, mean = self.feedback.get(name, (0, 0.0))
            self.feedback[name] = count + 1, mean + (value - mean) / (count + 1)

    def to_dict(self) -> dict[str, Any]:
        """Return it for `--json`."""
        shown = [msgspec.to_builtins(one, str_keys=True) for one in self.shown]
        return {**{item.name: getattr(self, item.name) for item in fields(self)}, "shown": shown}


def overview(
    sources: Sequence[str], format: str | None = None, columns: str | TurnColumns | None = None
) -> Overview:
    """Read all of some sources and count what is in them; a record that cannot be read is counted as lost.

    Args:
        sources: Files, folders, patterns, run folders, public sets, `-`.
        format: One of `known_formats()`, instead of looking.
        columns: Which columns of a table of turns hold what.

    Raises:
        DataError: If nothing of a file can be read.
    """
    found = Overview()
    seen: set[str] = set()
    given = TurnColumns.parse(columns) if isinstance(columns, str) else columns
    for source in sources:
        for name, dialogues in _opened(source, format, given, found):
            with readable(name):
                for made in dialogues:
                    found.add(made)
                    if made.id and made.id in seen:
                        found.note("dialogue: its id was used before, which scoring refuses", made)
                    seen.add(made.id)
    return found


def _opened(
    source: str, format: str | None, columns: TurnColumns | None, found: Overview
) -> Iterator[tuple[str, Iterator[Dialogue]]]:
    if chosen := public_part(source, found.told.append):
        found.formats[source] = "public set"
        yield source, read_public(chosen[0], chosen[1] or "all")
        return
    for path in ["-"] if source == "-" else source_files(source):
        taken: list[str] = []
        read = numbered(path, format, columns, found.told.append, lenient=True, took=taken.append)
        yield path, (made for _, made in read)
        found.formats[path] = format or (taken[0] if taken else "empty")
