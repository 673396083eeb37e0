"""Finding utterances in the candidate list."""

import re
from collections.abc import Collection, Sequence

_WORD = re.compile(r"\w+")


def find(
    candidates: Sequence[str], query: str, marked: Collection[str] = (), most: int = 300
) -> list[tuple[int, str]]:
    """Return (number, utterance): what is marked already, then what has most of the words of the query.

    A word of the query may be the beginning of a word of the utterance. Without a query everything fits.

    >>> find(["Where is it?", "Hello there!", "It is here."], "here is")
    [(2, 'It is here.'), (0, 'Where is it?')]
    """
    words = [word.casefold() for word in _WORD.findall(query)]
    first, rest = [], []
    for number, text in enumerate(candidates):
        if str(number) in marked:
            first.append((number, text))
            continue
        parts = _WORD.findall(text.casefold()) if words else []
        hits = sum(any(part.startswith(word) for part in parts) for word in words)
        if hits or not words:
            rest.append((-hits, number, text))
    rest.sort(key=lambda one: one[:2])
    return [*first, *((number, text) for _, number, text in rest)][: max(most, len(first))]
