"""True replies against others: how well metrics tell them apart, and where systems stand beside references.

Two questions that need no ratings. With *negatives*, each logged reply is held against one that was given
elsewhere, in its place: a metric of coherence should give the true one more. With *systems*, the logged
replies are held against what systems said in their place.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Unpack

import msgspec
import numpy as np
import numpy.typing as npt

from dialeval import statistics
from dialeval.dialogues import Dialogue
from dialeval.dialogues.contexts import SystemReplies, system_replies
from dialeval.dialogues.datasets.task_oriented import published_figures
from dialeval.errors import UsageError
from dialeval.jobs.scoring import Summary, build_all, score_stream, score_to
from dialeval.scores import Scores
from dialeval.statistics.resampling import Draws
from dialeval.training.negatives import KINDS, Negatives, ReplyPlace

REFERENCE = "reference"
_WINDOW = 12  # turns before a reply that a metric is shown
_SHORT = "exchanges of history"
Watch = Callable[[int], None]


@dataclass(frozen=True)
class ContrastResult:
    """Rows of figures, with signatures and notes."""

    rows: list[dict[str, Any]]
    signatures: dict[str, Any]
    notes: list[str] = field(default_factory=list)


def contrast_negatives(
    dialogues: Sequence[Dialogue],
    specs: Sequence[str],
    kinds: Sequence[str],
    *,
    sample: int | None = 2000,
    watch: Watch | None = None,
    **draws: Unpack[Draws],
) -> ContrastResult:
    """Compare true replies with negatives of each kind, by every dimension of every metric.

    Args:
        dialogues: What replies and negatives are taken from.
        kinds: Of negatives, see `training.negatives`.
        sample: How many replies, chosen by a hash; None: all.
        **draws: Of the intervals; negatives have the same seed.
    """
    if not specs:
        raise UsageError("name a metric: -m dialoguescore")
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise UsageError(f"unknown kind of negatives {unknown[0]!r}; known: {', '.join(KINDS)}")
    metrics, drawn, summary = build_all(specs), Negatives(dialogues, draws.get("seed", 0)), Summary()
    places = [ReplyPlace(n, turn) for n, turns in enumerate(drawn.replies) for turn in turns]
    places.sort(key=lambda place: hashlib.sha256(f"{dialogues[place[0]].id}|{place[1]}".encode()).digest())
    places = places[:sample]
    true = _scored([_placed(drawn, place, place) for place in places], metrics, summary, watch)
    rows, notes = list[dict[str, Any]](), list[str]()
    for kind in kinds:
        pairs = [(place, negative) for place in places if (negative := drawn.draw(place, kind))]
        if not pairs:
            notes.append(f"no {kind} negatives can be drawn from these dialogues")
            continue
        false = _scored([_placed(drawn, *pair) for pair in pairs], metrics, summary, watch)
        units = {_key(place): dialogues[place.dialogue].id for place, _ in pairs}
        rows += [
            {"negatives": kind, **_pair_figures(column, true[column], false[column], units, draws)}
            for column in true
        ]
    return ContrastResult(rows, summary.signatures, notes)


def _mean(
    draws: Draws, values: Sequence[float] | npt.NDArray[Any], dialogues: Sequence[str]
) -> dict[str, Any]:
    """Return a mean with its interval, by resampling whole dialogues."""
    draws = {"resamples": 1000, **draws}
    return asdict(statistics.bootstrap_means(np.asarray(values, np.float64), np.asarray(dialogues), **draws))


def _key(place: ReplyPlace) -> str:
    return f"{place.dialogue}:{place.turn}"


def _placed(drawn: Negatives, place: ReplyPlace, chosen: ReplyPlace) -> Dialogue:
    """Cut a dialogue around a reply, with the chosen one in its place and the turn after it as the last."""
    own = drawn.dialogues[place.dialogue]
    put = drawn.dialogues[chosen.dialogue].turns[chosen.turn]
    first = max(0, place.turn - _WINDOW)
    turns = [*own.turns[first : place.turn], put, *own.turns[place.turn + 1 : place.turn + 2]]
    meta = {"turn": place.turn - first}
    return msgspec.structs.replace(
        own, id=_key(place), turns=tuple(turns), references={}, meta=meta, system=None
    )


Column = tuple[str, str]
Unit = tuple[str, int]


def _scored(
    dialogues: list[Dialogue], metrics: dict[str, Any], summary: Summary, watch: Watch | None
) -> dict[Column, dict[str, float]]:
    """Score dialogues and keep the scores of the turn that each is about."""
    columns: dict[Column, dict[str, float]] = {}
    for chunk, scores in score_stream(dialogues, metrics, summary, watch):
        about = {dialogue.id: dialogue.meta["turn"] for dialogue in chunk}
        for row in scores:
            if row.turn is None or row.turn != about[row.dialogue_id]:
                continue
            column = columns.setdefault((row.source, row.dimension), {})
            short = row.dimension[-1:].isdigit() and _SHORT in (row.note or "")
            if row.value is not None and not short:
                column[row.dialogue_id] = row.value
    return columns


def _pair_figures(
    column: Column, true: dict[str, float], false: dict[str, float], units: dict[str, str], draws: Draws
) -> dict[str, Any]:
    """Return the share of pairs in which the true reply is above the negative, of those with both scores."""
    both = [unit for unit in units if unit in true and unit in false]
    names = [units[unit] for unit in both]
    good, bad = (np.array([scores[unit] for unit in both], np.float64) for scores in (true, false))
    values = np.concatenate([good, bad])
    shares = bool(len(values)) and 0 <= values.min() <= values.max() <= 1
    right = ((good >= 0.5).astype(float) + (bad < 0.5)) / 2 if shares else np.zeros(0)
    return {
        "source": column[0],
        "dimension": column[1],
        "n": len(both),
        "pairs": _mean(draws, (good > bad) + 0.5 * (good == bad), names),
        "accuracy": _mean(draws, right, names[: len(right)]),
        "auc": statistics.auc(values, np.repeat([1, 0], len(both))).value,
    }


def contrast_systems(
    logged: Sequence[Dialogue],
    systems: Sequence[str | Path],
    specs: Sequence[str],
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    watch: Watch | None = None,
    **draws: Unpack[Draws],
) -> ContrastResult:
    """Compare logged replies with those of systems: means, and differences over the turns that both have.

    Args:
        logged: Dialogues with the true replies.
        systems: Files of predictions, see `dialogues.system_replies`.
        out: A run folder to write, with the systems' dialogues, for a study with ratings.
    """
    if not specs:
        raise UsageError("name a metric: -m dialoguescore:delexicalise=true")
    metrics, summary = build_all(specs), Summary()
    read = [system_replies(path, logged) for path in systems]
    if len({system.system for system in read} | {REFERENCE}) <= len(read):
        raise UsageError("two systems have the same name: rename a file; none may be called reference")
    true, asked = _by_turn(score_stream(logged, metrics, summary, watch)), _questions(logged)
    rows = [{"system": REFERENCE, **_gap(column, true[column], None, draws)} for column in true]
    for system in read:
        scored = _by_turn(score_stream(system.dialogues, metrics, summary, watch))
        unlike = asked ^ _questions(system.dialogues)
        rows += [
            {"system": system.system, **_gap(column, scored[column], true.get(column), draws, unlike)}
            for column in scored
        ]
    if out is not None:
        score_to(_together(logged, read), metrics, out, name=REFERENCE, overwrite=overwrite, watch=watch)
    return ContrastResult(rows, summary.signatures, [note for system in read for note in _notes(system)])


def _together(logged: Iterable[Dialogue], read: Sequence[SystemReplies]) -> Iterator[Dialogue]:
    """Yield the dialogues of all, each with the system in its id."""
    for dialogue in logged:
        yield msgspec.structs.replace(dialogue, id=f"{REFERENCE}/{dialogue.id}", system=REFERENCE)
    for system in read:
        for dialogue in system.dialogues:
            yield msgspec.structs.replace(dialogue, id=f"{system.system}/{dialogue.id}")


def _by_turn(stream: Iterable[tuple[list[Dialogue], Scores]]) -> dict[Column, dict[Unit, float]]:
    columns: dict[Column, dict[Unit, float]] = {}
    for _, scores in stream:
        for row in scores:
            if row.turn is not None and row.value is not None:
                column = columns.setdefault((row.source, row.dimension), {})
                column[row.dialogue_id, row.turn] = row.value
    return columns


def _questions(dialogues: Iterable[Dialogue]) -> set[Unit]:
    """Return the turns that ask something."""
    turns = (
        (dialogue.id, number, turn.text)
        for dialogue in dialogues
        for number, turn in enumerate(dialogue.turns)
    )
    return {(name, number) for name, number, text in turns if "?" in text}


def _gap(
    column: Column,
    values: dict[Unit, float],
    true: dict[Unit, float] | None,
    draws: Draws,
    unlike: Collection[Unit] = (),
) -> dict[str, Any]:
    """Return the mean of a column and its mean difference to the true replies, turn by turn.

    The difference is also given for the turns at which both replies ask something or neither does, and for
    those at which only one does (`unlike`): what the user said next answers the logged reply.
    """
    both = [unit for unit in values if true and unit in true]
    subsets = {
        "gap": both,
        "gap_alike": [unit for unit in both if unit not in unlike],
        "gap_unlike": [unit for unit in both if unit in unlike],
    }
    gaps = {
        name: _mean(draws, [values[unit] - true[unit] for unit in units], [unit[0] for unit in units])
        if true
        else None
        for name, units in subsets.items()
    }
    mean = _mean(draws, list(values.values()), [name for name, _ in values])
    return {"source": column[0], "dimension": column[1], "n": len(values), "mean": mean, **gaps}


def _notes(replies: SystemReplies) -> Iterator[str]:
    problems = (
        (replies.missing, "dialogues missing"),
        (replies.unknown, "dialogues that are not among the logged ones"),
        (replies.short, "replies missing"),
        (replies.extra, "surplus replies"),
    )
    counts = [f"{count} {problem}" for count, problem in problems if count]
    if counts:
        yield f"{replies.system}: {', '.join(counts)}"


def combined(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Compare the means of systems, rows of `contrast_systems`, with published Combined figures of MultiWOZ.

    Returns:
        `combined`, that of each system, and `spearman`, the rank correlation by dimension; both empty where
        the published figures are not at hand.
    """
    figures = {name: entry["combined"] for name, entry in published_figures().items() if "combined" in entry}
    columns: dict[Column, list[tuple[float, float]]] = {}
    for row in rows:
        if row["system"] in figures and row["mean"]["value"] is not None:
            pairs = columns.setdefault((row["source"], row["dimension"]), [])
            pairs.append((row["mean"]["value"], figures[row["system"]]))
    correlations = [
        {
            "source": c[0],
            "dimension": c[1],
            "spearman": asdict(statistics.spearman(*zip(*pairs, strict=True))),
        }
        for c, pairs in columns.items()
    ]
    return {"combined": figures, "spearman": correlations}
