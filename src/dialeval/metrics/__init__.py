"""Metrics: dialogues in, Scores out. A metric is a frozen dataclass with one method.

>>> from dialeval.dialogues import dialogue
>>> chat = dialogue([("user", "Hi!"), ("assistant", "Hello there, hello there, hello there.")], "d1")
>>> [(row.turn, row.dimension, round(row.value, 2)) for row in build("repetition:n=2").score([chat])]
[(1, 'repetition', 0.5), (None, 'repetition', 0.5)]
"""

from dialeval.metrics.registry import (
    DEFAULT_METRICS,
    Better,
    Metric,
    Rows,
    build,
    chunks,
    describe,
    metric,
    metric_names,
    needs_of,
    parse_spec,
    score,
    signature_of,
)

__all__ = [
    "DEFAULT_METRICS",
    "Better",
    "Metric",
    "Rows",
    "build",
    "chunks",
    "describe",
    "metric",
    "metric_names",
    "needs_of",
    "parse_spec",
    "score",
    "signature_of",
]
