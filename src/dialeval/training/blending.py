"""Fit the weights of the parts of `quality` to ratings, and write them as an artefact.

This is the one place that trains on ratings of benchmarks. A figure for a set is honest only with weights
that were fitted without it and without the sets that share its text: `without` leaves them out.
"""

import shlex
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dialeval.dialogues import Dialogue, scored_turns
from dialeval.dialogues.datasets import NAMES, PublicSet, public_set
from dialeval.dialogues.splits import overlap_group
from dialeval.errors import DataError, UsageError
from dialeval.metrics.quality import DEFAULT
from dialeval.metrics.quality_parts import NAMES as PARTS
from dialeval.metrics.quality_parts import SCALES, DialogueParts, PartReader, priors
from dialeval.models import artefact
from dialeval.models.blend import (
    KIND,
    LEVELS,
    Blend,
    Level,
    Parts,
    RatedKind,
    RatedParts,
    Term,
    fit_terms,
    rate_kinds,
)
from dialeval.models.card import Card
from dialeval.models.kinds import KINDS, Kind
from dialeval.scores import Scores, is_human
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
        given = scores.where(source=is_human)
        names = given.dimensions
        chosen = next((name for name in ("overall", "quality", *names) if name in names), None)
        ratings: Ratings = {}
        if chosen is not None:
            ratings = {level: _means(given.where(dimension=chosen), level) for level in LEVELS}
        return cls(Path(source).name, "not stated", list(dialogues), ratings, source)


def rated_sets() -> list[str]:
    """Return the names of the sets of `RATED` that are on this machine."""
    return [name for name in RATED if _is_here(public_set(name))]


def rated_scenarios() -> Rated:
    """Return the scenarios: 1 for each good reply, 0 for one with a marked fault."""
    dialogues, ratings = list[Dialogue](), dict[tuple[str, int | None], float]()
    for one in held_out_scenarios():
        for dialogue, fault in marked(one):
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
        given = _means(table.where(dimension=gold.dimension), gold.level)
        golds.setdefault(gold.level, []).append(given)
    ratings = {level: _together(some) for level, some in golds.items()}
    return Rated(name, chosen.licence, list(chosen.dialogues()), ratings, name)


def _together(golds: Sequence[dict[tuple[str, int | None], float]]) -> dict[tuple[str, int | None], float]:
    """Return the only rating of each unit, or the mean of several, each on a scale of its own."""
    if len(golds) == 1:
        return golds[0]
    found: dict[tuple[str, int | None], list[float]] = {}
    for gold in golds:
        mean, scale = statistics.fmean(gold.values()), statistics.pstdev(gold.values()) or 1.0
        for place, value in gold.items():
            found.setdefault(place, []).append((value - mean) / scale)
    return {place: statistics.fmean(some) for place, some in found.items()}


def _means(scores: Scores, level: Level) -> dict[tuple[str, int | None], float]:
    found: dict[tuple[str, int | None], list[float]] = {}
    for row in scores.where(level=level, source=is_human):
        if row.value is not None:
            found.setdefault((row.dialogue_id, row.turn), []).append(row.value)
    return {place: sum(some) / len(some) for place, some in found.items()}


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
        out: The artefact's folder.
        without: Sets to leave out, with every set that shares their text.
        reader: What reads the parts; by default the shipped models.
        licence: Of the artefact, for its card.
        watch: Called with the number of dialogues read.
    """
    reader = reader or PartReader()
    hidden = {other for name in without for other in (name, *overlap_group(name))}
    every = sources or [*rated_sets(), SCENARIOS]
    kept = [one for one in every if isinstance(one, Rated) or one not in hidden]
    if not kept:
        raise UsageError("no set is left to fit to")
    sets = [one if isinstance(one, Rated) else rated(one) for one in kept]
    tables = [_tables(one, reader, watch) for one in sets]
    if not any(len(set(table[level].ratings)) > 1 for table in tables for level in LEVELS):
        raise DataError("no turn or dialogue has ratings that differ", fix="name sources that people rated")
    terms = {level: _fit(level, [one[level] for one in tables]) for level in LEVELS}
    counts = {
        level: {one.name: len(table[level].ratings) for one, table in zip(sets, tables, strict=True)}
        for level in LEVELS
    }
    people = [table for one, table in zip(sets, tables, strict=True) if one.name != SCENARIOS]
    made = Blend(terms, {level: _rated_kinds(terms, level, people) for level in LEVELS})
    named = [one.source if isinstance(one, Rated) else one for one in sources]
    card = _card(sets, counts, made, _command(named, without, reader, licence, out), licence)
    fields = {"name": "quality", **made.fields(), "rated": counts}
    written = artefact.save(out, KIND, fields, {}, card)
    return {"folder": str(out), "sha": written.sha, "rated": counts, **made.fields()}


def chosen_dialogues(given: Rated) -> list[Dialogue]:
    """Return the rated dialogues of a set, at most `MOST` of them, evenly spread."""
    wanted = {dialogue_id for some in given.ratings.values() for dialogue_id, _ in some}
    found = [one for one in given.dialogues if one.id in wanted]
    return found[:: max(1, -(-len(found) // MOST))]


def _tables(given: Rated, reader: PartReader, watch: Watch | None) -> dict[Level, RatedParts]:
    """Read the parts of what was rated; what is not rated at either level is not read."""
    found = list(reader.read(_counted(chosen_dialogues(given), watch)))
    return {level: rated_parts(given, level, found) for level in LEVELS}


def rated_parts(given: Rated, level: Level, found: Iterable[DialogueParts]) -> RatedParts:
    """Return parts, ratings and kinds of the rated units of one level."""
    made, ratings = RatedParts([], [], []), given.ratings.get(level, {})
    for one in found:
        whole: dict[int | None, Parts] = {None: one.whole} if one.turns else {}
        for place, parts in (whole if level == "dialogue" else one.turns).items():
            if (rating := ratings.get((one.dialogue.id, place))) is not None:
                made.parts.append(parts)
                made.ratings.append(rating)
                made.shares.append(one.shares)
    return made


def _counted(dialogues: Iterable[Dialogue], watch: Watch | None) -> Iterable[Dialogue]:
    for dialogue in dialogues:
        yield dialogue
        if watch:
            watch(1)


def _rated_kinds(
    terms: Mapping[Level, tuple[Term, ...]], level: Level, tables: Sequence[Mapping[Level, RatedParts]]
) -> Mapping[Kind, RatedKind]:
    known = [one[level] for one in tables if one[level].ratings]
    return rate_kinds(Blend(terms), level, known) if known else Blend.load(DEFAULT).rated[level]


def _fit(level: Level, tables: Sequence[RatedParts]) -> tuple[Term, ...]:
    """Fit the terms of a level; where nobody rated any, those that ship stay."""
    known = [one for one in tables if len(set(one.ratings)) > 1]
    if not known:
        return Blend.load(DEFAULT).terms[level]
    return fit_terms(PARTS[level], known, priors(level), SCALES)


def _command(
    sources: Sequence[str], without: Sequence[str], reader: PartReader, licence: str | None, out: str | Path
) -> str:
    words = ["dialeval", "blend", *sources]
    words += [word for name in without for word in ("--without", name)]
    shipped = PartReader()
    for option in ("turn_quality", "coherence", "reactions", "followup", "reader"):
        if (named := getattr(reader, option)) != getattr(shipped, option):
            words += [f"--{option.replace('_', '-')}", named]
    words += ["--licence", licence] if licence else []
    return shlex.join([*words, "-o", str(out)])


def _card(
    sets: Sequence[Rated], counts: dict[Level, dict[str, int]], made: Blend, command: str, licence: str | None
) -> Card:
    def told(name: str) -> str:
        return ", ".join(f"{level}s rated: {some[name]:,}" for level, some in counts.items() if some[name])

    weights = [
        (f"{level}: {term.part}", ", ".join(f"{kind} {term.weights[kind]:.3f}" for kind in KINDS))
        for level in LEVELS
        for term in made.terms[level]
    ]
    return Card(  # noqa: S604  # a command to read, not one that is run
        "quality",
        "Weights of the parts of the metric `quality`, for replies and dialogues of each kind; none below 0.",
        licence=licence or "see data",
        command=command,
        data=[(one.name, one.licence, told(one.name)) for one in sets],
        limits=_LIMITS,
        extra=weights,
        shell="dialeval score chats.jsonl -m quality:blend=this-folder --explain",
    )
