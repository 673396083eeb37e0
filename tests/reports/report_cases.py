"""Studies to report on: ordinary ones of any size, and hostile ones with a payload in every string."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from dialeval.dialogues import Dialogue, Turn
from dialeval.metrics.explanation import Explanation
from dialeval.metrics.rules import Rules
from dialeval.reports import explain, to_html
from dialeval.scores import Score, Scores, Signature
from dialeval.studies import Study, inspect, study

QUICK: dict[str, Any] = {"resamples": 20, "permutations": 20}


def talk(name: str, system: str | None, turns: int = 6) -> Dialogue:
    said = [
        Turn("user" if n % 2 == 0 else "assistant", f"Turn {n} of {name}, which says a little.")
        for n in range(turns)
    ]
    return Dialogue(name, tuple(said), system)


def chat(name: str, *texts: str, system: str | None = "bot") -> Dialogue:
    turns = [Turn("assistant" if place % 2 else "user", text) for place, text in enumerate(texts)]
    return Dialogue(name, tuple(turns), system)


def quality(values: dict[tuple[str, int], float | None], system: str | None = "bot") -> Scores:
    """Scores of turns, in the one dimension that triage prefers."""
    rows = [
        Score(name, turn, system, "mine", "quality", value, None if value is not None else "empty")
        for (name, turn), value in values.items()
    ]
    return Scores.of(rows, {"mine": Signature("mine.v1")})


def ordinary(n: int, *, sources: int = 3, raters: int = 3, systems: int = 2, seed: int = 0) -> Scores:
    """Ratings of dialogues, and sources that follow them more or less closely; turn scores for the first."""
    random = np.random.default_rng(seed)
    ids = [f"d{number:06}" for number in range(n)]
    names = [f"bot-{number % systems}" for number in range(n)]
    quality = random.normal(size=n)
    columns: list[list[Any]] = [[] for _ in range(7)]

    def add(
        source: str, dimension: str, values: Sequence[float], turn: int | None = None, note: str | None = None
    ) -> None:
        for column, part in zip(
            columns,
            (
                ids,
                [turn] * n,
                names,
                [source] * n,
                [dimension] * n,
                [None if np.isnan(value) else float(value) for value in values],
                ["empty" if np.isnan(value) else note for value in values],
            ),
            strict=True,
        ):
            column.extend(part)

    for rater in range(raters):
        rating = np.clip(np.round(quality + random.normal(scale=0.7, size=n) + 3), 1, 5)
        add(f"human:r{rater}", "overall", rating)
    for source in range(sources):
        values = quality + random.normal(scale=0.5 + source, size=n)
        values[:: max(5, n // 3)] = np.nan
        add(f"metric-{source}", "score", values)
    for turn in (1, 3, 5):
        add("metric-0", "turn score", random.normal(size=n), turn)
    signatures = {f"metric-{source}": Signature(f"metric-{source}.v1") for source in range(sources)}
    return Scores.from_columns(columns, signatures)


def opposite(n: int, *, rated: bool = True) -> Scores:
    """Turn scores of one source: where a dialogue is good, `self` is low, `user` and `length` are high."""
    random = np.random.default_rng(2)
    rows = []
    for number in range(n):
        name, system, quality = f"d{number:06}", f"bot-{number % 2}", number % 2 + random.normal(scale=0.3)
        if rated:
            rows.append(Score(name, None, system, "human:r", "overall", quality))
        for turn in (1, 3, 5):
            for dimension, sign in (("self", -1), ("user", 1), ("length", 1)):
                value = sign * (quality + random.normal(scale=0.1))
                rows.append(Score(name, turn, system, "two", dimension, value))
    return Scores.of(rows, {"two": Signature.parse("two.v1|better:length=neither,self=lower")})


def talks(n: int, systems: int = 2, turns: int = 6) -> Iterator[Dialogue]:
    return (talk(f"d{number:06}", f"bot-{number % systems}", turns) for number in range(n))


def hostile(payloads: Sequence[str]) -> tuple[Study, Scores, list[Dialogue]]:
    """One dialogue, system, source, dimension, rater, note and signature a payload."""
    dialogues, rows = [], []
    signatures: dict[str, Signature] = {}
    random = np.random.default_rng(1)
    for number, text in enumerate(payloads):
        turns = tuple(Turn(text if n % 2 else "user", f"{text} {n}") for n in range(4))
        dialogues.append(Dialogue(text, turns, text))
        for turn in (1, 3):
            rows += [
                Score(text, turn, text, f"human:{rater}", payloads[0], float(turn + random.integers(0, 2)))
                for rater in payloads
            ]
            for source in payloads:
                value = None if source == text else float(random.normal() + number)
                rows.append(Score(text, turn, text, source, source, value, text if value is None else None))
    for source in payloads:
        signatures[source] = Signature("foreign.v1", (("file", source),))
        rows.append(Score(payloads[0], 1, payloads[0], "human:extra", source, 1.0))
    scores = Scores.of(rows, signatures)
    found = study(scores, dimension=payloads[0], level="turn", by="system", **QUICK)
    return found, scores, dialogues


def rendered(
    found: Study,
    scores: Scores,
    dialogues: Iterable[Dialogue],
    explanations: Iterable[Explanation] = (),
    **options: Any,
) -> str:
    """Inspect the dialogues of a study and draw the page."""
    seen = inspect(found, scores, dialogues, Rules().score)
    return to_html(found, seen, why=explain(explanations, scores), **options)
