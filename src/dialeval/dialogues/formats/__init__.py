"""The formats dialogues come in: `read` opens any source, `write` writes three of them."""

from dialeval.dialogues.formats.opening import public_part, read, source_files
from dialeval.dialogues.formats.reading import known_formats
from dialeval.dialogues.formats.records import RecordShape
from dialeval.dialogues.formats.tables import TurnColumns
from dialeval.dialogues.formats.writing import write

__all__ = ["RecordShape", "TurnColumns", "known_formats", "public_part", "read", "source_files", "write"]
