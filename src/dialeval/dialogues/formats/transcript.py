"""Plain text: `User:` and `System:` lines, dialogues apart by a blank line."""

import re
from collections.abc import Iterator
from pathlib import Path

from dialeval import files
from dialeval.dialogues.dialogue import Dialogue, Turn, clean_turn
from dialeval.dialogues.formats.records import role
from dialeval.errors import DataError

_PREFIX = re.compile(r"\s{0,3}([^\W\d_][\w .'-]{0,30}?)\s?:(?: |$)")


def read_text(path: str | Path) -> Iterator[tuple[int, Dialogue]]:
    """Yield the dialogues of a transcript.

    A line without a speaker continues the line before; here `System:` is the bot. Blank lines part
    dialogues, so an empty turn is written as a speaker with nothing behind the colon.
    """
    turns: list[Turn] = []
    begin = 1
    with files.open_binary(path) as file:
        for number, raw in enumerate(file, 1):
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"not UTF-8: {error.reason}", file=path, line=number, fix="save it as UTF-8"
                ) from None
            if not line.strip():
                if turns:
                    yield begin, Dialogue("", tuple(turns))
                turns = []
                continue
            if not turns:
                begin = number
            match = _PREFIX.match(line)
            if match:
                name = match[1]
                speaker = "assistant" if name.strip().lower() == "system" else role(name)
                turns.append(clean_turn(speaker, line[match.end() :]))
            elif turns:
                last = turns.pop()
                turns.append(clean_turn(last.speaker, f"{last.text}\n{line}"))
            else:
                raise DataError(
                    "a dialogue begins without a speaker", file=path, line=number, fix="User: … or System: …"
                )
    if turns:
        yield begin, Dialogue("", tuple(turns))
