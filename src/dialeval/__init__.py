"""How good is a dialogue system, and how far can each automatic number be trusted?

    import dialeval

    scores = dialeval.score("chats.jsonl", ["repetition", "length"])  # or messages, a data frame, …
    ratings = dialeval.Scores.read("ratings.csv")
    print(dialeval.study(dialeval.Scores.concat([scores, ratings])))

Names are imported when they are used, so that `import dialeval` costs nothing.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from dialeval.dialogues.datasets import public_set
    from dialeval.dialogues.dialogue import Dialogue, Turn, dialogue
    from dialeval.dialogues.formats import read, write
    from dialeval.jobs.comparing import assert_no_drop, compare
    from dialeval.jobs.reporting import write_report
    from dialeval.metrics import metric, score
    from dialeval.scores import Scores
    from dialeval.studies import study

_HOMES = {
    "Dialogue": "dialogues",
    "Scores": "scores",
    "Turn": "dialogues",
    "assert_no_drop": "jobs.comparing",
    "compare": "jobs.comparing",
    "dialogue": "dialogues",
    "metric": "metrics",
    "public_set": "dialogues.datasets",
    "read": "dialogues.formats",
    "score": "metrics",
    "study": "studies",
    "write": "dialogues.formats",
    "write_report": "jobs.reporting",
}
__all__ = [
    "Dialogue",
    "Scores",
    "Turn",
    "assert_no_drop",
    "compare",
    "dialogue",
    "metric",
    "public_set",
    "read",
    "score",
    "study",
    "write",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dialeval' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"dialeval.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
