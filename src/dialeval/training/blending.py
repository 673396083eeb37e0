"""Fit the weights of the parts of `quality` to ratings, and write them as an artefact.

This is the one place that trains on ratings of benchmarks. A figure for a set is honest only with weights
that were fitted without it and without the sets that share its text: `without` leaves them out.
"""

import math
import shlex
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dialeval.dialogues import Dialogue, scored_turns
from dialeval.dialogues.datasets import NAMES, PublicSet, public_set
from dialeval.dialogues.splits import overlap_group
from dialeval.errors import DataError, UsageError
from dialeval.metrics.quality import DEFAULT
from dialeval.metrics.quality_parts import NAMES as PARTS
from dialeval.metrics.quality_parts import SCALES, DialogueParts, PartReader, priors
from dialeval.models import artefact
from dialeval.models.blend import (
    FARTHEST,
    KIND,
    LEVELS,
    VALIDATED,
    Blend,
    Level,
    Parts,
    Priors,
    RatedKind,
    Shares,
    Term,
)
from dialeval.models.card import Card
from dialeval.models.kinds import KINDS, Kind
from dialeval.scores import Scores, is_human, overall_first
from dialeval.statistics.estimate import Floats
from dialeval.statistics.regression import blend_weights
from dialeval.training.fault_examples import held_out_scenarios, marked

RATED = (
    *("abceval", "controllable", "conture", "convai2-wild", "crsarena", "dbdc3", "dstc9", "fed"),
    *("mrbench", "mtrag", "stc3", "tau-retail", "uss"),
)
"""Sets whose raters judged replies or dialogues as a whole; others rated safety, or facts."""
SCENARIOS = "scenarios"
"""Our own good dialogues with replies that would be faulty in them: those the reader of faults did not learn
from. They teach what a fault costs in kinds of dialogue that nobody rated turn by turn."""
MOST = 500
"""Dialogues of a set whose parts are read: each set counts alike, however large it is."""
Watch = Callable[[int], None]
Ratings = dict[Level, dict[tuple[str, int | None], float]]
_LIMITS = (
    "Weighed on English dialogues of the sets above; a number is relative to them.",
    "Ratings move the weights a little from what was assumed of each kind before (`priors` in the code).",
)


@dataclass(frozen=True)
class Rated:
    """Dialogues with the mean rating of each rated turn and dialogue; `source` is how they were named."""

    name: str
    licence: str
    dialogues: list[Dialogue]
    ratings: Ratings
    source: str = ""

    @classmethod
    def of_scores(cls, source: str, dialogues: Iterable[Dialogue], scores: Scores) -> "Rated":
        """Take the human ratings among scores, `overall` or `quality` where there are several dimensions."""
        ratings_table = scores.where(source=is_human)
        chosen = overall_first(ratings_table.dimensions)
        ratings: Ratings = {}
        if chosen is not None:
            ratings = {level: _means(ratings_table.where(dimension=chosen), level) for level in LEVELS}
        return cls(Path(source).name, "not stated", list(dialogues), ratings, source)


@dataclass(frozen=True)
class RatedParts:
    """The rated units of one set: parts, ratings, and shares of kinds."""

    parts: list[Parts]
    ratings: list[float]
    shares: list[Shares]


def rated_sets() -> list[str]:
    """Return the names of the sets of `RATED` that are on this machine."""
    return [name for name in RATED if _is_here(public_set(name))]


def rated_scenarios() -> Rated:
    """Return the scenarios: 1 for each good reply, 0 for one with a marked fault."""
    dialogues, ratings = list[Dialogue](), dict[tuple[str, int | None], float]()
    for scenario in held_out_scenarios():
        for dialogue, fault in marked(scenario):
            dialogues.append(msgspec.structs.replace(dialogue, meta={}))
            judged = scored_turns(dialogue) if fault is None else [fault.turn]
            ratings |= {(dialogue.id, turn): float(fault is None) for turn in judged}
    return Rated(SCENARIOS, "our own", dialogues, {"turn": ratings}, SCENARIOS)


def _is_here(chosen: PublicSet) -> bool:
    try:
        return chosen.path().is_dir()
    except DataError:
        return False


def rated(name: str) -> Rated:
    """Read a public set by its name, with its ratings."""
    if name == SCENARIOS:
        return rated_scenarios()
    if name not in NAMES:
        known = ", ".join(rated_sets()) or "none is here"
        raise UsageError(f"{name}: neither a run folder nor a public set that people rated; known: {known}")
    chosen = public_set(name)
    if chosen.rate is None:
        raise UsageError(f"nobody rated the dialogues of {name}")
    table = chosen.ratings()
    golds: dict[Level, list[dict[tuple[str, int | None], float]]] = {}
    for gold in chosen.golds:
        ratings_of_gold = _means(table.where(dimension=gold.dimension), gold.level)
        golds.setdefault(gold.level, []).append(ratings_of_gold)
    ratings = {level: _together(by_gold) for level, by_gold in golds.items()}
    return Rated(name, chosen.licence, list(chosen.dialogues()), ratings, name)


def _together(golds: Sequence[dict[tuple[str, int | None], float]]) -> dict[tuple[str, int | None], float]:
    """Return the only rating of each unit, or the mean of several, each on a scale of its own."""
    if len(golds) == 1:
        return golds[0]
    standardised: dict[tuple[str, int | None], list[float]] = {}
    for gold in golds:
        mean, scale = statistics.fmean(gold.values()), statistics.pstdev(gold.values()) or 1.0
        for place, value in gold.items():
            standardised.setdefault(place, []).append((value - mean) / scale)
    return {place: statistics.fmean(values) for place, values in standardised.items()}


def _means(scores: Scores, level: Level) -> dict[tuple[str, int | None], float]:
    values_of: dict[tuple[str, int | None], list[float]] = {}
    for row in scores.where(level=level, source=is_human):
        if row.value is not None:
            values_of.setdefault((row.dialogue_id, row.turn), []).append(row.value)
    return {place: sum(values) / len(values) for place, values in values_of.items()}


def blend_to(
    sources: Sequence[str | Rated],
    out: str | Path,
    *,
    without: Sequence[str] = (),
    reader: PartReader | None = None,
    licence: str | None = None,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Fit weights to ratings by non-negative least squares, and write them.

    Args:
        sources: Public sets by name, and rated dialogues of your own; by default `RATED`.
        without: Sets to leave out, with every set that shares their text.
        reader: What reads the parts; by default the shipped models.
    """
    reader = reader or PartReader()
    excluded = {other for name in without for other in (name, *overlap_group(name))}
    names = sources or [*rated_sets(), SCENARIOS]
    chosen = [source for source in names if isinstance(source, Rated) or source not in excluded]
    if not chosen:
        raise UsageError("no set is left to fit to")
    sets = [source if isinstance(source, Rated) else rated(source) for source in chosen]
    tables = [_tables(source, reader, watch) for source in sets]
    if not any(len(set(table[level].ratings)) > 1 for table in tables for level in LEVELS):
        raise DataError("no turn or dialogue has ratings that differ", fix="name sources that people rated")
    terms = {level: _fit(level, [source[level] for source in tables]) for level in LEVELS}
    counts = {
        level: {source.name: len(table[level].ratings) for source, table in zip(sets, tables, strict=True)}
        for level in LEVELS
    }
    people = [table for source, table in zip(sets, tables, strict=True) if source.name != SCENARIOS]
    blend = Blend(terms, {level: _rated_kinds(terms, level, people) for level in LEVELS})
    named = [source.source if isinstance(source, Rated) else source for source in sources]
    card = _card(sets, counts, blend, _command(named, without, reader, licence, out), licence)
    fields = {"name": "quality", **blend.fields(), "rated": counts}
    written = artefact.save(out, KIND, fields, {}, card)
    return {"folder": str(out), "sha": written.sha, "rated": counts, **blend.fields()}


def chosen_dialogues(rated_set: Rated) -> list[Dialogue]:
    """Return the rated dialogues of a set, at most `MOST` of them, evenly spread."""
    ids = {dialogue_id for by_unit in rated_set.ratings.values() for dialogue_id, _ in by_unit}
    dialogues = [dialogue for dialogue in rated_set.dialogues if dialogue.id in ids]
    return dialogues[:: max(1, -(-len(dialogues) // MOST))]


def _tables(rated_set: Rated, reader: PartReader, watch: Watch | None) -> dict[Level, RatedParts]:
    """Read the parts of what was rated; what is not rated at either level is not read."""
    parts = list(reader.read(_counted(chosen_dialogues(rated_set), watch)))
    return {level: rated_parts(rated_set, level, parts) for level in LEVELS}


def rated_parts(rated_set: Rated, level: Level, dialogue_parts: Iterable[DialogueParts]) -> RatedParts:
    """Return parts, ratings and kinds of the rated units of one level."""
    result, ratings = RatedParts([], [], []), rated_set.ratings.get(level, {})
    for parts_of in dialogue_parts:
        by_turn: dict[int | None, Parts] = {None: parts_of.whole} if parts_of.turns else {}
        for place, parts in (by_turn if level == "dialogue" else parts_of.turns).items():
            if (rating := ratings.get((parts_of.dialogue.id, place))) is not None:
                result.parts.append(parts)
                result.ratings.append(rating)
                result.shares.append(parts_of.shares)
    return result


def _counted(dialogues: Iterable[Dialogue], watch: Watch | None) -> Iterable[Dialogue]:
    for dialogue in dialogues:
        yield dialogue
        if watch:
            watch(1)


def _rated_kinds(
    terms: Mapping[Level, tuple[Term, ...]], level: Level, tables: Sequence[Mapping[Level, RatedParts]]
) -> Mapping[Kind, RatedKind]:
    rated_tables = [table[level] for table in tables if table[level].ratings]
    return rate_kinds(Blend(terms), level, rated_tables) if rated_tables else Blend.load(DEFAULT).rated[level]


def _fit(level: Level, tables: Sequence[RatedParts]) -> tuple[Term, ...]:
    """Fit the terms of a level; without ratings, the shipped ones are kept."""
    varying = [table for table in tables if len(set(table.ratings)) > 1]
    if not varying:
        return Blend.load(DEFAULT).terms[level]
    return fit_terms(PARTS[level], varying, priors(level), SCALES)


def _command(
    sources: Sequence[str], without: Sequence[str], reader: PartReader, licence: str | None, out: str | Path
) -> str:
    words = ["dialeval", "blend", *sources]
    words += [word for name in without for word in ("--without", name)]
    shipped = PartReader()
    for option in ("turn_quality", "coherence", "reactions", "followup", "reader"):
        if (name := getattr(reader, option)) != getattr(shipped, option):
            words += [f"--{option.replace('_', '-')}", name]
    words += ["--licence", licence] if licence else []
    return shlex.join([*words, "-o", str(out)])


def _card(
    sets: Sequence[Rated],
    counts: dict[Level, dict[str, int]],
    blend: Blend,
    command: str,
    licence: str | None,
) -> Card:
    def counts_of(name: str) -> str:
        return ", ".join(
            f"{level}s rated: {by_set[name]:,}" for level, by_set in counts.items() if by_set[name]
        )

    weights = [
        (f"{level}: {term.part}", ", ".join(f"{kind} {term.weights[kind]:.3f}" for kind in KINDS))
        for level in LEVELS
        for term in blend.terms[level]
    ]
    return Card(  # noqa: S604  # a command to read, not one that is run
        "quality",
        "Weights of the parts of the metric `quality`, for replies and dialogues of each kind; none below 0.",
        licence=licence or "see data",
        command=command,
        data=[(rated_set.name, rated_set.licence, counts_of(rated_set.name)) for rated_set in sets],
        limits=_LIMITS,
        extra=weights,
        shell="dialeval score chats.jsonl -m quality:blend=this-folder --explain",
    )


# --- the terms of a blend (`models/blend.py`), and the quantiles of the fitted scores -----------------------

_STEPS = 20  # of the quantiles
_DIGITS = 4


def fit_terms(
    names: Sequence[str],
    sets: Sequence[RatedParts],
    priors: Priors,
    scales: Mapping[str, tuple[float, float]],
) -> tuple[Term, ...]:
    """Fit the terms of one level to ratings; all sets have the same weight.

    `scales` has mean and scale of parts that are missing in all sets.

    >>> ratings = [1.0, 2.0, 3.0, 4.0, 5.0]
    >>> rows = [{"coherence": value / 5, "tone": 1.0} for value in ratings]
    >>> table = RatedParts(rows, ratings, [{"chat": 1.0}] * 5)
    >>> terms = fit_terms(["coherence", "tone"], [table], {"chat": {"coherence": 0.1, "tone": 0.1}}, {})
    >>> [(term.part, term.mean, term.weights["chat"]) for term in terms]
    [('coherence', 0.6, 0.3077), ('tone', 1.0, 0.1)]
    """
    columns = [_columns(names, rated_set.parts) for rated_set in sets]
    present = [[column[~np.isnan(column)] for column in table] for table in columns]
    terms = []
    for number, name in enumerate(names):
        parts = [table[number] for table in present if table[number].size]
        mean, scale = scales.get(name, (0.0, 1.0))
        if parts:
            mean = float(np.mean([part.mean() for part in parts]))
            scale = math.sqrt(float(np.mean([np.mean((part - mean) ** 2) for part in parts])))
        terms.append(Term(name, round(mean, _DIGITS), round(scale, _DIGITS) or 1.0, {}, bool(parts)))
    tables = [
        (_rows(terms, table), _standard(rated_set.ratings), share_rows(rated_set.shares))
        for table, rated_set in zip(columns, sets, strict=True)
        if len(rated_set.ratings) > 1
    ]
    prior = np.array([[priors.get(kind, {}).get(name, -1.0) for name in names] for kind in KINDS])
    weights = blend_weights(tables, prior)
    return tuple(
        msgspec.structs.replace(
            term, weights={kind: round(float(weights[row, place]), _DIGITS) for row, kind in enumerate(KINDS)}
        )
        for place, term in enumerate(terms)
    )


def rate_kinds(blend: Blend, level: Level, sets: Sequence[RatedParts]) -> dict[Kind, RatedKind]:
    """Return the quantiles of the scores of each kind; of all units, for a kind with few."""
    scores = np.array(
        [blend.score(level, *unit) for table in sets for unit in zip(table.parts, table.shares, strict=True)]
    )
    kinds = np.concatenate([share_rows(table.shares) for table in sets]).argmax(1)
    sizes = np.concatenate([np.full(len(table.ratings), 1.0 / len(table.ratings)) for table in sets])
    by_kind: dict[Kind, RatedKind] = {}
    for number, kind in enumerate(KINDS):
        own = kinds == number
        chosen = own if own.sum() >= VALIDATED else np.ones(len(kinds), bool)
        marks = _quantiles(scores[chosen], sizes[chosen])
        by_kind[kind] = RatedKind(int(own.sum()), marks)
    return by_kind


def _quantiles(values: Floats, sizes: Floats) -> tuple[float, ...]:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(sizes[order]) / sizes.sum()
    marks = np.interp(np.linspace(0.0, 1.0, _STEPS + 1), reached, values[order])
    return tuple(round(float(value), _DIGITS) for value in marks)


def share_rows(shares: Sequence[Shares]) -> Floats:
    """Return shares of kinds as rows, in the order of `KINDS`."""
    return np.array([[by_kind.get(kind, 0.0) for kind in KINDS] for by_kind in shares], np.float64)


def _columns(names: Sequence[str], parts: Sequence[Parts]) -> list[Floats]:
    def number(value: float | None) -> float:
        return math.nan if value is None else value

    return [np.array([number(by_part.get(name)) for by_part in parts], np.float64) for name in names]


def _rows(terms: Sequence[Term], columns: Sequence[Floats]) -> Floats:
    far = [(column - term.mean) / term.scale for term, column in zip(terms, columns, strict=True)]
    return np.asarray(np.clip(np.nan_to_num(np.stack(far, axis=1)), -FARTHEST, FARTHEST))


def _standard(ratings: Sequence[float]) -> Floats:
    values = np.asarray(ratings, np.float64)
    return np.asarray((values - values.mean()) / (values.std() or 1.0))
