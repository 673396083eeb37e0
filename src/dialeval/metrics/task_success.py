"""Inform and Success by the goals of any declared task: the judge behind `multiwoz`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import msgspec

from dialeval.dialogues import Dialogue, Turn
from dialeval.dialogues.datasets.task_oriented import canonical_id
from dialeval.dialogues.tasks import Domain, Goal, Task
from dialeval.dialogues.tasks.task import State, TaskReader, active_domains
from dialeval.errors import DataError

States = Literal["auto", "file", "gold"]
Domains = Literal["auto", "file", "states"]
NO_GOAL = "no goal is known for this dialogue"
_SHOWN = 5  # unknown names that a note lists


class GoalOutcome(NamedTuple):
    """The outcome in one domain of a goal: informed, or `why` not, and the requested slots not given."""

    informed: bool
    missing: tuple[str, ...]
    why: str | None

    @property
    def success(self) -> bool:
        """Whether a right venue was offered and every requested slot was given."""
        return self.informed and not self.missing


class DialogueOutcome(NamedTuple):
    """A dialogue with a verdict for each domain of its goal; without any, `note` says why."""

    dialogue: Dialogue
    verdicts: Mapping[str, GoalOutcome]
    note: str | None

    @property
    def inform(self) -> bool:
        """Whether every domain was informed."""
        return all(verdict.informed for verdict in self.verdicts.values())

    @property
    def success(self) -> bool:
        """Whether every domain succeeded."""
        return all(verdict.success for verdict in self.verdicts.values())


@dataclass
class _Case:
    """The state of one dialogue: what its replies said and knew, and what was odd about them."""

    replies: list[Turn]
    states: list[State] = field(default_factory=list)
    domains: list[Sequence[str]] = field(default_factory=list)
    booked: list[list[str]] | None = None
    odd: Counter[str] = field(default_factory=Counter)
    placeholders: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)


class GoalJudge:
    """Judges dialogues by the goals of a task.

    Args:
        task: Goals, venues and rules.
        states: What the replies knew: as the `file` says, or `gold`; `auto` takes gold where a reply of the
            dialogue comes without one.
        domains: What each reply is about: as the `file` says, or by which of the `states` changed; `auto`
            takes the latter where a reply does not say.
        speaker: Whose turns are the replies; by default the assistant's.
    """

    def __init__(self, task: Task, states: States, domains: Domains, speaker: str | None) -> None:
        self.task, self.states, self.domains = task, states, domains
        self.speaker = speaker or "assistant"
        self.reader = TaskReader(task)

    def judge(self, dialogue: Dialogue) -> DialogueOutcome:
        """Return a verdict for each domain of the dialogue's goal."""
        name = canonical_id(dialogue.id)
        try:
            goal = self._goal(dialogue, name)
        except DataError as error:
            return DialogueOutcome(dialogue, {}, str(error))
        case = _Case(self.replies(dialogue))
        if not goal or not case.replies:
            reason = "its goal names no domain" if goal == {} else "no reply in it" if goal else NO_GOAL
            return DialogueOutcome(dialogue, {}, reason)
        if problem := self._prepare(case, name):
            return DialogueOutcome(dialogue, {}, problem)
        verdicts = self._verdicts(case, goal)
        return DialogueOutcome(dialogue, verdicts, "; ".join(self._notes(case)) or None)

    def replies(self, dialogue: Dialogue) -> list[Turn]:
        """Return the turns that are judged; the first of a dialogue may be one."""
        return [turn for turn in dialogue.turns if turn.speaker == self.speaker]

    def _goal(self, dialogue: Dialogue, name: str) -> Mapping[str, Goal] | None:
        """Take the goal from the task's file, else from the dialogue's own meta."""
        if name in self.task.goals:
            return self.task.goals[name]
        own = dialogue.meta.get("goal")
        if own is None:
            return None
        try:
            goal = msgspec.convert(own, dict[str, Goal])
        except msgspec.ValidationError as error:
            raise DataError(f"its goal cannot be read: {error}") from None
        self.task.check_goal(goal, None, "goal")
        return goal

    def _prepare(self, case: _Case, name: str) -> str | None:
        """Find states, domains and bookings of the replies; return why that cannot be done, if so."""
        self._fit_to_log(case, name)
        states: list[Any] = [turn.meta.get("state") for turn in case.replies]
        lacking = sum(state is None for state in states)
        if self.states == "gold" or (self.states == "auto" and lacking):
            gold = (self.task.states or {}).get(name)
            if gold is None:
                return "no state in the file, and no gold state for this dialogue"
            if self.states == "auto":
                case.notes.append(f"gold states, since turns lack one: {lacking}")
            states = list(gold)
        before: tuple[Any, State] = (None, {})
        for raw, _ in zip(states, case.replies, strict=False):
            before = (raw, self.reader.state(raw, before, case.odd))
            case.states.append(before[1])
        case.domains = self._active(case)
        if self.task.schema.rules.booked == "logged":
            case.booked = (self.task.booked or {}).get(name)
            if case.booked is None:
                case.booked = []
                case.notes.append("no record of what was booked")
        return None

    def _fit_to_log(self, case: _Case, name: str) -> None:
        """Leave out replies beyond the end of the log, since nobody knows what they answer; note fewer."""
        log = self.task.replies_in_log(name)
        if log is None or log == len(case.replies):
            return
        if len(case.replies) > log:
            case.notes.append(f"extra turns, left out: {len(case.replies) - log}")
            case.replies = case.replies[:log]
        else:
            case.notes.append(f"missing turns: {log - len(case.replies)}")

    def _active(self, case: _Case) -> list[Sequence[str]]:
        declared = [turn.meta.get("active_domains") for turn in case.replies]
        if self.domains == "states" or (self.domains == "auto" and None in declared):
            return list(active_domains(case.states))
        domains: list[Sequence[str]] = []
        for value in declared:
            listed = [value] if isinstance(value, str) else value if isinstance(value, list) else []
            case.odd["active_domains is not a list"] += not (value is None or isinstance(value, str | list))
            domains.append([str(domain).lower() for domain in listed])
        return domains

    def _verdicts(self, case: _Case, goal: Mapping[str, Goal]) -> dict[str, GoalOutcome]:
        offered = dict.fromkeys(goal, 0)
        mentioned: dict[str, set[str]] = {domain: set() for domain in goal}
        keep = self.task.schema.rules.offers == "narrowest"
        for place, (turn, state, about) in enumerate(
            zip(case.replies, case.states, case.domains, strict=False)
        ):
            placeholders = self.reader.placeholders(turn.text, case.placeholders)
            for domain in goal if placeholders else ():
                if domain not in about:
                    continue
                declared = self.task.schema.domain[domain]
                if declared.table is not None and declared.offer in placeholders:
                    venues = self.task.venues[domain].query(state[domain]) if domain in state else 0
                    if not keep or not offered[domain] or offered[domain] & ~venues:
                        offered[domain] = venues
                mentioned[domain] |= placeholders
                if declared.reference in placeholders and not self._is_booked(case, place, domain, declared):
                    mentioned[domain].discard(str(declared.reference))
        return {
            domain: GoalOutcome(*self._informed(domain, domain_goal, offered[domain], mentioned[domain]))
            for domain, domain_goal in goal.items()
        }

    def _is_booked(self, case: _Case, place: int, domain: str, declared: Domain) -> bool:
        """Return whether a booking could have been made by this reply."""
        rule = self.task.schema.rules.booked
        if rule == "slots":
            filled = case.states[place].get(domain, {})
            return all(filled.get(slot) for slot in declared.booking)
        booked = case.booked or []
        return rule == "said" or (place < len(booked) and domain in booked[place])

    def _informed(
        self, domain: str, goal: Goal, offered: int, mentioned: set[str]
    ) -> tuple[bool, tuple[str, ...], str | None]:
        declared = self.task.schema.domain[domain]
        missing = tuple(sorted(goal.asked - mentioned))
        if declared.table is None or any(slot in goal.informable for slot in declared.told):
            return True, missing, None
        if not offered:
            free = declared.optional and declared.offer not in goal.asked
            return free, missing, None if free else "no venue was offered"
        fitting = self.task.venues[domain].query(self.task.wishes(goal))
        must_fit_all = self.task.schema.rules.venues == "all"
        fits = not offered & ~fitting if must_fit_all else bool(offered & fitting)
        return fits, missing, None if fits else "what was offered does not fit the goal"

    def _notes(self, case: _Case) -> list[str]:
        """Name what a reader of the score should know of the file, kind by kind."""
        known_slots = self.task.known_slots
        domains = {domain for state in case.states for domain in state}
        slots = {
            f"{domain}.{slot}"
            for state in case.states
            for domain in state.keys() & known_slots.keys()
            for slot in state[domain].keys() - known_slots[domain]
        }
        notes = list(case.notes)
        empty = sum(not turn.text.strip() for turn in case.replies)
        parts = {
            "unknown domains": sorted(domains - known_slots.keys()),
            "unknown slots": sorted(slots),
            "unknown placeholders": sorted(case.placeholders),
            "wrong types": sorted(name for name, count in case.odd.items() if count),
            "empty replies": [str(empty)] if empty else [],
        }
        for kind, names in parts.items():
            if names:
                more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
                notes.append(f"{kind}: {', '.join(names[:_SHOWN])}{more}")
        if not any("[" in turn.text for turn in case.replies):
            notes.append("no placeholder in any reply")
        return notes
