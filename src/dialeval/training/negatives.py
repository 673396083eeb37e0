"""Negative sampling for coherence scorers: replies put where they do not belong.

A negative for a reply is another logged reply, of one of these kinds:

- `session`: elsewhere in the same dialogue;
- `domain`: at the same place in another dialogue about the same domains (`domains_of`);
- `state`: elsewhere, with the same acts, and with the same slots known when it was given;
- `topic`: in another dialogue that shares its rare words, or its `topic` in the meta;
- `random`: anywhere in another dialogue.

A reply that equals the true one after delexicalisation is not a negative. A draw depends only on the seed,
the dialogue's id, the turn, the kind and the dialogues to draw from.
"""

import functools
import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dialeval.dialogues.delexicalisation import delexicalise, values_in
from dialeval.dialogues.dialogue import Dialogue, scored_turns, takes_part
from dialeval.dialogues.splits import normalise
from dialeval.errors import UsageError

KINDS = ("session", "domain", "state", "topic", "random")
_TRIES = 12  # draws of a kind for one reply
_TELLING = 6  # rare words that represent the topic of a dialogue
_ALIKE = 8  # dialogues of the same topic to draw from
_WORD = re.compile(r"[^\W\d_]{4,}")
_VERSION = re.compile(r"_\d+\b")
_SERVICE_NUMBER = re.compile(r"_\d+$")
_WORDS: Mapping[str, str] = {
    "attraction": r"attractions?|museums?|colleges?|parks?|theat(er|re)s?|cinemas?|church(es)?|galler(y|ies)|"
    r"nightclubs?|boats?|sightseeing|places? to (go|see|visit)|entertainment|swimming ?pools?",
    "bank": r"bank|account|balance|transfer",
    "bus": r"bus(es)?|coach",
    "car": r"(rental|rent a|hire a) car|car (rental|hire)",
    "doctor": r"doctors?|dentists?|physicians?|dermatologists?|appointment",
    "event": r"events?|concerts?|games?|tickets? for",
    "flight": r"flights?|fly|airlines?|airport",
    "home": r"apartments?|house to|bedrooms?|rent(ing)?",
    "hospital": r"hospitals?|emergency|ward",
    "hotel": r"hotels?|guest ?houses?|lodgings?|place to stay|rooms?|bed and breakfasts?",
    "movie": r"movies?|films?",
    "music": r"songs?|music|album",
    "police": r"police|robbed|stolen",
    "restaurant": r"restaurants?|food|eat|dining|dine|cuisine|dinner|lunch|table",
    "salon": r"salons?|hairdressers?|stylists?|haircut",
    "taxi": r"taxis?|cabs?|ride",
    "train": r"trains?",
    "weather": r"weather|forecast|rain|humidity",
}
_PATTERNS = {name: re.compile(rf"\b({words})\b", re.IGNORECASE) for name, words in _WORDS.items()}


def domains_of(dialogue: Dialogue) -> frozenset[str]:
    """Return the domains of a dialogue: those in the meta of its turns, or those its user mentions.

    The number of a service (`Events_2`) is removed.

    >>> from dialeval.dialogues import Turn, dialogue
    >>> sorted(domains_of(dialogue([("user", "A hotel, please, and a taxi to it."), ("assistant", "Ok.")])))
    ['hotel', 'taxi']
    >>> sorted(domains_of(dialogue([Turn("user", "A hotel.", {"domain": ["Hotels_4"]})])))
    ['hotels']
    """
    named = {name for turn in dialogue.turns for name in _named(turn.meta.get("domain"))}
    return frozenset(named or _mentioned(dialogue))


def _named(value: object) -> list[str]:
    names = [value] if isinstance(value, str) else value if isinstance(value, Sequence) else ()
    return [_SERVICE_NUMBER.sub("", name.lower()) for name in names if isinstance(name, str) and name]


def _mentioned(dialogue: Dialogue) -> set[str]:
    users = [turn.text for turn in dialogue.turns if takes_part(turn) and turn.speaker != "assistant"]
    return {name for name, words in _PATTERNS.items() if any(words.search(text) for text in users)}


Chance = np.random.Generator
T = TypeVar("T")


class ReplyPlace(NamedTuple):
    """A turn of one of the dialogues that are drawn from."""

    dialogue: int
    turn: int


class Negatives:
    """Draws negatives for the replies of dialogues, among the replies of all of them.

    >>> from dialeval.dialogues import dialogue
    >>> chats = [dialogue([("user", "A taxi?"), ("assistant", where), ("user", "Home."), ("assistant", when)])
    ...     for where, when in (("To where?", "It comes at 9."), ("From where?", "It comes at 8."))]
    >>> negatives = Negatives(chats)
    >>> negatives.draw(ReplyPlace(0, 1), "session"), negatives.draw(ReplyPlace(0, 1), "domain")
    (ReplyPlace(dialogue=0, turn=3), ReplyPlace(dialogue=1, turn=1))
    >>> negatives.draw(ReplyPlace(0, 3), "domain") is None  # the same reply but for the time
    True
    """

    def __init__(self, dialogues: Sequence[Dialogue], seed: int = 0) -> None:
        self.dialogues, self.seed = dialogues, seed
        self.replies = [
            [turn for turn in scored_turns(dialogue) if dialogue.turns[turn].text.strip()]
            for dialogue in dialogues
        ]
        self._bare: dict[ReplyPlace, str] = {}
        self._plain: dict[ReplyPlace, str] = {}
        self._drawers: dict[str, Callable[[ReplyPlace, Chance], ReplyPlace | None]] = {
            "session": self._session,
            "domain": self._domain,
            "state": self._state,
            "topic": self._topic,
            "random": lambda place, chance: self._elsewhere(place, self._all, chance),
        }

    def draw(self, place: ReplyPlace, kind: str, count: int = 0) -> ReplyPlace | None:
        """Return a negative for the reply at a place, or None; `count` numbers repeated draws."""
        if kind not in self._drawers:
            raise UsageError(f"unknown kind of negatives {kind!r}; known: {', '.join(KINDS)}")
        name = self.dialogues[place.dialogue].id
        chance = draws_of(f"{self.seed}|{kind}|{name}|{place.turn}|{count}")
        for _ in range(_TRIES):
            drawn = self._drawers[kind](place, chance)
            if drawn is None:
                return None
            if drawn != place and self.bare(drawn) != self.bare(place):
                return drawn
        return None

    def bare(self, place: ReplyPlace) -> str:
        """Return a reply without values, case and punctuation, for comparison."""
        if place not in self._bare:
            self._bare[place] = normalise(self.plain(place))
        return self._bare[place]

    def plain(self, place: ReplyPlace) -> str:
        """Return a turn without its values."""
        if place not in self._plain:
            turn = self.dialogues[place.dialogue].turns[place.turn]
            self._plain[place] = delexicalise(turn.text, values_in(turn))
        return self._plain[place]

    def _session(self, place: ReplyPlace, chance: Chance) -> ReplyPlace | None:
        turns = [turn for turn in self.replies[place.dialogue] if turn != place.turn]
        return ReplyPlace(place.dialogue, _one(turns, chance)) if turns else None

    def _domain(self, place: ReplyPlace, chance: Chance) -> ReplyPlace | None:
        order = self.replies[place.dialogue].index(place.turn)
        candidates = self._by_domain[self._domains[place.dialogue], order]
        return self._elsewhere(place, candidates, chance)

    def _state(self, place: ReplyPlace, chance: Chance) -> ReplyPlace | None:
        key = self._keys.get(place)
        return None if key is None else self._elsewhere(place, self._by_state[key], chance)

    def _topic(self, place: ReplyPlace, chance: Chance) -> ReplyPlace | None:
        alike = self._alike(place.dialogue)
        if not alike:
            return None
        similar = _one(alike, chance)
        order = self.replies[place.dialogue].index(place.turn)
        replies = self.replies[similar]
        return ReplyPlace(similar, replies[order] if order < len(replies) else _one(replies, chance))

    def _elsewhere(
        self, place: ReplyPlace, candidates: Sequence[ReplyPlace], chance: Chance
    ) -> ReplyPlace | None:
        """Return a reply of another dialogue; `place` itself, to draw again, if it is of the same one."""
        if not candidates or candidates[0].dialogue == candidates[-1].dialogue == place.dialogue:
            return None
        drawn = _one(candidates, chance)
        return drawn if drawn.dialogue != place.dialogue else place

    @functools.cached_property
    def _all(self) -> list[ReplyPlace]:
        return [ReplyPlace(number, turn) for number, turns in enumerate(self.replies) for turn in turns]

    @functools.cached_property
    def _domains(self) -> list[frozenset[str]]:
        return [domains_of(dialogue) for dialogue in self.dialogues]

    @functools.cached_property
    def _by_domain(self) -> dict[tuple[frozenset[str], int], list[ReplyPlace]]:
        places: dict[tuple[frozenset[str], int], list[ReplyPlace]] = defaultdict(list)
        for number, turns in enumerate(self.replies):
            for order, turn in enumerate(turns if self._domains[number] else ()):
                places[self._domains[number], order].append(ReplyPlace(number, turn))
        return places

    @functools.cached_property
    def _keys(self) -> dict[ReplyPlace, Hashable]:
        return {place: key for place in self._all if (key := _state_key(self.dialogues[place[0]], place[1]))}

    @functools.cached_property
    def _by_state(self) -> dict[Hashable, list[ReplyPlace]]:
        places: dict[Hashable, list[ReplyPlace]] = defaultdict(list)
        for place, key in self._keys.items():
            places[key].append(place)
        return places

    @functools.cached_property
    def _telling(self) -> list[list[str]]:
        """Return the rare words of each dialogue, or the `topic` in its meta."""
        words = [_words(dialogue) for dialogue in self.dialogues]
        shared = Counter(word for vocabulary in words for word in vocabulary)
        most = max(2, len(words) // 50)
        rare = [
            sorted((w for w in vocabulary if 1 < shared[w] <= most), key=lambda w: (shared[w], w))
            for vocabulary in words
        ]
        topics = [dialogue.meta.get("topic") for dialogue in self.dialogues]
        return [
            [f"topic {topic}"] if isinstance(topic, str) and topic else vocabulary[:_TELLING]
            for topic, vocabulary in zip(topics, rare, strict=True)
        ]

    @functools.cached_property
    def _by_word(self) -> dict[str, list[int]]:
        numbers: dict[str, list[int]] = defaultdict(list)
        for number, words in enumerate(self._telling):
            for word in words if self.replies[number] else ():
                numbers[word].append(number)
        return numbers

    def _alike(self, number: int) -> list[int]:
        counts = Counter(candidate for word in self._telling[number] for candidate in self._by_word[word])
        counts.pop(number, None)
        if self._telling[number][:1] and self._telling[number][0].startswith("topic "):
            return sorted(counts)
        return [
            candidate
            for candidate, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_ALIKE]
        ]


def draws_of(name: str) -> Chance:
    """Return a random generator seeded by a name.

    >>> int(draws_of("any").integers(1000))
    706
    """
    return np.random.default_rng(
        int.from_bytes(hashlib.sha256(name.encode("utf-8", "replace")).digest()[:8], "big")
    )


def _one(values: Sequence[T], chance: Chance) -> T:
    return values[int(chance.integers(len(values)))]


def _words(dialogue: Dialogue) -> set[str]:
    return {word for turn in dialogue.turns if takes_part(turn) for word in _WORD.findall(turn.text.lower())}


def _state_key(dialogue: Dialogue, turn: int) -> Hashable:
    """Return acts and slots of a reply without values; the state may be at the turn before."""
    acts = dialogue.turns[turn].meta.get("acts")
    states = [place.meta.get("state") for place in (dialogue.turns[turn], dialogue.turns[turn - 1])]
    state = next((state for state in states if state), None)
    if not isinstance(acts, Mapping | Sequence) or isinstance(acts, str) or not acts:
        return None
    return _VERSION.sub("", f"{_slots(acts, 2)}|{_slots(state, 9)}".lower())


def _slots(value: Any, depth: int) -> str:
    """Return an annotation without values: keys of mappings, all but the last item of lists."""
    if isinstance(value, Mapping):
        return ",".join(
            sorted(f"{name}({_slots(value[name], depth)})" for name in value if name != "requested")
        )
    if isinstance(value, Sequence) and not isinstance(value, str):
        if all(isinstance(entry, Sequence) and not isinstance(entry, str) for entry in value):
            return ",".join(sorted(":".join(map(str, entry[:-1])) for entry in value))
        return ",".join(sorted(map(str, value))) if depth == 2 else ""
    return ""
