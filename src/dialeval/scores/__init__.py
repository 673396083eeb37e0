"""Scores: the one table that metrics and people both write, and studies read.

A row says: this source gave this value for this dimension of this turn (or of the whole dialogue).
Human ratings and metric scores are rows of the same kind; a rater is the source `human:<rater>`.
A null value with a note is *unscored*; NaN never appears. Each source carries its `Signature`.
"""

from dialeval.scores.columns import ColumnMap, read_columns
from dialeval.scores.signature import Signature
from dialeval.scores.table import FAULT_SOURCES, SCHEMA, Score, Scores, is_fault, is_human, overall_first

__all__ = [
    "FAULT_SOURCES",
    "SCHEMA",
    "ColumnMap",
    "Score",
    "Scores",
    "Signature",
    "is_fault",
    "is_human",
    "overall_first",
    "read_columns",
]
