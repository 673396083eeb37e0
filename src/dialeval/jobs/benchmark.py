"""A public set from end to end: load, score, study, beside the peers' vectors and published figures."""

import math
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from dialeval.dialogues import Dialogue
from dialeval.dialogues.datasets import PublicSet, public_set
from dialeval.dialogues.splits import ROLES, overlap_group, portion, selected, split_of
from dialeval.errors import UsageError
from dialeval.jobs import runs
from dialeval.jobs.scoring import Summary, build_all, estimates, score_stream, score_to
from dialeval.metrics.training_data import training_data
from dialeval.scores import Score, Scores, Signature, is_human
from dialeval.scores.signature import better
from dialeval.statistics import Estimate
from dialeval.studies import Study, study
from dialeval.studies.units import Level, align, human_columns, mean_over

TURN_RATINGS = "turn-ratings"
AUTHORS = {
    "dynaeval": ("dynaeval_",),
    "flow-score": ("flow_flipped", "dialoflow_flow"),
    "fed": ("fed_",),
    "floweval": ("floweval_v",),
    "consensus-bertscore": ("floweval_utterance_bertscore",),
}
"""Peers whose scores come from the authors of a metric, by how their names begin."""
BASELINES = ("repetition", "length", "turns")


@dataclass(frozen=True)
class Benchmark:
    """The findings of a benchmark: the study, published figures, and the training data of each metric."""

    study: Study
    scores: Scores
    published: list[dict[str, Any]]
    seen: dict[str, str]

    def agreement(self) -> list[tuple[str, str, tuple[Estimate, ...]]]:
        """Return Pearson and Spearman of our metrics with the scores of their authors, where those joined.

        Higher is agreement: a metric of which less is better is turned, as the peers' scores are.
        """
        table = self.study.matrix
        marks = self.scores.signatures
        agreements = []
        for row, ours in enumerate(table.labels):
            source, _, dimension = ours.partition("/")
            named = marks[source].name.partition(".v")[0] if source in marks else ""
            sign = -1.0 if better(marks, source, dimension) == "lower" else 1.0
            for column, peer in enumerate(table.labels):
                if peer.startswith(AUTHORS.get(named, ("\0",))):
                    both = [table.correlations[method][row][column] for method in ("pearson", "spearman")]
                    agreements.append((ours, peer, tuple(estimate.scaled(sign) for estimate in both)))
        return agreements


def benchmark(
    name: str,
    specs: Sequence[str] = (),
    *,
    peers: bool = False,
    turn_ratings: bool = False,
    level: Level | None = None,
    dimension: str | None = None,
    part: str | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    watch: Callable[[int], None] | None = None,
    say: Callable[[str], None] | None = None,
    **settings: Any,
) -> Benchmark:
    """Measure metrics on a public set against what people said.

    Args:
        name: A public set with ratings.
        specs: Metrics in command-line notation; by default the trivial baselines.
        peers: Whether to add other metrics' published scores for the same dialogues.
        turn_ratings: Whether to add what people said of the turns, by mean, as a source beside the ratings of
            whole dialogues, which stay the gold.
        level: `turn`, `dialogue` or `system`; by default that of the set's gold.
        dimension: Which ratings; by default the set's gold dimension.
        part: Which part: train, dev or test of the split manifest, a part of the set by name, some buckets of
            one (`test#0-9`), or all. By default test, so that what is for training and tuning is left out.
        say: Called with what a metric will cost, before it starts.
        **settings: Passed on to the study.
    """
    chosen = public_set(name)
    if chosen.rate is None:
        raise UsageError(f"nobody rated the dialogues of {name}, so there is nothing to measure against")
    level, dimension = _gold(chosen, level, dimension)
    part, dialogues = _portion(chosen, part)
    systems = {dialogue.id: dialogue.system for dialogue in dialogues}
    joined = [_of(chosen.ratings(), systems)]
    if peers:
        at = "turn" if level == "turn" else "dialogue"
        joined.append(_of(chosen.peer_scores().where(level=at), systems))  # type: ignore[arg-type]
        if not len(joined[-1]) and not specs:
            raise UsageError(f"no peers' scores of {name} at {at} level")
    if turn_ratings:
        joined.append(_turn_ratings(joined[0], name, level))
    specs = specs or BASELINES
    rest, metrics = Scores.concat(joined), build_all(specs)
    for line in estimates(lambda: dialogues, metrics) if say else ():
        say(line)  # type: ignore[misc]
    if out is not None:
        score_to(dialogues, metrics, out, name=f"{name}/{part}", overwrite=overwrite, watch=watch)
        own = runs.Run(out).own_scores()
    else:
        own = Scores.concat(scores for _, scores in score_stream(dialogues, metrics, Summary(), watch))
    scores = Scores.concat([own, rest])
    findings = study(scores, level=level, dimension=dimension, **settings)
    if out is not None:
        findings = runs.Run(out).add(findings, rest)
    seen = {source: seen_sets(metric, name, part) for source, metric in metrics.items()}
    return Benchmark(findings, scores, _published(name, level, dimension), seen)


def _gold(chosen: PublicSet, level: Level | None, dimension: str | None) -> tuple[Level, str]:
    """Fill in what was not named from the set's gold; a system figure comes from dialogues."""
    at = "turn" if level == "turn" else None if level is None else "dialogue"
    gold = next((candidate for candidate in chosen.golds if at in (None, candidate.level)), chosen.golds[0])
    return level or gold.level, dimension or gold.dimension


def _portion(chosen: PublicSet, part: str | None) -> tuple[str, list[Dialogue]]:
    """Return the dialogues asked for, by the split manifest where it names such a part."""
    split = split_of(chosen.name)
    part = part or ("test" if split.test else "all")
    if "#" in part:
        return part, list(selected(chosen.name, [part]))
    if part in ROLES and getattr(split, part):
        return part, list(portion(chosen.name, part))
    return part, list(chosen.dialogues(part))


def _of(scores: Scores, systems: dict[str, str | None]) -> Scores:
    """Keep the rows of the chosen dialogues, and name their systems where the rows do not."""
    rows = (row for row in scores if row.dialogue_id in systems)
    named = (row if row.system is not None else row._replace(system=systems[row.dialogue_id]) for row in rows)
    return Scores.of(named, scores.signatures)


def _turn_ratings(ratings: Scores, name: str, level: Level) -> Scores:
    """Make a source of the raters' mean at each turn, for dialogues that were rated as a whole too.

    Under a name of its own: as `human` it would be one of the raters, and part of the gold.
    """
    if level == "turn":
        raise UsageError(
            "--turn-ratings is for --level dialogue or system: of turns, these ratings are the gold"
        )
    rated_dialogues = {row.dialogue_id for row in ratings.where(level="dialogue")}
    of_turns = ratings.where(source=is_human, level="turn")
    units = align(of_turns, "turn")
    rows = [
        Score(key.dialogue_id, key.turn, key.system, TURN_RATINGS, dimension, float(value))
        for dimension in of_turns.dimensions
        for key, value in zip(units.keys, mean_over(units, human_columns(units, dimension)), strict=True)
        if key.dialogue_id in rated_dialogues and not math.isnan(value)
    ]
    if not rows:
        raise UsageError(f"no dialogue of {name} has ratings both of its turns and of the whole")
    return Scores.of(rows, {TURN_RATINGS: Signature(f"{TURN_RATINGS}.v1", (("set", name),))})


def seen_sets(metric: Any, name: str, part: str = "test") -> str:
    """Return what a metric was trained and tuned on, and whether it has seen the portion that is measured."""
    models, split = training_data(metric), split_of(name)
    seen: set[str] = set()
    notes: list[str] = []
    for model in models:
        shared = set(model.names) & {name, *overlap_group(name)}
        if shared and name in model.filtered:
            notes.append(f"without the dialogues of {name}")
        elif shared == {name} and name not in split.overlaps and part in set(ROLES) - model.parts_of(name):
            notes.append(f"of {name} another part than the {part} portion")
        else:
            seen |= shared
    data_sets = ", ".join(sorted({set_name for model in models for set_name in model.names})) or "none"
    if not all(model.recorded for model in models):
        data_sets += "; a model does not record its data"
    if seen:
        return f"{data_sets}; HAS SEEN {', '.join(sorted(seen))}"
    return "; ".join([data_sets, *dict.fromkeys(notes)])


def _published(name: str, level: str, dimension: str) -> list[dict[str, Any]]:
    """Return figures that papers report for a set, usually for the whole of it."""
    text = (files("dialeval.jobs") / "published.toml").read_text(encoding="utf-8")
    selection = {"set": name, "level": level, "dimension": dimension}
    rows = tomllib.loads(text)["figure"]
    return [row for row in rows if all(row[key] == value for key, value in selection.items())]
