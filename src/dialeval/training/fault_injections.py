"""Faults that programs put into good replies: another number, a negation, an insult, word salad.

Every function takes a text and chance, and returns the changed text, or None where it finds nothing to
change. The words, in
`fault_injections.toml`, are our own.
"""

import random
import re
import tomllib
from importlib import resources
from typing import Any

Chance = random.Random
_LISTS: dict[str, Any] = tomllib.loads(
    resources.files("dialeval.training").joinpath("fault_injections.toml").read_text("utf-8")
)
PLEASANTRIES: list[str] = _LISTS["pleasantries"]
"""What is said in place of an answer."""
COMPLAINTS: dict[str, list[str]] = _LISTS["complaints"]
"""What users say next, by fault."""
COLD: list[str] = _LISTS["cold"]
"""What is cold to somebody who is troubled."""

_OTHERS = {
    word.lower(): tuple(one for one in group.split() if one != word)
    for group in _LISTS["others"]
    for word in group.split()
}
_WORD = re.compile(r"[A-Za-z][A-Za-z-]*|\d+(?:[.:]\d+)?")


def _spelled(word: str, like: str) -> str:
    return word.capitalize() if like[0].isupper() else word.lower() if like.islower() else word


def change_value(text: str, chance: Chance, only: set[str] | None = None) -> str | None:
    """Put another number, day, place or the like in the place of one; `only` says which may be replaced."""
    found = [
        one
        for one in _WORD.finditer(text)
        if (one.group()[0].isdigit() or one.group().lower() in _OTHERS)
        and (only is None or one.group().lower() in only)
    ]
    if not found:
        return None
    one = chance.choice(found)
    word = one.group()
    if word[0].isdigit():
        fresh = re.sub(r"\d+", lambda part: _other_number(part.group(), chance), word, count=1)
    else:
        fresh = _spelled(chance.choice(_OTHERS[word.lower()]), word)
    return text[: one.start()] + fresh + text[one.end() :]


def _other_number(digits: str, chance: Chance) -> str:
    if len(digits) > 4:  # a code or a telephone number: other digits
        return "".join(chance.choice("0123456789") for _ in digits)
    value = int(digits)
    return str(chance.choice([other for other in range(max(0, value - 9), value + 12) if other != value]))


def values(text: str) -> set[str]:
    """Return the words of a text that `change_value` could replace.

    >>> sorted(values("Two tickets for Friday at 9:30, please."))
    ['9:30', 'friday', 'two']
    """
    words = {one.group().lower() for one in _WORD.finditer(text)}
    return {word for word in words if word[0].isdigit() or word in _OTHERS}


_NEGATIONS = tuple((re.compile(rf"\b{old}\b", re.IGNORECASE), fresh) for old, fresh in _LISTS["negations"])


def negate(text: str, chance: Chance) -> str | None:
    """Put a negation in, or take one out."""
    if text.rstrip().endswith("?"):
        return None
    for pattern, fresh in _NEGATIONS:
        if found := pattern.search(text):
            return text[: found.start()] + _capital(fresh, found.group()) + text[found.end() :]
    return None


def _capital(fresh: str, like: str) -> str:
    return fresh[0].upper() + fresh[1:] if like[0].isupper() else fresh


_SYNONYMS = {
    word: tuple(one.replace("_", " ") for one in group.split() if one != word)
    for group in _LISTS["synonyms"]
    for word in group.split()
    if "_" not in word
}


def paraphrase(text: str, chance: Chance) -> str:
    """Say the same again: other words, another order of sentences, a phrase before or after it."""
    parts = re.split(r"(?<=[.!?])\s+", text.strip())
    if len(parts) > 1 and chance.random() < 0.4:
        chance.shuffle(parts)
    said = " ".join(parts)
    for short, long in _LISTS["contractions"]:
        if chance.random() < 0.5:
            said = said.replace(short, long) if short in said else said.replace(long, short)

    def other(found: re.Match[str]) -> str:
        word = found.group()
        if word.lower() in _SYNONYMS and chance.random() < 0.7:
            return _capital(chance.choice(_SYNONYMS[word.lower()]), word)
        return word

    said = _WORD.sub(other, said)
    lead = chance.choice(_LISTS["leads"]) if chance.random() < 0.5 else ""
    return lead + said + str(chance.choice(_LISTS["tails"]))


_PERSONS: dict[str, str] = dict(_LISTS["persons"])
_FIRST = re.compile(r"\b(" + "|".join(sorted(_PERSONS, key=len, reverse=True)) + r")\b", re.IGNORECASE)


def to_you(text: str) -> str | None:
    """Say of the listener what the speaker said of himself; None where he said nothing of himself.

    >>> to_you("I never had a dog, and my sister has none.")
    'You never had a dog, and your sister has none.'
    """
    made = _FIRST.sub(lambda found: _PERSONS[found.group().lower()], text)
    return None if made == text else made[0].upper() + made[1:]


def salad(text: str, chance: Chance) -> str | None:
    """Make no language of a text: its words in any order, or letters, or one word over and over."""
    words = text.split()
    if len(words) < 4:
        return None
    how = chance.random()
    if how < 0.55:
        chance.shuffle(words)
        return " ".join(words)
    if how < 0.7:
        return " ".join("".join(chance.sample(word, len(word))) for word in words)
    if how < 0.85:
        return " ".join([chance.choice(words)] * chance.randint(4, 12))
    kept = [word for word in words if chance.random() < 0.5] + chance.sample(words, min(3, len(words)))
    chance.shuffle(kept)
    return " ".join(kept)


def insult(text: str, chance: Chance) -> str:
    """Put an insult before, into or after a reply."""
    parts = re.split(r"(?<=[.!?])\s+", text.strip())
    parts.insert(chance.randint(0, len(parts)), chance.choice(_LISTS["insults"]))
    return " ".join(parts)


def told_and_forgotten(chance: Chance) -> tuple[str, str, float]:
    """Return what a user says, a reply, and whether the reply forgets or denies it (1) or not (0)."""
    facts = _LISTS["facts"]
    number = chance.randrange(len(facts))
    fact = facts[number]
    told, kept, denied, again = (chance.choice(fact[name]) for name in ("told", "kept", "denied", "again"))
    pool = fact.get("fillers") or [str(chance.randint(fact["least"], fact["most"])) for _ in range(2)]
    one, other = chance.sample(list(dict.fromkeys(pool)) * (2 if len(set(pool)) < 2 else 1), 2)
    fault = chance.random() < 0.6
    reply = (again if chance.random() < 0.5 else denied) if fault else kept
    if not fault and chance.random() < 0.35:  # asks for something that was not told
        place = chance.choice([place for place in range(len(facts)) if place != number])
        reply = chance.choice(facts[place]["again"])
    return told.format(one), reply.format(one, other), float(fault)
