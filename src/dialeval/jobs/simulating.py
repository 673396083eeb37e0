"""Conversations of simulated users with a system, and how closely those users resemble people."""

import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from dialeval.dialogues import Dialogue, says_something
from dialeval.dialogues.acts import ACTS
from dialeval.dialogues.contexts import FAILED
from dialeval.errors import DataError, UsageError
from dialeval.models.segment_acts import SegmentActs
from dialeval.statistics import Estimate, holm, permute_means
from dialeval.systems import Conversation, System
from dialeval.systems.users import LAST, Scenario, ScenarioFile, SimulatedUser, speaker_of

_FAILURES = 2  # failed replies in a row that end a conversation
_WORD = re.compile(r"\w+")


def simulate(
    scenarios: ScenarioFile,
    system: System,
    *,
    user: str = "template",
    seed: int = 0,
    repeats: int = 1,
    turns: int | None = None,
    watch: Callable[[int], None] | None = None,
    **asked: Any,
) -> list[Dialogue]:
    """Let every scenario's user talk to a system.

    A conversation ends when the user thanks or leaves, when the system fails twice in a row, or after so many
    turns of the user. Dialogues are named after their scenarios, so those of two systems are pairs.

    Args:
        scenarios: Who the users are.
        user: Where the users' words come from, see `users.speaker_of`.
        seed: Chooses among templates.
        repeats: Conversations for each scenario; each has its own words.
        turns: Most turns of a user, in place of the file's.
        **asked: Fields of an endpoint that speaks for users.
    """
    if repeats < 1:
        raise UsageError("repeats must be at least 1")
    Conversation(system)  # refuses one that nobody can talk to

    def converse(task: tuple[str, Scenario, int]) -> Dialogue:
        name, scenario, run = task
        words = speaker_of(user, scenario, **asked)
        person = SimulatedUser(name, scenario, scenarios.mood, seed + run, words)
        talk = _talk(person, system, turns or scenarios.turns)
        meta = {**talk.meta, "scenario": name, "mood": scenario.mood, "user": user, "seed": seed + run}
        if scenario.expect is not None:
            meta["goal"] = msgspec.to_builtins(scenario.expect)
        if watch:
            watch(1)
        return Dialogue(name if repeats == 1 else f"{name}-{run + 1}", talk.turns, talk.system, {}, meta)

    tasks = [(name, task, run) for name, task in scenarios.scenario.items() for run in range(repeats)]
    with ThreadPoolExecutor(max(1, system.at_once)) as pool:
        return list(pool.map(converse, tasks))


def _talk(user: SimulatedUser, system: System, most: int) -> Dialogue:
    talk, ending, failures = Conversation(system), "turns", 0
    for _ in range(most):
        try:
            text, move = user.say(talk.turns)
        except DataError as error:
            ending = f"user {FAILED}: {error}"
            break
        if move in LAST:
            talk.hear(text)
            ending = "done" if move == "thanks" else "gave up"
            break
        failed = str(talk.say(text).meta.get("note", "")).startswith(FAILED)
        failures = failures + 1 if failed else 0
        if failures >= _FAILURES:
            ending = "system failed"
            break
    dialogue = talk.dialogue(user.name)
    return Dialogue(dialogue.id, dialogue.turns, dialogue.system, {}, {**dialogue.meta, "end": ending})


@dataclass(frozen=True)
class Likeness:
    """A figure of users, a mean over dialogues: simulated, human, and a test of the difference."""

    figure: str
    simulated: float
    human: float
    difference: Estimate
    p_holm: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {
            "figure": self.figure,
            "simulated": self.simulated,
            "human": self.human,
            "difference": self.difference.value,
            "p": self.difference.p,
            "p_holm": self.p_holm,
        }


def likeness(simulated: Sequence[Dialogue], human: Sequence[Dialogue], seed: int = 0) -> list[Likeness]:
    """Compare simulated users with people: length, repetition, reactions and acts, dialogue by dialogue."""
    ours, theirs = user_figures(simulated), user_figures(human)
    if not ours or not theirs:
        raise DataError("no turn of a user to compare with", fix="name a log in which somebody is `user`")
    names = sorted(
        {name for figures in (*ours, *theirs) for name in figures},
        key=lambda name: (name.startswith("act "), name),
    )
    columns = {
        name: [np.array([figures.get(name, np.nan) for figures in group]) for group in (ours, theirs)]
        for name in names
    }
    tested = {name: permute_means(*pair, seed=seed) for name, pair in columns.items()}
    adjusted = holm([test.p for test in tested.values()])
    return [
        Likeness(name, float(np.nanmean(pair[0])), float(np.nanmean(pair[1])), tested[name], p)
        for (name, pair), p in zip(columns.items(), adjusted, strict=True)
        if all(np.isfinite(side).any() for side in pair)
    ]


def user_figures(dialogues: Iterable[Dialogue]) -> list[dict[str, float]]:
    """Describe the user of each dialogue by a few figures."""
    from dialeval.metrics.user_reaction import UserReaction

    spoken = [dialogue for dialogue in dialogues if _user_texts(dialogue)]
    signals = UserReaction().signals(spoken)
    labelled, rows = SegmentActs.load().label(spoken), []
    for dialogue, reactions, labelled_dialogue in zip(spoken, signals, labelled, strict=True):
        texts = _user_texts(dialogue)
        words = [_WORD.findall(text.casefold()) for text in texts]
        moods = [mood for mood, _ in reactions.values() if mood is not None]
        pairs = [pair for tokens in words for pair in pairwise(tokens)]
        figures = {
            "user turns": float(len(texts)),
            "words in a turn": float(np.mean([len(tokens) for tokens in words])),
            "turns that ask": float(np.mean(["?" in text for text in texts])),
            "turns said before": float(np.mean([tokens in words[:n] for n, tokens in enumerate(words)])),
            "word pairs said before": 1 - len(set(pairs)) / len(pairs) if pairs else 0.0,
        }
        if moods:
            figures |= {
                "reaction": float(np.mean(moods)),
                "displeased": float(np.mean([m < -1 for m in moods])),
            }
        labels = [
            part["act"]
            for turn in labelled_dialogue.turns
            if turn.speaker == "user"
            for part in turn.meta["segments"]
        ]
        figures |= {f"act {name}": labels.count(name) / max(1, len(labels)) for name in ACTS}
        rows.append(figures)
    return rows


def _user_texts(dialogue: Dialogue) -> list[str]:
    return [turn.text for turn in dialogue.turns if turn.speaker == "user" and says_something(turn)]
