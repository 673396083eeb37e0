"""The parts of `quality`: a handful of figures of each reply and of each dialogue, by other metrics.

A reply is judged by itself: by what it is in its context, and by what the user said to it. What came before
it is context, never credit or blame; how the dialogue stood before it is a figure of its own (`standing`). A
dialogue is judged when it is over, by all that was said.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from dialeval.dialogues import Dialogue, Turn, scored_turns, takes_part
from dialeval.dialogues.signals import next_turns
from dialeval.metrics.baselines import Repetition, words
from dialeval.metrics.dialoguescore import OpenCoherence
from dialeval.metrics.faults import DEFAULT as READER
from dialeval.metrics.faults import Faults, JudgedReply
from dialeval.metrics.followup import Followup
from dialeval.metrics.outcome import completion, features
from dialeval.metrics.registry import encoded_chunks, needs_of
from dialeval.metrics.turn_quality import DEFAULT as TURN_QUALITY
from dialeval.metrics.turn_quality import Student, TurnQuality
from dialeval.metrics.user_reaction import UserReaction
from dialeval.models import reactions
from dialeval.models.blend import Level, Parts, Priors, Shares
from dialeval.models.kinds import KINDS, Kind, kind_needs, kind_shares
from dialeval.models.needs import Need
from dialeval.models.reactions import Reactions
from dialeval.scores import Scores

WHAT: Mapping[str, str] = {
    "turn-quality": "what users tend to say after such replies: the metric `turn-quality`",
    "coherence": "whether replies fit what was said before: `ur` of the metric `coherence`",
    "uptake": "whether what users said next fits the replies: `ru` of `coherence`",
    "followup": "what a language model would expect the user to say next, where one or a `student` of one "
    "is named",
    "novelty": "the share of a reply's three-word runs that its speaker had not said before",
    "tone": "how friendly replies sound, -3 to 3",
    "reaction": "how pleased the user sounds with the reply, -3 to 3: the metric `user-reaction`",
    "answers": "whether replies take up what was just said: `ignores` of the metric `faults`, as a logarithm",
    "civility": "whether replies are kind: `unkind` of `faults`, as a logarithm",
    "consistency": "whether replies contradict neither themselves, the user nor the evidence, repeat "
    "nothing, make sense and break no rule: the other faults, as a logarithm",
    "grounding": "the share of a reply's words that the evidence at hand or the dialogue has",
    "mood": "how pleased the user sounds over the dialogue, -3 to 3",
    "ending": "how pleased the user sounds at the end, -3 to 3",
    "engagement": "words of a user turn, as a logarithm",
    "staying": "the share of replies after which the user went on",
    "substance": "words of a reply up to eight, as a logarithm: more than that is not counted",
    "completion": "signs that an agent reached the user's goal: the features of `outcome`, counted alike",
}
OF_REPLY = (
    *("turn-quality", "coherence", "followup", "novelty", "tone"),
    *("answers", "civility", "consistency", "grounding", "substance"),
)
"""The parts that are about the reply itself; the others are about what the user said."""
_OF_ANY_REPLY = tuple(name for name in OF_REPLY if name not in ("followup", "grounding"))
_OVER_REPLIES = tuple(name for name in OF_REPLY if name not in ("followup", "substance"))
NAMES: Mapping[Level, tuple[str, ...]] = {
    "turn": (*OF_REPLY[:-1], "reaction", "uptake"),
    "dialogue": (
        *(*_OVER_REPLIES, "mood", "ending", "uptake"),
        *("engagement", "staying", "substance", "completion"),
    ),
}
_SAME = 0.1  # what a part counts before any rating was seen
_LEANS: Mapping[Level, Mapping[Kind, Mapping[str, float]]] = {
    "turn": {
        "information": {"grounding": 0.5, "answers": 0.2, "followup": 0.0, "novelty": 0.0}
        | {"turn-quality": 0.05, "coherence": 0.05, "consistency": 0.05},
        "support": {"consistency": 0.3, "answers": 0.2, "civility": 0.2},
        "task": {"followup": 0.05, "consistency": 0.2},
        "tutoring": {"tone": 0.0, "followup": 0.0, "consistency": 0.05},
    },
    "dialogue": {
        "chat": {"staying": 0.2},
        "information": {"answers": 0.2, "grounding": 0.3},
        "support": {"ending": 0.5, "mood": 0.3, "answers": 0.05, "civility": 0.05, "consistency": 0.05}
        | {"completion": 0.3}
        | dict.fromkeys(("turn-quality", "coherence", "novelty", "tone", "uptake"), 0.03),
        "task": {"ending": 0.2, "mood": 0.2, "completion": 0.5},
        "recommendation": {"tone": 0.0, "novelty": 0.05, "substance": _SAME},
    },
}
"""What is known before any rating: in support the user's reaction says nearly all of a dialogue, and a reply
there, or where something is to be done, fails by its faults; a reply that has evidence is judged by it; where
people want something done or known, long talk is no sign of quality, and novelty and small talk matter
less."""
_SMALL_TALK = ("engagement", "staying", "substance")
SCALES: Mapping[str, tuple[float, float]] = {
    "grounding": (0.7, 0.2),
    "followup": (-0.42, 0.2),
    "completion": (0.0, 0.4),
}
"""Mean and scale of parts that the rated sets may lack."""
_FADING = 0.7  # of what an exchange says of how a dialogue stands, with each further one
COHERENCE = "dialeval-coherence-commercial"
"""Learned from text that may be used commercially, unlike the model of the metric `coherence`."""
_ENOUGH = 8  # words
_RULE = 0.9  # probability of a fault that a rule found
Figures = dict[tuple[str, int], float | None]


def priors(level: Level) -> Priors:
    """Return what each part counts in each kind of dialogue before any rating; nothing where it is missing.

    >>> priors("dialogue")["support"]["ending"], "staying" in priors("dialogue")["support"]
    (0.5, False)
    """
    found = {}
    for kind in KINDS:
        leans = _LEANS[level].get(kind, {})
        found[kind] = {
            name: leans.get(name, 0.3 if name == "grounding" else _SAME)
            for name in NAMES[level]
            if kind == "chat" or name not in _SMALL_TALK or name in leans
        }
    return found


@dataclass(frozen=True)
class DialogueParts:
    """The parts of one dialogue, and of each of its replies that has text."""

    dialogue: Dialogue
    turns: Mapping[int, Parts]
    whole: Parts
    shares: Shares
    """How much the dialogue is of each kind."""
    standing: Mapping[int | None, Parts]
    """Mood and uptake so far, before each reply and (None) at the end; recent exchanges count most."""
    cut: frozenset[int] = frozenset()
    """Replies that were longer, or came after longer turns, than the encoder reads."""
    empty: Mapping[int, Parts] = field(default_factory=dict)
    """Replies that say nothing: the parts that come from what the user said to them."""
    unanswered: bool = False
    """Whether nobody ever answered the user: then the last reply is empty, and not in the log."""

    def counting_empty(self, lowest: Parts) -> "DialogueParts":
        """Count empty replies as failed ones: with a low value of each part that is about any reply.

        A user who gets no answer was failed; leaving such replies out would make a system that falls silent
        look better than one that tries.
        """
        if not self.empty:
            return self
        worst = {name: lowest[name] for name in _OF_ANY_REPLY if name in lowest}
        every = {**self.turns, **{turn: {**said, **worst} for turn, said in self.empty.items()}}
        turns = {turn: every[turn] for turn in sorted(every)}
        return replace(self, turns=turns, whole={**self.whole, **_over_replies(self.dialogue, turns)})


@dataclass(frozen=True)
class PartReader:
    """Reads the parts of dialogues with the models of other metrics.

    `followup` names a student of a language model; with `teachers` a language model itself is asked. Without
    a `reader`, faults are not looked for. `kind` says what all dialogues are, in place of the classifier.
    """

    turn_quality: str = TURN_QUALITY
    coherence: str = COHERENCE
    reactions: str = reactions.DEFAULT
    followup: str | None = None
    reader: str | None = READER
    kind: Kind | None = None
    teachers: bool = False
    speaker: str | None = None

    def read(self, dialogues: Iterable[Dialogue]) -> Iterator[DialogueParts]:
        """Read dialogues, some at a time: all parts share what the encoder makes of a turn.

        >>> from dialeval.dialogues import dialogue
        >>> chat = dialogue([("user", "Do you like jazz?"), ("assistant", "I do! Do you play?"),
        ...     ("user", "Great, yes, the piano!"), ("assistant", "I do! Do you play?")], "d1")
        >>> found = next(PartReader().read([chat]))
        >>> found.turns[3]["novelty"], found.turns[3]["reaction"], found.whole["novelty"]
        (0.0, None, 0.5)
        """
        for some in encoded_chunks(self, map(with_a_reply, dialogues)):
            yield from self._read(some)

    def needs(self) -> list[Need]:
        """Open the models of all parts; return what they read of encoders."""
        faults = [Faults(self.reader, self.reactions)] if self.reader else []
        kinds = [] if self.kind else kind_needs()
        return needs_of([self._judge, self._fit, *self._expected, self._reaction, *faults]) + kinds

    @property
    def _judge(self) -> TurnQuality:
        return TurnQuality(self.turn_quality, speaker=self.speaker, language="any")

    @property
    def _fit(self) -> OpenCoherence:
        return OpenCoherence(self.coherence, speaker=self.speaker, language="any")

    @property
    def _reaction(self) -> UserReaction:
        return UserReaction(model=self.reactions, speaker=self.speaker, language="any")

    @property
    def _expected(self) -> list[Followup | Student]:
        if self.teachers:
            return [Followup(level="turn", speaker=self.speaker)]
        return [Student(self.followup, speaker=self.speaker, language="any")] if self.followup else []

    def _read(self, dialogues: list[Dialogue]) -> Iterator[DialogueParts]:
        judged = self._judge.score(dialogues)
        fitting = self._fit.score(dialogues)
        repeated = _figures(Repetition(speaker=self.speaker).score(dialogues), "repetition")
        figures: dict[str, Figures] = {
            "turn-quality": _figures(judged, "quality"),
            "coherence": _figures(fitting, "ur"),
            "uptake": _figures(fitting, "ru"),
            "novelty": {place: 1.0 - (share or 0.0) for place, share in repeated.items()},
            "tone": self._tones(dialogues),
        }
        for expected in self._expected:
            figures["followup"] = _figures(expected.score(dialogues), "quality")
        if self.reader:
            figures |= self._faults(dialogues)
        cut = {(row.dialogue_id, row.turn) for row in judged if row.note == "truncated"}
        signals = self._reaction.signals(dialogues)
        kinds = self._kinds(dialogues)
        for dialogue, reacted, shares in zip(dialogues, signals, kinds, strict=True):
            yield self._of(dialogue, figures, reacted, shares, cut)

    def _kinds(self, dialogues: list[Dialogue]) -> list[Shares]:
        if self.kind:
            return [{self.kind: 1.0}] * len(dialogues)
        rows = kind_shares(dialogues)
        return [dict(zip(KINDS, map(float, row), strict=True)) for row in rows]

    def _faults(self, dialogues: list[Dialogue]) -> dict[str, Figures]:
        found: dict[str, Figures] = {name: {} for name in _FAULTY}
        judge = Faults(str(self.reader), self.reactions, speaker=self.speaker)
        for dialogue, replies in judge.replies(dialogues):
            for reply in replies:
                for name, value in _soundness(reply).items():
                    found[name][dialogue.id, reply.turn] = value
        return found

    def _tones(self, dialogues: list[Dialogue]) -> Figures:
        """Read each turn as what is said next to the turn that it answers."""
        places, asked = list[tuple[str, int]](), list[reactions.Exchange]()
        for dialogue in dialogues:
            following = next_turns(dialogue)
            for turn, exchange in reactions.exchanges(dialogue, range(len(dialogue.turns))).items():
                answer = following[turn].turn
                if answer is not None:
                    places.append((dialogue.id, answer))
                    asked.append(exchange)
        found = Reactions.load(self.reactions).sentiments(asked)
        return {place: float(value) for place, value in zip(places, found, strict=True)}

    def _of(
        self,
        dialogue: Dialogue,
        figures: Mapping[str, Figures],
        reacted: Mapping[int, tuple[float | None, bool]],
        shares: Shares,
        cut: set[tuple[str, int | None]],
    ) -> DialogueParts:
        turns: dict[int, Parts] = {}
        empty: dict[int, Parts] = {}
        standing: dict[int | None, Parts] = {}
        ever = {"mood": _Running(), "uptake": _Running()}
        lately = {"mood": _Running(_FADING), "uptake": _Running(_FADING)}
        every, ending = scored_turns(dialogue, self.speaker), None
        for turn in every:
            place, mood = (dialogue.id, turn), reacted[turn][0]
            uptake = figures["uptake"].get(place)
            standing[turn] = {name: running.mean for name, running in lately.items()}
            if dialogue.turns[turn].text.strip():
                turns[turn] = {**{name: some.get(place) for name, some in figures.items()}, "reaction": mood}
            elif not has_more_than_text(dialogue.turns[turn]):
                empty[turn] = {"reaction": mood, "uptake": uptake}
            for name, value in (("mood", mood), ("uptake", uptake)):
                ever[name].add(value)
                lately[name].add(value)
            ending = ending if mood is None else mood
        standing[None] = {name: running.mean for name, running in lately.items()}
        whole = _over_replies(dialogue, turns)
        whole |= {name: running.mean for name, running in ever.items()}
        whole |= {"ending": ending, "engagement": _engagement(dialogue, every)}
        whole["staying"] = _mean([float(goes_on) for _, goes_on in reacted.values()])
        whole["completion"] = self._completion(dialogue, reacted)
        lost = frozenset(turn for turn in turns if (dialogue.id, turn) in cut)
        silent = _NEVER in dialogue.meta
        return DialogueParts(dialogue, turns, whole, shares, standing, lost, empty, silent)

    def _completion(
        self, dialogue: Dialogue, reacted: Mapping[int, tuple[float | None, bool]]
    ) -> float | None:
        """Return the part `completion`; None where no tool was called."""
        speaker = self.speaker or "assistant"
        if not any(turn.tool_calls for turn in dialogue.turns if turn.speaker == speaker):
            return None
        moods = [mood for mood, _ in reacted.values() if mood is not None]
        return completion(features(dialogue, moods, speaker))


_NEVER = "never answered"
_FAULTY = ("answers", "civility", "consistency", "grounding")
_SAID = {"ignores": "answers", "unkind": "civility"}


def _soundness(reply: JudgedReply) -> dict[str, float | None]:
    """Turn the faults of a reply into parts: logarithms of the probability that there is none."""
    found: dict[str, float | None] = {}
    consistency = 0.0
    for fault, probability in reply.values.items():
        sound = math.log1p(-min(probability, _RULE))
        if fault in _SAID:
            found[_SAID[fault]] = sound
        elif fault != "off-topic":
            consistency += sound
    if found:
        found["consistency"] = consistency
    if "grounded" in reply.features:
        found["grounding"] = reply.features["grounded"]
    return found


def with_a_reply(dialogue: Dialogue) -> Dialogue:
    """Add an empty reply to a dialogue in which the user wrote twice or more and nobody ever answered.

    A single message may be a prompt that is still to be answered.

    >>> from dialeval.dialogues import dialogue
    >>> len(with_a_reply(dialogue([("user", "Hi"), ("user", "Anybody there?")])).turns)
    3
    """
    if len(dialogue.turns) < 2 or any(turn.speaker != "user" for turn in dialogue.turns if takes_part(turn)):
        return dialogue
    if sum(bool(turn.text.strip()) for turn in dialogue.turns if takes_part(turn)) < 2:
        return dialogue
    meta = {**{name: value for name, value in dialogue.meta.items() if name != "scored"}, _NEVER: True}
    return structs.replace(dialogue, turns=(*dialogue.turns, Turn("assistant", "")), meta=meta)


def has_more_than_text(turn: Turn) -> bool:
    """Whether a message holds an image or another part that is not text: then it is no empty reply.

    >>> has_more_than_text(Turn("assistant", "", {"parts": [{"type": "image_url"}]}))
    True
    """
    return bool(turn.meta.get("parts"))


def _over_replies(dialogue: Dialogue, turns: Mapping[int, Parts]) -> dict[str, float | None]:
    """Return the parts of a dialogue that are means over its replies."""
    found = {name: _mean([parts.get(name) for parts in turns.values()]) for name in _OVER_REPLIES}
    return {**found, "substance": _mean([_substance(dialogue.turns[turn].text) for turn in turns])}


def _substance(text: str) -> float:
    return math.log1p(min(_ENOUGH, len(words(text))))


class _Running:
    """The mean of what was known so far; each value counts `fading` times as much as the next one."""

    def __init__(self, fading: float = 1.0) -> None:
        self._fading, self._sum, self._count = fading, 0.0, 0.0

    def add(self, value: float | None) -> None:
        if value is not None:
            self._sum, self._count = self._fading * self._sum + value, self._fading * self._count + 1.0

    @property
    def mean(self) -> float | None:
        return self._sum / self._count if self._count else None


def _figures(scores: Scores, dimension: str) -> Figures:
    rows = scores.where(dimension=dimension, level="turn")
    return {(row.dialogue_id, row.turn): row.value for row in rows if row.turn is not None}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _length(text: str) -> float:
    return math.log1p(len(words(text)))


def _engagement(dialogue: Dialogue, scored: Sequence[int]) -> float | None:
    """How much those say who are not judged; where two people talk, how much both say."""
    speakers = {dialogue.turns[turn].speaker for turn in scored}
    others = [turn for turn in dialogue.turns if takes_part(turn) and turn.speaker not in speakers]
    heard = others or [turn for turn in dialogue.turns if takes_part(turn)]
    return _mean([_length(turn.text) for turn in heard if turn.text.strip()])
