"""A metric that can say why, small enough to check by hand: how many pieces line up with one set dialogue."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from dialeval.dialogues import Dialogue, Turn
from dialeval.metrics import registry
from dialeval.metrics.explanation import Explanation, Side, align
from dialeval.metrics.registry import Rows, metric
from dialeval.scores import Scores

NAME = "toyflow.v1"
SAID = (
    ("A", "Hello there! How are you today?"),
    ("B", "I am well. I went to the lake. And you?"),
    ("A", "Not bad. Thanks for asking!"),
)


def label(text: str) -> str:
    if "?" in text:
        return "question"
    first = re.match(r"\W*(\w*)", text)[1].lower()  # type: ignore[index]
    return {"hello": "greeting", "hi": "greeting", "hey": "greeting", "thanks": "thanking"}.get(
        first, "inform"
    )


def labelled(said: Dialogue) -> Dialogue:
    turns = []
    for turn in said.turns:
        texts = re.findall(r"[^.!?]+[.!?]*", turn.text)
        segments = [{"text": text, "act": label(text)} for text in texts]
        turns.append(Turn(turn.speaker, turn.text, {"segments": segments}))
    return Dialogue(said.id, tuple(turns), said.system)


REFERENCE = Side.of(labelled(Dialogue("lake-1", tuple(Turn(*one) for one in SAID))))


def explanation(said: Dialogue, source: str = "toyflow") -> Explanation:
    own = Side.of(labelled(said))
    pairs = align(own.labels, REFERENCE.labels)
    longest = max(len(own.labels), len(REFERENCE.labels))
    parts = {"acts": len(pairs) / longest, "length": len(own.labels) / longest}
    value = sum(parts.values()) / 2 if own.labels else None
    note = None if own.labels else "nothing was said"
    return Explanation(said.id, source, value, parts, own, REFERENCE, pairs, note, "overall")


def register() -> type[Any]:
    @metric(NAME)
    @dataclass(frozen=True)
    class ToyFlow:
        """Share of pieces that line up with a set dialogue."""

        weight: float = 1.0
        dimensions: ClassVar[tuple[str, ...]] = ("overall",)

        def score(self, dialogues: Iterable[Dialogue]) -> Scores:
            rows = Rows(self)
            for said in dialogues:
                found = explanation(said)
                rows.add(said, None, "overall", found.value, found.note)
            return rows.scores()

        def explain(self, dialogues: Sequence[Dialogue]) -> list[Explanation]:
            return [explanation(said) for said in dialogues if said.turns]

    return ToyFlow


@contextmanager
def registered() -> Iterator[None]:
    """Have the metric for a while, and leave the registry to other tests as it was."""
    register()
    try:
        yield
    finally:
        registry._REGISTERED.pop(NAME, None)
