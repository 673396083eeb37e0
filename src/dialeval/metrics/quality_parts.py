"""The parts of `quality`: a handful of figures of each reply and of each dialogue, by other metrics.

A reply is judged by itself and what came before it: what users said to earlier replies is known, what they
say next is not. A dialogue is judged when it is over, by all that was said.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dialeval.dialogues import Dialogue, Turn, scored_turns, takes_part
from dialeval.dialogues.signals import next_turns
from dialeval.metrics.baselines import Repetition, words
from dialeval.metrics.dialoguescore import CHAT, OpenCoherence
from dialeval.metrics.followup import Followup
from dialeval.metrics.registry import encoded_chunks, needs_of
from dialeval.metrics.turn_quality import DEFAULT as TURN_QUALITY
from dialeval.metrics.turn_quality import FOLLOWUP, Student, TurnQuality
from dialeval.metrics.user_reaction import UserReaction
from dialeval.models import reactions
from dialeval.models.blend import Level, Parts
from dialeval.models.needs import Need
from dialeval.models.reactions import Reactions
from dialeval.scores import Scores

WHAT: Mapping[str, str] = {
    "turn-quality": "what users tend to say after such replies: the metric `turn-quality`",
    "coherence": "whether replies fit what was said before: `ur` of the metric `coherence`",
    "uptake": "whether what users said next fits the replies: `ru` of `coherence`",
    "followup": "what a language model would expect the user to say next: the metric `student`",
    "novelty": "the share of a reply's three-word runs that its speaker had not said before",
    "tone": "how friendly replies sound, -3 to 3",
    "mood": "how pleased the user sounds, -3 to 3: the metric `user-reaction`",
    "length": "words of a reply, as a logarithm",
    "engagement": "words of a user turn, as a logarithm",
    "staying": "the share of replies after which the user went on",
}
OF_REPLY = ("turn-quality", "coherence", "followup", "novelty", "tone")
"""The parts of a turn that are about the reply itself; the others are about what was said before it."""
NAMES: Mapping[Level, tuple[str, ...]] = {
    "turn": ("turn-quality", "coherence", "followup", "novelty", "tone", "mood", "uptake"),
    "dialogue": (
        *("turn-quality", "coherence", "novelty", "tone", "mood", "uptake"),
        *("length", "engagement", "staying"),
    ),
}
"""The parts of each level. Of a turn, mood and uptake are means over the exchanges before it, the latest
counting most."""
_FADING = 0.7  # of what an exchange says of the next reply, with each further one
Figures = dict[tuple[str, int], float | None]


@dataclass(frozen=True)
class DialogueParts:
    """The parts of one dialogue, and of each of its replies that has text."""

    dialogue: Dialogue
    turns: Mapping[int, Parts]
    whole: Parts
    cut: frozenset[int] = frozenset()
    """Replies that were longer, or came after longer turns, than the encoder reads."""
    empty: Mapping[int, Parts] = field(default_factory=dict)
    """Replies that say nothing: the parts that come from what was said before them."""

    def counting_empty(self, lowest: Parts) -> "DialogueParts":
        """Count empty replies as failed ones: with the lowest value of each part that is about the reply.

        A user who gets no answer was failed; leaving such replies out would make a system that falls silent
        look better than one that tries.
        """
        if not self.empty:
            return self
        worst = {name: lowest[name] for name in OF_REPLY if name in lowest}
        every = {**self.turns, **{turn: {**before, **worst} for turn, before in self.empty.items()}}
        turns = {turn: every[turn] for turn in sorted(every)}
        return replace(self, turns=turns, whole={**self.whole, **_over_replies(self.dialogue, turns)})


@dataclass(frozen=True)
class PartReader:
    """Reads the parts of dialogues with the models of other metrics.

    With `teachers`, a language model itself is asked what the shipped student of it was taught.
    """

    turn_quality: str = TURN_QUALITY
    coherence: str = CHAT
    reactions: str = reactions.DEFAULT
    followup: str = FOLLOWUP
    teachers: bool = False
    speaker: str | None = None

    def read(self, dialogues: Iterable[Dialogue]) -> Iterator[DialogueParts]:
        """Read dialogues, some at a time: all parts share what the encoder makes of a turn.

        >>> from dialeval.dialogues import dialogue
        >>> chat = dialogue([("user", "Do you like jazz?"), ("assistant", "I do! Do you play?"),
        ...     ("user", "Great, yes, the piano!"), ("assistant", "I do! Do you play?")], "d1")
        >>> found = next(PartReader().read([chat]))
        >>> found.turns[3]["novelty"], found.turns[1]["mood"], found.whole["novelty"]
        (0.0, None, 0.5)
        """
        for some in encoded_chunks(self, dialogues):
            yield from self._read(some)

    def needs(self) -> list[Need]:
        """Open the models of all parts; return what they read of encoders."""
        return needs_of([self._judge, self._fit, self._expected, self._reaction])

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
    def _expected(self) -> Followup | Student:
        if self.teachers:
            return Followup(level="turn", speaker=self.speaker)
        return Student(self.followup, speaker=self.speaker, language="any")

    def _read(self, dialogues: list[Dialogue]) -> Iterator[DialogueParts]:
        judged = self._judge.score(dialogues)
        fitting = self._fit.score(dialogues)
        repeated = _figures(Repetition(speaker=self.speaker).score(dialogues), "repetition")
        figures: dict[str, Figures] = {
            "turn-quality": _figures(judged, "quality"),
            "coherence": _figures(fitting, "ur"),
            "uptake": _figures(fitting, "ru"),
            "followup": _figures(self._expected.score(dialogues), "quality"),
            "novelty": {place: 1.0 - (share or 0.0) for place, share in repeated.items()},
            "tone": self._tones(dialogues),
        }
        cut = {(row.dialogue_id, row.turn) for row in judged if row.note == "truncated"}
        signals = self._reaction.signals(dialogues)
        for dialogue, reacted in zip(dialogues, signals, strict=True):
            yield self._of(dialogue, figures, reacted, cut)

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
        cut: set[tuple[str, int | None]],
    ) -> DialogueParts:
        turns: dict[int, Parts] = {}
        empty: dict[int, Parts] = {}
        ever = {"mood": _Running(), "uptake": _Running()}
        lately = {"mood": _Running(_FADING), "uptake": _Running(_FADING)}
        every = scored_turns(dialogue, self.speaker)
        for turn in every:
            place = (dialogue.id, turn)
            before = {name: running.mean for name, running in lately.items()}
            if dialogue.turns[turn].text.strip():
                turns[turn] = {**{name: some.get(place) for name, some in figures.items()}, **before}
            elif not has_more_than_text(dialogue.turns[turn]):
                empty[turn] = before
            for name, value in (("mood", reacted[turn][0]), ("uptake", figures["uptake"].get(place))):
                ever[name].add(value)
                lately[name].add(value)
        whole = _over_replies(dialogue, turns)
        whole |= {name: running.mean for name, running in ever.items()}
        whole["engagement"] = _engagement(dialogue, every)
        whole["staying"] = _mean([float(goes_on) for _, goes_on in reacted.values()])
        lost = frozenset(turn for turn in turns if (dialogue.id, turn) in cut)
        return DialogueParts(dialogue, turns, whole, lost, empty)


def has_more_than_text(turn: Turn) -> bool:
    """Whether a message holds an image or another part that is not text: then it is no empty reply.

    >>> has_more_than_text(Turn("assistant", "", {"parts": [{"type": "image_url"}]}))
    True
    """
    return bool(turn.meta.get("parts"))


def _over_replies(dialogue: Dialogue, turns: Mapping[int, Parts]) -> dict[str, float | None]:
    """Return the parts of a dialogue that are means over its replies."""
    names = ("turn-quality", "coherence", "novelty", "tone")
    found = {name: _mean([parts[name] for parts in turns.values()]) for name in names}
    return {**found, "length": _mean([_length(dialogue.turns[turn].text) for turn in turns])}


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
