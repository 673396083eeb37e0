"""What a task-oriented dialogue is about: from its annotation, or else from what its user asks for."""

import re
from collections.abc import Mapping, Sequence

from dialeval.dialogues.dialogue import Dialogue, takes_part

_VERSION = re.compile(r"_\d+$")
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
    """Name the domains of a dialogue: those in the meta of its turns, or what its user speaks of.

    A service with a number (`Events_2`) is of the domain without it.

    >>> from dialeval.dialogues import Turn, dialogue
    >>> sorted(domains_of(dialogue([("user", "A hotel, please, and a taxi to it."), ("assistant", "Ok.")])))
    ['hotel', 'taxi']
    >>> sorted(domains_of(dialogue([Turn("user", "A hotel.", {"domain": ["Hotels_4"]})])))
    ['hotels']
    """
    named = {name for turn in dialogue.turns for name in _named(turn.meta.get("domain"))}
    return frozenset(named or _heard(dialogue))


def _named(value: object) -> list[str]:
    given = [value] if isinstance(value, str) else value if isinstance(value, Sequence) else ()
    return [_VERSION.sub("", name.lower()) for name in given if isinstance(name, str) and name]


def _heard(dialogue: Dialogue) -> set[str]:
    users = [turn.text for turn in dialogue.turns if takes_part(turn) and turn.speaker != "assistant"]
    return {name for name, words in _PATTERNS.items() if any(words.search(text) for text in users)}
