"""The dialogues worth reading: which to show, and what was said turn by turn with its score.

The dialogues may come as a stream of any length: it is read once, and only what is shown is kept.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dialeval.dialogues import Dialogue
from dialeval.reports.correlation_tables import gold_name
from dialeval.reports.observations import Floats, Observations, observe
from dialeval.reports.strips import Found, Palette, TurnScore, turn_scores
from dialeval.reports.table import figure
from dialeval.scores import Scores
from dialeval.scores.signature import better
from dialeval.studies import Study
from dialeval.studies.units import Key

MOST_CASES = 15
MOST_SYSTEMS = 6
MOST_TURNS = 80
MOST_CHARACTERS = 4_000


@dataclass(slots=True)
class Pick:
    """A dialogue to show, why, and which turns of it are meant."""

    dialogue_id: str
    system: str | None
    reasons: list[str] = field(default_factory=list)
    turns: set[int] = field(default_factory=set)
    values: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Said:
    """A turn as the page shows it."""

    number: int
    speaker: str
    side: str
    text: str
    left_out: int
    score: TurnScore | None
    meant: bool


@dataclass(frozen=True, slots=True)
class Case:
    """A dialogue as the page shows it: why it is here, its strip, its turns."""

    pick: Pick
    turns: list[Said]
    strip: list[Said]
    left_out: int


def choose(study: Study, observations: Observations, scores: Scores) -> list[Pick]:
    """Choose what to show: the study's worst cases, then the lowest dialogues of each system."""
    picks: dict[tuple[str, str | None], Pick] = {}
    if study.settings.get("level") != "system":
        for row in _by_turns(study):
            key = (row["dialogue_id"], row["system"])
            if key not in picks and len(picks) == MOST_CASES:
                continue
            pick = picks.setdefault(key, Pick(*key))
            place = "" if row["turn"] is None else f", turn {row['turn']}"
            pick.reasons.append(f"{row['why']}{place}")
            if row["turn"] is not None:
                pick.turns.add(row["turn"])
            if not pick.values:
                named = {gold_name(study): row["gold"], **row["values"]}
                pick.values = {label: figure(value) for label, value in named.items() if value is not None}
    for unit, reason, values in _lowest(study, observations, scores):
        if unit[:2] not in picks:
            turns = set() if unit.turn is None else {unit.turn}
            picks[unit[:2]] = Pick(*unit[:2], [reason], turns, values)
    return list(picks.values())


def _by_turns(study: Study) -> Iterator[dict[str, Any]]:
    """Take the lowest rated and the wrongly scored in turn, so that both kinds are among the first."""
    lowest = [row for row in study.worst if row["why"] == "lowest rated"]
    wrong = [row for row in study.worst if row["why"] != "lowest rated"]
    for place in range(max(len(lowest), len(wrong))):
        yield from (rows[place] for rows in (lowest, wrong) if place < len(rows))


def _lowest(
    study: Study, observations: Observations, scores: Scores
) -> Iterator[tuple[Key, str, dict[str, str]]]:
    """Find the units of each system that the gold, or else the first source, puts lowest."""
    if study.settings.get("level") == "system":
        of_dialogues = replace(study, settings={**study.settings, "level": "dialogue"})
        observations = observe(of_dialogues, scores)
    label, values, sign = _yardstick(study, observations)
    if values is None:
        return
    keys = observations.units.keys
    each = 1 if study.worst and study.settings.get("level") != "system" else 2
    for system in list(dict.fromkeys(key.system for key in keys))[:MOST_SYSTEMS]:
        mask = np.array([key.system == system for key in keys]) & ~np.isnan(values)
        places = np.flatnonzero(mask)
        for place in places[np.argsort(sign * values[places], kind="stable")][:each]:
            rank = "among the worst" if each > 1 else "the worst"
            of = "" if system is None else " of its system"
            yield keys[place], f"{rank}{of} by {label}", {label: figure(float(values[place]))}


def _yardstick(study: Study, observations: Observations) -> tuple[str, Floats | None, int]:
    """Return the values to find bad units by, and -1 if low ones are good."""
    if observations.gold is not None:
        return gold_name(study), observations.gold, 1
    for label, values in observations.columns.items():
        # By the array itself: a label may leave the dimension out.
        column = next(one for one, own in observations.units.columns.items() if own is values)
        way = better(study.signatures, *column)
        if way != "neither":
            return label, values, -1 if way == "lower" else 1
    return "", None, 1


def collect(
    picks: list[Pick], dialogues: Iterable[Dialogue], scores: Scores, colours: Palette | None
) -> list[Case]:
    """Read the stream once and keep the picked dialogues, with their turn scores, in the picked order."""
    wanted: dict[str, list[int]] = defaultdict(list)
    for place, pick in enumerate(picks):
        wanted[pick.dialogue_id].append(place)
    found: dict[int, Dialogue] = {}
    for dialogue in dialogues:
        for place in wanted.get(dialogue.id, ()):
            if picks[place].system in (None, dialogue.system) or dialogue.system is None:
                found.setdefault(place, dialogue)
    names = pa.array(sorted(wanted), pa.string())
    part = Scores(scores.table.filter(pc.is_in(scores.table["dialogue_id"], names)), scores.signatures)
    values = turn_scores(part, colours)
    return [_case(picks[place], found[place], values, colours) for place in sorted(found)]


def _case(pick: Pick, dialogue: Dialogue, values: Found, colours: Palette | None) -> Case:
    known = [values.get((dialogue.id, system)) for system in (pick.system, dialogue.system, None)]
    own = next((found for found in known if found), {})
    first = _first_shown(pick, len(dialogue.turns))
    sides = _sides(dialogue)
    said = [
        Said(
            number,
            turn.speaker,
            sides.get(turn.speaker, "right"),
            turn.text[:MOST_CHARACTERS],
            max(0, len(turn.text) - MOST_CHARACTERS),
            own.get(number),
            number in pick.turns,
        )
        for number, turn in enumerate(dialogue.turns[first : first + MOST_TURNS], first)
    ]
    strip = said if colours is not None and any(turn.score for turn in said) else []
    return Case(pick, said, strip, len(dialogue.turns) - len(said))


def _first_shown(pick: Pick, turns: int) -> int:
    """Start at the beginning, unless the turn in question would not be shown."""
    if turns <= MOST_TURNS or not pick.turns or min(pick.turns) < MOST_TURNS:
        return 0
    return min(min(pick.turns) - MOST_TURNS // 2, turns - MOST_TURNS)


def _sides(dialogue: Dialogue) -> dict[str, str]:
    """Put the user left and the assistant right; of two people, the first left."""
    speakers = list(dict.fromkeys(turn.speaker for turn in dialogue.turns))
    sides = {speaker: "middle" for speaker in speakers if speaker in ("system", "tool")}
    people = [speaker for speaker in speakers if speaker not in sides]
    left = "user" if "user" in people else next((s for s in people if s != "assistant"), None)
    return {**sides, **{speaker: "left" if speaker == left else "right" for speaker in people}}
