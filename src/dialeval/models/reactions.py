"""How a user took a reply, from what the user said next.

A word list cannot tell "no" to a question from displeasure with the answer. So the scorer reads the next
turn beside the reply it follows and what the user had said before: the vectors of a frozen encoder, and a few
plain facts, such as whether the user says the same again or speaks of the bot.
"""

import re
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from dialeval.dialogues import Dialogue, says_something
from dialeval.dialogues.signals import next_turns
from dialeval.models.artefact import Artefact
from dialeval.models.cache import Cache
from dialeval.models.encoder import Encoder
from dialeval.models.heads import EncoderHead, Head
from dialeval.models.needs import Need, spoken_turns
from dialeval.models.network import Floats, unit

DEFAULT = "dialeval-user-reaction"
REACTIONS = ("displeased", "neutral", "pleased")
HEAD = Head("reaction", "classes", REACTIONS)
MOST = 3.0  # the largest sentiment; the least is its opposite
_WORDS = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_CACHE = 16 << 20  # bytes of answers kept, since several metrics of a run ask for the same
_CUES = tuple(
    re.compile(pattern)
    for pattern in (
        r"^(no|nope|nah)\b",
        r"\b(you|your|you're|youre|u)\b",
        r"\b(said|told|asked|asking|meant|talking about|question|answer)\b",
        r"\b(already|again|keep|repeat\w*|before|just|still)\b",
        r"\b(what|huh|sense|confus\w*|understand|mean|random)\b|\?\?",
        r"\b(stop|quit|shut|leave|forget|never ?mind|enough|change|subject|whatever)\b",
        r"\b(wrong|not true|incorrect|isn't|aren't|lie|lying|false)\b",
        r"\b(stupid|dumb|useless|idiot|terrible|annoying|rude|boring|bot|robot|human|help\w*)\b",
        r"\b(thanks?|great|cool|nice|love|good|awesome|haha|lol|wow|yes|yeah|sure|agree|interesting)\b",
        r"\b(i|my|me|i'm|im|we)\b",
    )
)


class Exchange(NamedTuple):
    """A reply, what its user had said before it, and what the user said next."""

    before: str
    reply: str
    next: str


class Reactions(EncoderHead):
    """A classifier of what users say next.

    >>> from dialeval.models.reactions import Exchange, Reactions
    >>> asked = Exchange("hi", "Do you have a dog?", "no, I hate dogs")
    >>> missed = Exchange("where is the station?", "I like dogs.", "that's not what I asked")
    >>> [REACTIONS[int(row.argmax())] for row in Reactions.load().shares([asked, missed])]
    ['neutral', 'displeased']
    """

    kinds: ClassVar[tuple[str, ...]] = ("reactions.v1",)
    default: ClassVar[str] = DEFAULT
    head: ClassVar[Head] = HEAD

    def __init__(self, artefact: Artefact) -> None:
        super().__init__(artefact)
        self._cache = Cache(_CACHE)

    def needs(self) -> list[Need]:
        """Return the encoder outputs it reads."""
        readings = [self.encoder.reading(layer, "mean") for layer in self.encoder.middle_and_last]
        return [Need(self.encoder, spoken_turns, tuple(readings))]

    def shares(self, exchanges: Sequence[Exchange]) -> npt.NDArray[np.float64]:
        """Return the probability of each reaction, a row for each exchange."""
        keys = [(self.sha, "\x1f".join(exchange)) for exchange in exchanges]
        cached = dict(zip(keys, self._cache.fetch(keys), strict=True))
        missing = {
            name: exchange for name, exchange in zip(keys, exchanges, strict=True) if cached[name] is None
        }
        if missing:
            features = reaction_features(list(missing.values()), self.encoder)
            probabilities = self._head.answers(features)[HEAD.name].astype(np.float32)
            self._cache.store(list(missing), probabilities)
            cached.update(zip(missing, probabilities, strict=True))
        return np.array([cached[name] for name in keys], np.float64).reshape(-1, len(REACTIONS))

    def sentiments(self, exchanges: Sequence[Exchange]) -> npt.NDArray[np.float64]:
        """Return the sentiment of each reaction, -3 to 3: 3 * (P(pleased) - P(displeased))."""
        shares = self.shares(exchanges)
        return np.asarray(MOST * (shares[:, 2] - shares[:, 0]))


def exchanges(dialogue: Dialogue, turns: Sequence[int]) -> dict[int, Exchange]:
    """Return the exchange of each of these turns that has an answer, by turn."""
    by_turn, following = {}, next_turns(dialogue)
    before, last = list[str](), dict[str, str]()
    for turn in dialogue.turns:
        before.append(next((text for speaker, text in last.items() if speaker != turn.speaker), ""))
        if says_something(turn):
            last.pop(turn.speaker, None)
            last = {turn.speaker: turn.text, **last}
    for number in turns:
        answer = following[number].turn
        if answer is not None:
            texts = (before[number], dialogue.turns[number].text, dialogue.turns[answer].text)
            by_turn[number] = Exchange(*texts)
    return by_turn


def reaction_features(exchanges: Sequence[Exchange], encoder: Encoder) -> Floats:
    """Return features of exchanges, a row each: vectors of the next turn, products, and facts."""
    texts = list(dict.fromkeys(text for exchange in exchanges for text in exchange if text.strip()))
    places = {text: number for number, text in enumerate(texts)}
    vectors = [unit(encoder.vectors(texts, layer=layer, pooling="mean")) for layer in encoder.middle_and_last]
    blank = np.zeros(encoder.width, np.float32)

    def vector(text: str, layer: int) -> Floats:
        return vectors[layer][places[text]] if text in places else blank

    rows = []
    for exchange in exchanges:
        before, reply, after = (vector(text, 1) for text in exchange)
        rows.append(
            np.concatenate(
                [vector(exchange.next, 0), after, after * reply, _facts(exchange, before, reply, after)]
            )
        )
    return np.asarray(rows, np.float32)


def _facts(exchange: Exchange, before: Floats, reply: Floats, after: Floats) -> Floats:
    reaction = exchange.next.lower().replace("\u2019", "'")
    earlier, reply_words, now = (set(_WORDS.findall(text.lower())) for text in exchange)
    facts = [
        *(float(cue.search(reaction) is not None) for cue in _CUES),
        float("?" in exchange.reply),
        float(exchange.reply.rstrip().endswith("?")),
        float("?" in exchange.next),
        float("!" in exchange.next),
        float(np.log1p(len(reaction.split()))),
        float(np.log1p(len(exchange.reply.split()))),
        len(now & earlier) / max(1, len(now)),
        len(now & reply_words) / max(1, len(now)),
        float(after @ before),
        float(after @ reply),
        float(reply @ before),
    ]
    return np.array(facts, np.float32)
