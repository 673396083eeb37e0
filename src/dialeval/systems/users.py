"""Simulated users, who talk to a system until their goal is reached or they lose patience.

A scenario defines a user's goal, facts and mood; `users.toml` has templates. Rules choose the next move: give
one requested fact, confirm, rephrase, ask a question, thank or leave. Its text comes from templates, from a
log (the user turn after the most similar reply), or from a model behind an address. The same seed gives the
same user.
"""

import functools
import hashlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files as resources
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from dialeval import files
from dialeval.dialogues import Turn
from dialeval.dialogues.contexts import Context
from dialeval.dialogues.tasks.goals import AgentGoal
from dialeval.errors import DataError, UsageError
from dialeval.systems.system import System, build

Move = Literal["opening", "fact", "unknown", "yes", "again", "repeat", "next", "question", "thanks", "leaves"]
LAST = ("thanks", "leaves")
"""Moves that end the conversation."""
_ASKS = re.compile(
    r"\?|\b(?:please|could you|can you|may i|need|provide|tell me|give me|share|what is|what's)\b",
    re.IGNORECASE,
)
_CONFIRMS = re.compile(
    r"\b(?:shall i|should i|do you want|would you like|is (?:that|this) (?:right|correct|okay|ok)|confirm|"
    r"proceed|go ahead|are you sure)\b",
    re.IGNORECASE,
)


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One user.

    Attributes:
        goal: What the user wants, as a phrase that fits after "I would like to".
        done: Texts of which one in a reply means that the goal is reached.
        facts: The facts that the user can give, by name.
        ask: Other phrases by which a reply asks for a fact.
        unknown: Names of facts that the user does not know.
        mood: The mood, which selects the templates.
        opening: The first turn, instead of a template.
        reworded: Paraphrases of the goal, for replies that miss it.
        then: Further requests, made one by one when the previous one is done.
        questions: Questions at the end, one by one, whatever the answer.
        patience: How many replies without progress the user tolerates.
        expect: Expected calls, words or state, for the metric `goal`.
    """

    goal: str
    done: tuple[str, ...] = ()
    facts: dict[str, str] = {}
    ask: dict[str, tuple[str, ...]] = {}
    unknown: tuple[str, ...] = ()
    mood: str = "neutral"
    opening: str | None = None
    reworded: tuple[str, ...] = ()
    then: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    patience: Annotated[int, msgspec.Meta(ge=1, le=100)] = 2
    expect: AgentGoal | None = None


class ScenarioFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Scenarios by name, templates of custom moods, and the maximum number of user turns."""

    scenario: dict[str, Scenario]
    mood: dict[str, dict[str, tuple[str, ...]]] = {}
    turns: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 12


def read_scenarios(path: str | Path) -> ScenarioFile:
    """Read a file of scenarios.

    Raises:
        DataError: With file and field, if it is not valid.
    """
    with files.open_binary(path) as file:
        data = file.read()
    try:
        parsed = msgspec.toml.decode(data, type=ScenarioFile)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise DataError(f"not a file of scenarios: {error}", file=path, fix="see docs/simulate.md") from None
    moods = {**_moods(), **parsed.mood}
    for name, scenario in parsed.scenario.items():
        if scenario.mood not in moods:
            fix = f"known: {', '.join(moods)}"
            raise DataError(f"no mood {scenario.mood!r}", file=path, field=f"scenario.{name}.mood", fix=fix)
    if not parsed.scenario:
        raise DataError("no scenario in it", file=path, fix="see docs/simulate.md")
    return parsed


@functools.cache
def _moods() -> Mapping[str, Mapping[str, Sequence[str]]]:
    return tomllib.loads((resources("dialeval.systems") / "users.toml").read_text(encoding="utf-8"))


@dataclass
class SimulatedUser:
    """A user in a conversation.

    >>> lamp = Scenario("cancel an order", done=("cancelled",), facts={"order number": "A17"})
    >>> user = SimulatedUser("lamp", lamp)
    >>> said = (user.say(()), user.say((Turn("assistant", "What is your order number?"),)),
    ...     user.say((Turn("assistant", "It has been cancelled."),)))
    >>> [text for text, _ in said]
    ['I want to cancel an order, please.', 'My order number is A17.', 'Perfect, thank you for your help.']
    """

    name: str
    scenario: Scenario
    moods: Mapping[str, Mapping[str, Sequence[str]]] | None = None
    seed: int = 0
    speaks: System | None = None
    told: int = 0
    lost: int = 0
    requests: int = 0
    missed: int = 0
    put: int | None = None
    given: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)

    def say(self, turns: tuple[Turn, ...]) -> tuple[str, Move]:
        """Return the text of the user's next turn, and its move."""
        reply = turns[-1].text if turns else ""
        move, slots = self._move(reply, first=not turns)
        self.told += 1
        text = self._words(move, slots)
        if self.speaks is not None and turns and move not in ("fact", "next", "question", *LAST):
            text = self.speaks.reply(Context(turns, "user")).strip() or text
        return text, move

    @property
    def wish(self) -> str:
        """The current request, rephrased after each reply that missed it."""
        if self.requests:
            return self.scenario.then[self.requests - 1]
        ways = (self.scenario.goal, *self.scenario.reworded)
        return ways[self.missed % len(ways)]

    def _move(self, reply: str, first: bool) -> tuple[Move, list[tuple[str, str]]]:
        if first:
            return "opening", []
        plain = reply.casefold()
        is_done = any(text.casefold() in plain for text in self.scenario.done)
        if is_done and self.requests < len(self.scenario.then):
            self.requests, self.lost = self.requests + 1, 0
            return "next", []
        if is_done or self.put is not None:
            return self._close(), []
        is_question = bool(_ASKS.search(reply))
        asked = [(name, value) for name, value in self.scenario.facts.items() if self._asks(plain, name)]
        if is_question and asked:
            new = [fact for fact in asked if fact[0] not in self.given][:1]
            self.given |= {name for name, _ in new}
            return ("fact", new or asked) if new or self._bears() else ("leaves", [])
        missing = [(name, "") for name in self.scenario.unknown if self._asks(plain, name)]
        if is_question and missing:
            return ("unknown", missing) if self._bears() else ("leaves", [])
        if _CONFIRMS.search(reply):
            return "yes", []
        if not self._bears():
            return "leaves", []
        self.missed += 1
        return "repeat" if self.requests else "again", []

    def _close(self) -> Move:
        """Return the move for the next question, or thanks."""
        self.put = 0 if self.put is None else self.put + 1
        return "question" if self.put < len(self.scenario.questions) else "thanks"

    def _bears(self) -> bool:
        """Count a reply without progress; return whether the user still has patience."""
        self.lost += 1
        return self.lost <= self.scenario.patience

    def _asks(self, text: str, name: str) -> bool:
        cues = (name, *self.scenario.ask.get(name, ()))
        return any(re.search(rf"\b{re.escape(word.casefold())}", text) for word in cues)

    def _words(self, move: Move, slots: list[tuple[str, str]]) -> str:
        if move == "opening" and self.scenario.opening:
            return self.scenario.opening
        if move == "question":
            return self.scenario.questions[self.put or 0]
        moods = {**_moods(), **(self.moods or {})}
        templates = moods[self.scenario.mood].get(move) or _moods()["neutral"][move]
        texts = [self._chosen(templates, place) for place in range(max(1, len(slots)))]
        filled = zip(texts, slots or [("", "")], strict=True)
        return " ".join(_filled(text, self.wish, name, value) for text, (name, value) in filled)

    def _chosen(self, texts: Sequence[str], place: int) -> str:
        """Return a template by the seed, among those not used yet."""
        fresh = [text for text in texts if text not in self.used] or texts
        key = f"{self.seed}|{self.name}|{self.told}|{place}".encode("utf-8", "surrogatepass")
        chosen = fresh[int.from_bytes(hashlib.sha256(key).digest()[:6]) % len(fresh)]
        self.used.add(chosen)
        return chosen


def _filled(text: str, goal: str, name: str, value: str) -> str:
    for key, filler in (("{goal}", goal), ("{name}", name), ("{value}", value)):
        text = text.replace(key, filler)
    return text


@functools.lru_cache(maxsize=2)
def _retrieval(spec: str) -> System:
    return build(f"{spec},speaker=user", name="user")


def speaker_of(spec: str, scenario: Scenario, **asked: Any) -> System | None:
    """Return the system that writes a user's turns; None for templates.

    Args:
        spec: `template`; `retrieval:corpus=FILE`, user turns of a log; or the address of a model.
        scenario: The scenario, which is part of a model's instructions.
        **asked: `model`, `temperature` and so on, for an address.
    """
    if spec == "template":
        return None
    if spec.startswith("retrieval:"):
        return _retrieval(spec)
    if spec.startswith(("http://", "https://")):
        facts = "; ".join(f"{name}: {value}" for name, value in scenario.facts.items()) or "nothing more"
        instructions = (
            f"You play a user who talks to an assistant. You want to {scenario.goal}. You know: {facts}. "
            f"You do not know: {', '.join(scenario.unknown) or 'anything else'}. You are {scenario.mood}. "
            "Answer with the user's next message only, in one or two sentences."
        )
        return build(spec, name="user", instructions=instructions, **asked)
    raise UsageError(f"--user {spec}: expected template, retrieval:corpus=FILE or an http address")
