"""How a wish in words fits a cell of a table: equal, close in spelling, at least or at most."""

import functools
import re

_TIME = re.compile(r"(\d{1,2})\s*[:.]\s*(\d{2})(?!\d)")
_COMPACT = re.compile(r"(?<!\d)(\d{1,2})(\d{2})(?!\d)")
_HOUR = re.compile(r"\d{1,2}")
_EXACT = re.compile(r"(\d\d):(\d\d)")
_HALF = re.compile(r"([ap])\.?\s?m\b\.?")
_PARTS_OF_DAY = {
    "morning": 8 * 60,
    "noon": 12 * 60,
    "mid-day": 12 * 60,
    "lunch": 12 * 60,
    "afternoon": 13 * 60,
}
CLOSE = 0.9  # the share of a shorter text that must be found in a longer one


def plain(text: str) -> str:
    """Write a value in one way: lower case, single blanks, `and` for `&`, no blank before an apostrophe.

    >>> plain(" Rosa 's  B&B ")
    "rosa's b and b"
    """
    return " ".join(text.lower().replace("&", " and ").replace(" '", "'").split())


def minutes(text: str, exact: bool = False) -> int | None:
    """Read a time of day as minutes after midnight; None if there is none, or not HH:MM where it must be.

    >>> [minutes(text) for text in ("17:15", "after 5:15 pm", "9", "1730", "lunch", "soon")]
    [1035, 1035, 540, 1050, 720, None]
    >>> minutes("after 5:15 pm", exact=True) is None
    True
    """
    if exact:
        found = _EXACT.fullmatch(text)
        return int(found[1]) * 60 + int(found[2]) if found else None
    if found := _TIME.search(text) or _COMPACT.search(text):
        hour, minute = int(found[1]), int(found[2])
    elif found := _HOUR.search(text):
        hour, minute = int(found[0]), 0
    else:
        return next((at for words, at in _PARTS_OF_DAY.items() if words in text), None)
    half = _HALF.search(text, found.end())
    if half and half[1] == "p" and hour < 12:
        hour += 12
    return hour * 60 + minute


def number(text: str) -> float | None:
    """Read the first number of a text.

    >>> number("23.60 pounds"), number("many")
    (23.6, None)
    """
    found = re.search(r"-?\d+(?:\.\d+)?", text)
    return float(found[0]) if found else None


def closeness(one: str, other: str) -> float:
    """Return how much of the shorter text stands, in order, in the best stretch of that length of the longer.

    >>> closeness("gandhi", "the gandhi"), closeness("", "pub")
    (1.0, 0.0)
    >>> round(closeness("city center", "city centre"), 3)
    0.909
    """
    short, long = (one, other) if len(one) <= len(other) else (other, one)
    if not short or short in long:
        return float(bool(short))
    size, places = len(short), _places(short)
    stretches = (long[at : at + size] for at in range(len(long) - size + 1))
    return max(_in_order(places, size, stretch) for stretch in stretches) / size


def close(one: str, other: str) -> bool:
    """Say whether two texts are close; a look at the longer one as a whole spares most comparisons.

    >>> close("city center", "city centre"), close("city centre", "river bar")
    (True, False)
    """
    short, long = (one, other) if len(one) <= len(other) else (other, one)
    if not short or short in long:
        return bool(short)
    return (
        _in_order(_places(short), len(short), long) >= CLOSE * len(short) and closeness(one, other) >= CLOSE
    )


@functools.lru_cache(maxsize=4096)
def _places(text: str) -> dict[str, int]:
    """Note where each letter stands, as bits."""
    places: dict[str, int] = {}
    for place, letter in enumerate(text):
        places[letter] = places.get(letter, 0) | 1 << place
    return places


def _in_order(places: dict[str, int], size: int, text: str) -> int:
    """Count the letters of the longest common subsequence, all rows of the usual table in one number."""
    row = full = (1 << size) - 1
    for letter in text:
        if match := row & places.get(letter, 0):
            row = ((row + match) | (row - match)) & full
    return size - row.bit_count()
