"""Fit the weights of the parts of `quality` to ratings, and write them as an artefact.

This is the one place that trains on ratings of benchmarks. A figure for a set is honest only with weights
that were fitted without it and without the sets that share its text: `without` leaves them out.
"""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dialeval.dialogues import Dialogue
from dialeval.dialogues.datasets import NAMES, PublicSet, public_set
from dialeval.dialogues.splits import overlap_group
from dialeval.errors import DataError, UsageError
from dialeval.metrics.quality import DEFAULT
from dialeval.metrics.quality_parts import NAMES as PARTS
from dialeval.metrics.quality_parts import PartReader
from dialeval.models import artefact
from dialeval.models.blend import KIND, LEVELS, Blend, Level, RatedParts, Term, fit_terms
from dialeval.models.card import Card
from dialeval.scores import Scores, is_human

RATED = ("controllable", "conture", "convai2-wild", "dbdc3", "dstc9", "fed", "uss")
"""Sets whose raters judged replies or dialogues as a whole; others rated safety, or replies by themselves."""
Watch = Callable[[int], None]
Ratings = dict[Level, dict[tuple[str, int | None], float]]
_LIMITS = (
    "Weighed on English chat and task-oriented dialogue; a number is relative to those sets.",
    "Parts that nobody rated apart count about alike: the ratings only move them a little.",
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


def _is_here(chosen: PublicSet) -> bool:
    try:
        return chosen.path().is_dir()
    except DataError:
        return False


def rated(name: str) -> Rated:
    """Read a public set by its name, with its ratings."""
    if name not in NAMES:
        known = ", ".join(rated_sets()) or "none is here"
        raise UsageError(f"{name}: neither a run folder nor a public set that people rated; known: {known}")
    chosen = public_set(name)
    if chosen.rate is None:
        raise UsageError(f"nobody rated the dialogues of {name}")
    table = chosen.ratings()
    ratings = {gold.level: _means(table.where(dimension=gold.dimension), gold.level) for gold in chosen.golds}
    return Rated(name, chosen.licence, list(chosen.dialogues()), ratings, name)


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
    kept = [one for one in sources or rated_sets() if isinstance(one, Rated) or one not in hidden]
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
    made = Blend(terms)
    named = [one.source if isinstance(one, Rated) else one for one in sources]
    card = _card(sets, counts, made, _command(named, without, reader, licence, out), licence)
    fields = {"name": "quality", **made.fields(), "rated": counts}
    written = artefact.save(out, KIND, fields, {}, card)
    return {"folder": str(out), "sha": written.sha, "rated": counts, **made.fields()}


def _tables(given: Rated, reader: PartReader, watch: Watch | None) -> dict[Level, RatedParts]:
    """Read the parts of all that was rated; what is not rated at either level is not read."""
    wanted = {dialogue_id for some in given.ratings.values() for dialogue_id, _ in some}
    rows: dict[Level, tuple[list[Any], list[float]]] = {level: ([], []) for level in LEVELS}
    chosen = (one for one in given.dialogues if one.id in wanted)
    for found in reader.read(_counted(chosen, watch)):
        whole = {None: found.whole} if found.turns else {}
        places: dict[Level, Mapping[Any, Any]] = {"dialogue": whole, "turn": found.turns}
        for level, parts in places.items():
            ratings = given.ratings.get(level, {})
            for place, part in parts.items():
                if (rating := ratings.get((found.dialogue.id, place))) is not None:
                    rows[level][0].append(part)
                    rows[level][1].append(rating)
    return {level: RatedParts(*some) for level, some in rows.items()}


def _counted(dialogues: Iterable[Dialogue], watch: Watch | None) -> Iterable[Dialogue]:
    for dialogue in dialogues:
        yield dialogue
        if watch:
            watch(1)


def _fit(level: Level, tables: Sequence[RatedParts]) -> tuple[Term, ...]:
    """Fit the terms of a level; where nobody rated any, those that ship stay."""
    known = [one for one in tables if len(set(one.ratings)) > 1]
    return fit_terms(PARTS[level], known) if known else Blend.load(DEFAULT).terms[level]


def _command(
    sources: Sequence[str], without: Sequence[str], reader: PartReader, licence: str | None, out: str | Path
) -> str:
    words = ["dialeval", "blend", *sources]
    words += [word for name in without for word in ("--without", name)]
    shipped = PartReader()
    for option in ("turn_quality", "coherence", "reactions", "followup"):
        if (named := getattr(reader, option)) != getattr(shipped, option):
            words += [f"--{option.replace('_', '-')}", named]
    words += ["--licence", licence] if licence else []
    return shlex.join([*words, "-o", str(out)])


def _card(
    sets: Sequence[Rated],
    counts: dict[Level, dict[str, int]],
    made: Blend,
    command: str,
    licence: str | None,
) -> Card:
    def told(name: str) -> str:
        return ", ".join(f"{level}s rated: {some[name]:,}" for level, some in counts.items() if some[name])

    weights = [
        (f"{level}: {term.part}", f"{term.weight:.3f}") for level in LEVELS for term in made.terms[level]
    ]
    return Card(  # noqa: S604  # a command to read, not one that is run
        "quality",
        "Weights of the parts of the metric `quality`, for replies and for dialogues; none is below zero.",
        licence=licence or "see data",
        command=command,
        data=[(one.name, one.licence, told(one.name)) for one in sets],
        limits=_LIMITS,
        extra=weights,
        shell="dialeval score chats.jsonl -m quality:blend=this-folder --explain",
    )
