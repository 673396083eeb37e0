"""Windows of the evidence: the parts of passages and tool results that a reply is read with.

Windows are ranked by the words and numbers that they share with the reply, rare ones counting more; nothing
is encoded for it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

_LONGEST = 340  # characters of a window: about a hundred tokens
_MOST = 400  # windows of all passages
_READ = 2  # windows that a text is read with
_LONGEST_PASSAGE = 200_000  # characters
_PIECE = re.compile(r"[^.!?;,|}\n]{1,160}(?:[.!?;,|}\n]+\s*)?|[.!?;,|}\n]+\s*")
_WORD = re.compile(r"\w+")


def content_words(text: str) -> list[str]:
    """Return the numbers and the longer words of a text, in lower case."""
    return [word for word in _WORD.findall(text.lower()) if len(word) > 3 or word[0].isdigit()]


def windows(passages: Iterable[str]) -> list[str]:
    """Cut passages into windows that end with a sentence, line, cell or field.

    >>> [len(window) for window in windows(["seats: 4, price: 12.50; " * 40])]
    [335, 335, 287]
    """
    cut: list[str] = []
    for passage in passages:
        cut += _windows(passage[:_LONGEST_PASSAGE])
        if len(cut) >= _MOST:
            break
    return cut[:_MOST]


def _windows(passage: str) -> Iterator[str]:
    held = ""
    for piece in _PIECE.findall(passage):
        if held and len(held) + len(piece) > _LONGEST:
            yield held.strip()
            held = ""
        held += piece
    if held.strip():
        yield held.strip()


class WindowChooser:
    """Finds the windows of the evidence that share most words with a text."""

    def __init__(self, passages: Iterable[str]) -> None:
        self._windows = windows(passages)
        self._bags = [frozenset(content_words(window)) for window in self._windows]
        self._counts = Counter(word for bag in self._bags for word in bag)

    @property
    def covered(self) -> float:
        """The share of the evidence that is read with a text."""
        return min(1.0, _READ / max(1, len(self._windows)))

    def nearest(self, text: str, most: int = _READ) -> list[str]:
        """Return the best windows, in their order in the evidence.

        >>> chooser = WindowChooser(["The fee is 12 euros.", "Dogs are welcome.", "Rooms close at noon."])
        >>> chooser.nearest("It costs 12 euros, and dogs may come.")
        ['The fee is 12 euros.', 'Dogs are welcome.']
        """
        wanted = set(content_words(text))
        shared = [sum(1.0 / self._counts[word] for word in bag & wanted) for bag in self._bags]
        best = sorted(range(len(shared)), key=lambda place: (-shared[place], place))[:most]
        return [self._windows[place] for place in sorted(best)]


def nearest_windows(passages: Sequence[str], text: str) -> list[str]:
    """Return the windows of passages that a text is read with."""
    return WindowChooser(passages).nearest(text)
