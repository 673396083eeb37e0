"""One pass over the dialogues of a study: dialogues to read, with turn scores, and triage of bad turns.

The dialogues may be a stream of any length: it is read once, and only what is shown is stored.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest

import pyarrow as pa
import pyarrow.compute as pc

from dialeval.dialogues import Dialogue
from dialeval.scores import Scores
from dialeval.studies.excerpts import Excerpt, ShownTurn
from dialeval.studies.findings import NotableUnit, Study
from dialeval.studies.triage import FaultFinder, Triage, TriageReader
from dialeval.studies.turn_scores import TurnScale, TurnValues, colouring_scale, turn_values
from dialeval.studies.units import with_systems

MOST_DIALOGUES = 15  # of those that the study names; the lowest of each system come on top
MOST_TURNS = 80
MOST_CHARACTERS = 4_000


@dataclass(slots=True)
class ChosenDialogue:
    """A dialogue to show, why, the turns in question, and its rating and scores."""

    dialogue_id: str
    system: str | None
    reasons: list[str] = field(default_factory=list)
    turns: set[int] = field(default_factory=set)
    values: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Inspection:
    """The result of a pass over the dialogues of a study.

    Attributes:
        scale: The score that colours turns.
        dialogues: The dialogues to read.
        triage: The worst turns and recurring failures; None if no automatic score of turns has a direction.
    """

    scale: TurnScale | None = None
    dialogues: tuple[Excerpt, ...] = ()
    triage: Triage | None = None


def inspect(
    study: Study, scores: Scores, dialogues: Iterable[Dialogue], find_faults: FaultFinder | None = None
) -> Inspection:
    """Read the dialogues of a study once.

    Args:
        study: The study, which names the units to look at.
        scores: Its table, for the scores of single turns.
        find_faults: Finds the faults of replies if the scores have none.

    Raises:
        DataError: If a score does not name one of several systems.
    """
    scores = with_systems(scores)
    reader = TriageReader(scores, find_faults=find_faults)
    scale = colouring_scale(study, scores)
    excerpts = _collect(choose(study), reader.read(dialogues), scores, scale)
    return Inspection(scale, excerpts, reader.findings())


def choose(study: Study) -> list[ChosenDialogue]:
    """Return the dialogues to show: of the units that the study names, then the lowest of each system."""
    chosen: dict[tuple[str, str | None], ChosenDialogue] = {}
    for unit in _interleave(study) if study.level != "system" else ():
        key = (unit.dialogue_id, unit.system)
        if key not in chosen and len(chosen) == MOST_DIALOGUES:
            continue
        choice = chosen.setdefault(key, _choice(study, unit))
        choice.reasons.append(unit.why if unit.turn is None else f"{unit.why}, turn {unit.turn}")
        if unit.turn is not None:
            choice.turns.add(unit.turn)
    for unit in study.lowest:
        key = (unit.dialogue_id, unit.system)
        if key not in chosen:
            chosen[key] = _choice(study, unit)
            chosen[key].reasons.append(unit.why)
            chosen[key].turns |= set() if unit.turn is None else {unit.turn}
    return list(chosen.values())


def _choice(study: Study, unit: NotableUnit) -> ChosenDialogue:
    named = {study.gold_name: unit.gold, **unit.values}
    values = {label: value for label, value in named.items() if value is not None}
    return ChosenDialogue(unit.dialogue_id, unit.system, values=values)


def _interleave(study: Study) -> Iterator[NotableUnit]:
    """Alternate between the lowest rated and the wrongly scored, so that both kinds are among the first."""
    lowest = [unit for unit in study.worst if unit.why == "lowest rated"]
    wrong = [unit for unit in study.worst if unit.why != "lowest rated"]
    return (unit for pair in zip_longest(lowest, wrong) for unit in pair if unit is not None)


def _collect(
    choices: list[ChosenDialogue], dialogues: Iterable[Dialogue], scores: Scores, scale: TurnScale | None
) -> tuple[Excerpt, ...]:
    """Read the stream once and return excerpts of the chosen dialogues, in the chosen order."""
    indices: dict[str, list[int]] = defaultdict(list)
    for index, choice in enumerate(choices):
        indices[choice.dialogue_id].append(index)
    dialogue_at: dict[int, Dialogue] = {}
    for dialogue in dialogues:
        for index in indices.get(dialogue.id, ()):
            if choices[index].system in (None, dialogue.system) or dialogue.system is None:
                dialogue_at.setdefault(index, dialogue)
    names = pa.array(sorted(indices), pa.string())
    part = Scores(scores.table.filter(pc.is_in(scores.table["dialogue_id"], names)), scores.signatures)
    values = turn_values(part, scale)
    return tuple(_excerpt(choices[index], dialogue_at[index], values) for index in sorted(dialogue_at))


def _excerpt(choice: ChosenDialogue, dialogue: Dialogue, values: TurnValues) -> Excerpt:
    candidates = [values.get((dialogue.id, system)) for system in (choice.system, dialogue.system, None)]
    scores = next((candidate for candidate in candidates if candidate), {})
    first = _first_shown(choice, len(dialogue.turns))
    turns = tuple(
        ShownTurn.of(
            dialogue, number, MOST_CHARACTERS, "reply" if number in choice.turns else "", scores.get(number)
        )
        for number in range(first, min(first + MOST_TURNS, len(dialogue.turns)))
    )
    left_out = len(dialogue.turns) - len(turns)
    return Excerpt(
        choice.dialogue_id, choice.system, turns, left_out, tuple(choice.reasons), values=choice.values
    )


def _first_shown(choice: ChosenDialogue, turns: int) -> int:
    """Return 0, or a later turn if the one in question would not be shown otherwise."""
    if turns <= MOST_TURNS or not choice.turns or min(choice.turns) < MOST_TURNS:
        return 0
    return min(min(choice.turns) - MOST_TURNS // 2, turns - MOST_TURNS)
