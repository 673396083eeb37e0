"""Delexicalisation: `[value]` in place of names, numbers and times.

Systems for task-oriented dialogue are compared on replies in which values are placeholders, and each spells
them differently: `[value_name]`, `[hotel_name]`, `[name]`; some keep numbers or days. A scorer that saw those
spellings would judge the spelling. So every placeholder becomes the same mark, and in plain text so do
annotated values and whatever looks like one: numbers, times, codes, days, parts of town, prices, and
capitalised names inside a sentence.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from dialeval.dialogues.dialogue import Dialogue, Turn, scored_turns

MARK = "[value]"
_NO_VALUES = (
    "",
    "?",
    "none",
    "yes",
    "no",
    "true",
    "false",
    "free",
    "dontcare",
    "do n't care",
    "not mentioned",
)
_NO_SLOTS = ("internet", "parking", "none")
_BRACKETS = re.compile(r"\[[^\[\]]{1,80}\]")
_SHAPES = re.compile(
    r"\b\d{1,2}\s?[:.]\s?\d{2}(\s?[ap]\.?m\b\.?)?|\b\d{1,2}\s?[ap]\.?m\b\.?"  # times
    r"|\(?\b\d[\d) -]{6,}\d\b"  # telephone numbers
    r"|\b[a-z]{2}\d{1,2}\s?,?\s?\d[a-z]{2}\b"  # postcodes
    r"|\b(?=[a-z]*\d)(?=\d*[a-z])[a-z\d]{5,}\b"  # references, numbers of trains
    r"|([£$€]\s?)?\b\d+([.,]\d+)*(st|nd|rd|th)?\b(\s?(pounds?|gbp|dollars)\b)?"
    r"|\b(two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b"
    r"|\b(mon|tues|wednes|thurs|fri|satur|sun)day\b"
    r"|\b(january|february|march|april|june|july|august|september|october|november|december)\b"
    r"|\b(north|south|east|west|centre|center)\b"
    r"|\b(cheap|moderate(ly)?|expensive)(?=\b)",
    re.IGNORECASE,
)
_WORD = r"(?!I\b|I'|OK\b|TV\b|Wi)[A-Z][\w'&-]*"
_MORE = rf"\s((of|and|the|at|de|la|on|in|for|&)\s)?{_WORD}"
_NAMES = re.compile(rf"(?<=[\w,;)\]'\"] ){_WORD}({_MORE})*|(^|(?<=[.?!] )){_WORD}({_MORE})+")
_SPLIT_WORDS = re.compile(r"\s+(n't|'s|'m|'re|'ve|'ll|'d)\b|\s+-(s|ly)\b")
_BEFORE_STOPS = re.compile(r"\s+([.,?!;:])")
_TWICE = re.compile(rf"({re.escape(MARK)})(-?(s|ly)\b)?([ ,-]+{re.escape(MARK)}(-?(s|ly)\b)?)*")


def delexicalise(text: str, values: Sequence[str] = ()) -> str:
    """Return a text in lower case, with one mark for every value in it.

    Args:
        text: A reply, with placeholders of any spelling or with the values themselves.
        values: Values that occur in it, as far as known.

    >>> delexicalise("[hotel_name] is a [value_price] hotel . it does n't have [value_count] stars .")
    "[value] is a [value] hotel. it doesn't have [value] stars."
    >>> delexicalise("I booked the Red Lion for 3 nights from Friday, ref 4UFN3SWC.")
    'i booked the [value] for [value] nights from [value], ref [value].'
    """
    marked = _BRACKETS.sub(MARK, text)
    if alternatives := "|".join(map(re.escape, sorted(set(values) - {""}, key=len, reverse=True))):
        marked = re.sub(rf"(?<![\w\[])({alternatives})(?=s?(?!\w))", MARK, marked, flags=re.IGNORECASE)
    if not marked.isupper() and not marked.islower():
        marked = _NAMES.sub(MARK, marked)
    marked = _SHAPES.sub(MARK, marked).lower()
    marked = _BEFORE_STOPS.sub(
        r"\1", _SPLIT_WORDS.sub(lambda match: match[0].strip().removeprefix("-"), marked)
    )
    return " ".join(_TWICE.sub(MARK, marked).split())


def values_in(turn: Turn) -> list[str]:
    """Return the values in the annotation of a turn: in its `acts`, and by place in its `slots`.

    >>> values_in(Turn("assistant", "The Eagle is cheap.", {"acts": {"Inform": [["Name", "The Eagle"]]}}))
    ['The Eagle']
    """
    acts, spans = turn.meta.get("acts"), turn.meta.get("slots")
    values = [text for entry in _each(acts) for text in _values(entry)]
    values += [
        turn.text[entry[1] : entry[2]]
        for entry in _each(spans)
        if isinstance(entry, Sequence) and len(entry) == 3 and all(type(end) is int for end in entry[1:])
    ]
    return [text for text in dict.fromkeys(values) if len(text) > 1 or text.isdigit()]


def _each(column: object) -> Iterator[Any]:
    columns = column.values() if isinstance(column, Mapping) else [column]
    for entries in columns:
        if isinstance(entries, Sequence) and not isinstance(entries, str):
            yield from entries


def _values(act: object) -> Iterator[str]:
    """Yield the values of an act, `[slot, value]` in MultiWOZ and `[act, slot, [values]]` in SGD."""
    if not isinstance(act, Sequence) or isinstance(act, str) or len(act) not in (2, 3):
        return
    slot, values = act[-2], act[-1]
    for value in [values] if isinstance(values, str) else values if isinstance(values, Sequence) else ():
        if isinstance(value, str) and value.lower() not in _NO_VALUES and str(slot).lower() not in _NO_SLOTS:
            yield value.strip()


def delexicalised(dialogue: Dialogue, speaker: str | None = None) -> Dialogue:
    """Return a dialogue whose replies have no values; user turns stay as they are.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "A train at 9:15?"), ("assistant", "TR2385 leaves at 9:15.")])
    >>> [turn.text for turn in delexicalised(chat).turns]
    ['A train at 9:15?', '[value] leaves at [value].']
    """
    speakers = {dialogue.turns[number].speaker for number in scored_turns(dialogue, speaker)}
    turns = [
        msgspec.structs.replace(turn, text=delexicalise(turn.text, values_in(turn)))
        if turn.speaker in speakers
        else turn
        for turn in dialogue.turns
    ]
    return msgspec.structs.replace(dialogue, turns=tuple(turns))
