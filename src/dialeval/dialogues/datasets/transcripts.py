"""Transcripts as one string: cut at the speakers' prefixes, and named by a hash of the text as published."""

import hashlib
import re
from collections.abc import Mapping

from dialeval.errors import DataError


def spoken(text: str, speakers: Mapping[str, str]) -> list[tuple[str, str | None]]:
    r"""Split a transcript at its speaker prefixes; a line without one continues the line before.

    Only the prefix and one blank after it are taken away. `speakers` maps the prefix to our role.

    >>> spoken("User: hi\nSystem:  well,\n\nhello", {"User": "user", "System": "assistant"})
    [('user', 'hi'), ('assistant', ' well,\n\nhello')]
    """
    prefix = re.compile(f"({'|'.join(map(re.escape, speakers))}): ?")
    turns: list[tuple[str, list[str]]] = []
    for line in text.split("\n"):
        if found := prefix.match(line):
            turns.append((speakers[found[1]], [line[found.end() :]]))
        elif turns:
            turns[-1][1].append(line)
        else:
            known = " or ".join(f"{name}:" for name in speakers)
            raise DataError(f"nobody says the first line, {line[:40]!r}", fix=f"it begins with {known}")
    return [(speaker, "\n".join(lines)) for speaker, lines in turns]


def digest(text: str) -> str:
    """Return the 12 hexadecimal digits (SHA-1) that name a dialogue by its text as published.

    >>> digest("User: hi")
    'd0bbd1c16aba'
    """
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()[:12]


def unused(name: str, taken: set[str]) -> str:
    """Return an id that is not taken yet, and take it: the same text once more becomes `…-2`.

    >>> taken = {"d1"}
    >>> unused("d1", taken), unused("d1", taken), unused("d2", taken)
    ('d1-2', 'd1-3', 'd2')
    """
    fresh, number = name, 1
    while fresh in taken:
        number += 1
        fresh = f"{name}-{number}"
    taken.add(fresh)
    return fresh
