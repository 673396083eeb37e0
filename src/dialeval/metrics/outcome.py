"""An estimate of whether an agent reached its user's goal, where nobody verified it.

A logistic head weighs a few features of the dialogue, chosen so that they mean the same in every domain: how
it ended, how long it took, what tools said, what was repeated, how the user took it. No tool's name, no word
of a trade and no verified outcome is among them. Each feature is turned so that more of it is better, and no
weight is below zero.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dialeval.dialogues import Dialogue, Turn, takes_part
from dialeval.dialogues.signals import ends_here
from dialeval.errors import DataError
from dialeval.metrics.agent_calls import Call, calls_of, found, values_in, words
from dialeval.metrics.explanation import Explanation, Side
from dialeval.metrics.registry import (
    Language,
    OpensModels,
    Rows,
    encoded_chunks,
    known_language,
    metric,
    model_field,
)
from dialeval.metrics.user_reaction import UserReaction
from dialeval.models import reactions
from dialeval.models.artefact import Artefact, Model
from dialeval.models.heads import Head, VectorHead
from dialeval.models.untrusted import read_setting
from dialeval.scores import Scores

DEFAULT = "dialeval-outcome"
KIND = "outcome.v1"
SUCCESS = "success"
HEAD = Head(SUCCESS, "binary")
FEATURES = (
    "finished",
    "brief",
    "few-errors",
    "few-repeats",
    "last-call-worked",
    "best-reaction",
    "last-reactions",
    "one-request",
    "short-opening",
    "replies-that-ask",
    "grounded",
)
"""The user ended it and was not handed over; if so, how few messages it took (a logarithm); how few calls
failed, and were made again; whether the last one worked; the user's best reaction, and the mean of the last
two (`user-reaction`); how few turns of the user ask for yet another thing; how short the first one is; the
share of replies that ask something; how few numbers and codes in calls that change something came from
nowhere: neither the user nor a tool had named them."""
_USUALLY: Mapping[str, tuple[float, float]] = {
    "finished": (0.7, 0.5),
    "brief": (0.0, 0.35),
    "few-errors": (-0.5, 0.7),
    "few-repeats": (-0.4, 0.8),
    "last-call-worked": (0.9, 0.3),
    "best-reaction": (1.5, 1.1),
    "last-reactions": (0.9, 0.9),
    "one-request": (-0.4, 0.5),
    "short-opening": (-2.9, 0.6),
    "replies-that-ask": (0.4, 0.33),
    "grounded": (-0.1, 0.33),
}
"""Mean and standard deviation of each feature, rounded, in dialogues of eleven agents of tau-bench retail."""
_MOST = 2.0  # standard deviations of a feature that count
_USUAL = 3.4  # logarithm of the number of messages at which `brief` is 0
_PARTING, _MORE = words("parting"), words("asks-more")
_VALUE = range(2, 61)  # characters of a value that can be looked for
_JOINTS = re.compile(r"[\s,()-]")  # what people put between the parts of a number or code
_DATE = re.compile(r"\d{4}-(?P<month>\d\d)-(?P<day>\d\d)")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def features(dialogue: Dialogue, moods: Sequence[float], speaker: str = "assistant") -> dict[str, float]:
    """Describe a dialogue.

    Args:
        dialogue: The dialogue.
        moods: How pleased the user was after each reply, -3 to 3.
        speaker: The agent.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Hi, cancel A1."), ("assistant", "Done. More?"), ("user", "No, thanks!")])
    >>> {name: round(value, 2) for name, value in features(chat, [1.0]).items() if value}
    {'finished': 1.0, 'brief': 2.01, 'last-call-worked': 1.0, 'best-reaction': 1.0, 'last-reactions': 1.0, \
'short-opening': -1.39, 'replies-that-ask': 1.0}
    """
    calls = calls_of(dialogue, speaker)
    user = [turn for turn in dialogue.turns if takes_part(turn) and turn.speaker != speaker]
    user_texts = [turn.text for turn in user if turn.text.strip()]
    agent_texts = [turn.text for turn in dialogue.turns if takes_part(turn) and turn.speaker == speaker]
    finished = _finished(user, user_texts, calls)
    messages = sum(turn.speaker != "system" for turn in dialogue.turns)
    values = (
        float(finished),
        _USUAL - math.log1p(messages) if finished else 0.0,
        -math.log1p(sum(call.failed for call in calls)),
        -math.log1p(sum(call.again for call in calls)),
        float(not (calls and calls[-1].failed)),
        max(moods, default=0.0),
        sum(moods[-2:]) / max(1, len(moods[-2:])),
        -math.log1p(sum(found(_MORE, text) for text in user_texts)),
        -math.log1p(len(user_texts[0].split()) if user_texts else 0),
        sum("?" in text for text in agent_texts) / max(1, len(agent_texts)),
        -math.log1p(_from_nowhere(dialogue, calls, speaker)),
    )
    return dict(zip(FEATURES, values, strict=True))


def _finished(user: Sequence[Turn], texts: Sequence[str], calls: Iterable[Call]) -> bool:
    """Return whether the user ended the dialogue, by a parting word or by the log, without a hand-over."""
    if not texts or any(call.kind == "hand-over" for call in calls):
        return False
    return ends_here(user[-1]) or found(_PARTING, texts[-1])


def _from_nowhere(dialogue: Dialogue, calls: Iterable[Call], speaker: str) -> int:
    """Count values with a digit, in calls that change something, that nobody had named before.

    Named means by the user, by a tool, or in an earlier call that worked.
    """
    seen, place, count = _Named(), 0, 0
    for call in calls:
        fresh = dialogue.turns[place : call.turn]
        seen.add(turn.text for turn in fresh if turn.speaker not in (speaker, "system"))
        place = max(place, call.turn)
        values = {value.strip().lower() for value in values_in(call.arguments)}
        codes = [value for value in values if len(value) in _VALUE and any(map(str.isdigit, value))]
        if call.kind == "write":
            count += sum(code not in seen for code in codes)
        if not call.failed:
            seen.add(codes)
    return count


class _Named:
    """Texts, and whether they name a value as it is or as people write it: 1,250 dollars, DE89 3704, May 20.

    >>> seen = _Named()
    >>> seen.add(["Move $1,250.00 on May 20"])
    >>> [value in seen for value in ("1250.0", "2026-05-20", "900")]
    [True, True, False]
    """

    def __init__(self) -> None:
        self._texts = list[str]()
        self._joined = list[str]()

    def add(self, texts: Iterable[str]) -> None:
        """Add texts."""
        for text in texts:
            self._texts.append(text.lower())
            self._joined.append(_JOINTS.sub("", text.lower()))

    def __contains__(self, value: str) -> bool:
        if any(value in text or value.strip("#") in text for text in self._texts):
            return True
        joined = _JOINTS.sub("", value.removesuffix(".0"))
        if len(joined) > 2 and any(joined in text for text in self._joined):
            return True
        date = _said_date(value)
        return date is not None and any(date.search(text) for text in self._texts)


def _said_date(value: str) -> re.Pattern[str] | None:
    """Return the pattern of how people write a date, None if the value is none."""
    date = _DATE.fullmatch(value)
    if date is None or not 1 <= int(date["month"]) <= len(_MONTHS):
        return None
    month, day = int(date["month"]), int(date["day"])
    name = rf"{_MONTHS[month - 1]}[a-z]*\.?"
    figures = rf"\b0?{month}[/.-]0?{day}\b|\b0?{day}[/.-]0?{month}\b"
    until = r"(?: ?(?:to|until|and|-|\u2013) ?\d\d?(?:st|nd|rd|th)?\.?)?"  # 3 to 14 August
    return re.compile(
        rf"\b{name},? (?:the )?0?{day}(?!\d)|\b0?{day}(?:st|nd|rd|th)?\.?{until}(?: of)? {name}|{figures}"
    )


def completion(values: Mapping[str, float]) -> float:
    """Return the mean of the features, each in standard deviations (±2 at most) from the usual.

    Nothing is learned: all features count alike, whatever the domain, and none decides alone.

    >>> round(completion({name: mean + scale for name, (mean, scale) in _USUALLY.items()}), 2)
    1.0
    """
    apart = ((values[name] - mean) / scale for name, (mean, scale) in _USUALLY.items())
    return sum(max(-_MOST, min(_MOST, one)) for one in apart) / len(_USUALLY)


def rows_of(
    dialogues: Sequence[Dialogue], speaker: str | None = None, model: str = reactions.DEFAULT
) -> list[dict[str, float]]:
    """Describe dialogues; their users' reactions are read together."""
    signals = UserReaction(model=model, speaker=speaker).signals(list(dialogues))
    moods = [[mood for mood, _ in signal.values() if mood is not None] for signal in signals]
    who = speaker or "assistant"
    return [features(dialogue, own_moods, who) for dialogue, own_moods in zip(dialogues, moods, strict=True)]


def stacked(rows: Sequence[Mapping[str, float]], names: Sequence[str]) -> npt.NDArray[np.float32]:
    """Return features as an array with a column for each name."""
    return np.array([[row[name] for name in names] for row in rows], np.float32).reshape(-1, len(names))


class OutcomeHead(Model):
    """A calibrated logistic head over some of the features."""

    kinds: ClassVar[tuple[str, ...]] = (KIND,)

    def __init__(self, artefact: Artefact) -> None:
        super().__init__(artefact)
        place = artefact.folder / "config.json"
        self._head = VectorHead(artefact)
        self.features: list[str] = read_setting(artefact.config, "features", list[str], place)
        if self._head.heads != (HEAD,) or len(self.features) != self._head.inputs:
            raise DataError("expected one head `success` and a name for each feature", file=place)
        if unknown := [name for name in self.features if name not in FEATURES]:
            raise DataError(f"unknown feature {unknown[0][:40]!a}", file=place, field="features")

    def chances(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """Return the probability of success for each row of features."""
        return self._head.answers(rows)[HEAD.name]


@metric("outcome.v2")
@dataclass(frozen=True)
class Outcome(OpensModels):
    """Probability that an agent reached its user's goal.

    Estimated from the dialogue alone, by a model learned from tau-bench agents with verified outcomes;
    calibrated there, not on your agents. To know, declare goals (`goal`); to correct a mean by a few verified
    outcomes, use `trust`.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Cancel A1."), ("assistant", "Sure?"), ("user", "Yes. Thanks, bye!")], "d1")
    >>> [row.note for row in Outcome().score([chat])]
    ['no tool call in it: the estimate learned from agents with tools']
    """

    model: str = model_field(DEFAULT, OutcomeHead.load)
    reactions: str = model_field(reactions.DEFAULT, reactions.Reactions.load)
    speaker: str | None = None
    language: Language = known_language()
    dimensions: ClassVar[tuple[str, ...]] = (SUCCESS,)

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Estimate each dialogue's outcome."""
        rows, head = Rows(self), OutcomeHead.load(self.model)
        for chunk in encoded_chunks(self, dialogues):
            described = rows_of(chunk, self.speaker, self.reactions)
            for dialogue, chance in zip(chunk, head.chances(stacked(described, head.features)), strict=True):
                rows.add(dialogue, None, SUCCESS, *self._figure(dialogue, float(chance)))
        return rows.scores()

    def _figure(self, dialogue: Dialogue, chance: float) -> tuple[float | None, str | None]:
        who = self.speaker or "assistant"
        mine = [turn for turn in dialogue.turns if turn.speaker == who]
        if not mine or not any(takes_part(turn) and turn.speaker != who for turn in dialogue.turns):
            return None, "no agent and user in it"
        if not math.isfinite(chance):
            return None, "the model gives no number"
        called = any(turn.tool_calls for turn in mine)
        return chance, None if called else "no tool call in it: the estimate learned from agents with tools"

    def explain(self, dialogues: Sequence[Dialogue]) -> list[Explanation]:
        """Return the features of each dialogue beside its estimate."""
        all_dialogues, head = list(dialogues), OutcomeHead.load(self.model)
        described = rows_of(all_dialogues, self.speaker, self.reactions)
        chances = head.chances(stacked(described, head.features))
        return [
            Explanation(dialogue.id, "outcome", float(chance), parts, Side.of(dialogue))
            for dialogue, chance, parts in zip(all_dialogues, chances, described, strict=True)
        ]
