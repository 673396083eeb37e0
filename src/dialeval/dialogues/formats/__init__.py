"""The formats dialogues come in: found by the first record, read as a stream, written as three of them."""

from dialeval.dialogues.formats.reading import FORMATS, read
from dialeval.dialogues.formats.tables import TurnColumns
from dialeval.dialogues.formats.writing import write

__all__ = ["FORMATS", "TurnColumns", "read", "write"]
