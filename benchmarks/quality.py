"""`quality` on sets whose ratings it has not seen: leave one group of sets out, fit, measure.

    python benchmarks/quality.py [--sets fed conture …] [--resamples 2000] [--seed 0] [--ablation]

For every rated set: the set and all that share its text are left out, `turn-quality` is trained again without
it where it learned from its text, the weights are fitted to the ratings of the rest, and the left-out set is
measured. Beside it stand its parts, trivial baselines and the published scores of other metrics for the same
dialogues, each with its difference to `quality` (bootstrap over dialogues). `partial` is the correlation with
the number of turns held fixed (for turns, with the place of the turn), `within` the mean correlation inside
each system that has ten or more, `systems` the correlation of systems' means, where there are five or more.

`--ablation` prints what is lost when each part is left out, with half of the other sets (ten draws), and with
equal weights.
"""

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy import stats

from dialeval.dialogues import Dialogue
from dialeval.dialogues.datasets import public_set
from dialeval.dialogues.splits import overlap_group, portion
from dialeval.errors import DataError
from dialeval.jobs.training import train_to
from dialeval.metrics.quality import DEFAULT as SHIPPED
from dialeval.metrics.quality_parts import NAMES, SCALES, DialogueParts, PartReader, priors
from dialeval.metrics.training_data import training_data
from dialeval.metrics.turn_quality import DEFAULT, TurnQuality
from dialeval.models.blend import LEVELS, Blend
from dialeval.scores import Score, Scores
from dialeval.statistics import spearman
from dialeval.studies import study
from dialeval.training.blending import (
    SCENARIOS,
    RatedParts,
    chosen_dialogues,
    fit_terms,
    rated,
    rated_parts,
    rated_sets,
)


class Lab:
    """The parts of every set, by each variant of the models that learned from some of them."""

    def __init__(self, names: list[str], folder: Path) -> None:
        self.folder, self.sets = folder, {name: rated(name) for name in (*names, SCENARIOS)}
        self._parts: dict[tuple[str, PartReader], list[DialogueParts]] = {}
        self._models: dict[tuple[str, ...], str] = {}

    def reader(self, hidden: set[str]) -> PartReader:
        """Return what reads the parts with models that have not seen the hidden sets."""
        heard = training_data(TurnQuality())[0].names
        judging = [f"set:{name}/text" for name in heard if name not in hidden]
        return PartReader(turn_quality=self._judge(judging) if len(judging) < len(heard) else DEFAULT)

    def _judge(self, sources: list[str]) -> str:
        """Train `turn-quality` on what is left."""
        key = tuple(sources)
        if key not in self._models:
            out = self.folder / str(len(self._models))
            train_to("turn-quality", sources, out)
            self._models[key] = str(out)
        return self._models[key]

    def parts(self, name: str, reader: PartReader) -> list[DialogueParts]:
        """Read the parts of all that was rated in a set, once; where one model differs, only its part."""
        if (name, reader) not in self._parts:
            if reader != PartReader():
                found = list(judged_by(reader.turn_quality, self.parts(name, PartReader())))
            else:
                found = list(reader.read(chosen_dialogues(self.sets[name])))
            self._parts[name, reader] = found
        return self._parts[name, reader]

    def table(self, name: str, level: str, reader: PartReader) -> RatedParts:
        """Return the parts and ratings of one level."""
        return rated_parts(self.sets[name], level, self.parts(name, reader))

    def others(self, name: str, level: str) -> list[str]:
        """Name the sets that may teach about this one."""
        hidden = {name, *overlap_group(name)}
        return [other for other in self.sets if other not in hidden and self.sets[other].ratings.get(level)]

    def fit(self, name: str, level: str, names: tuple[str, ...], others: list[str]) -> Blend:
        """Fit weights for a set to the ratings of others."""
        reader = self.reader({name, *overlap_group(name)})
        tables = [self.table(one, level, reader) for one in others]
        return Blend({level: fit_terms(names, tables, priors(level), SCALES)})


def judged_by(turn_quality: str, read: list[DialogueParts]) -> Iterator[DialogueParts]:
    """Replace the part `turn-quality` by that of another model."""
    rows = TurnQuality(turn_quality, language="any").score([found.dialogue for found in read])
    values = {(row.dialogue_id, row.turn): row.value for row in rows.where(level="turn")}
    for found in read:
        own = {turn: values.get((found.dialogue.id, turn)) for turn in found.turns}
        known = [value for value in own.values() if value is not None]
        turns = {turn: {**parts, "turn-quality": own[turn]} for turn, parts in found.turns.items()}
        whole = {**found.whole, "turn-quality": float(np.mean(known)) if known else None}
        yield replace(found, turns=turns, whole=whole)


def test_dialogues(name: str) -> list[Dialogue]:
    return list(portion(name, "test"))


def rows_of(lab: Lab, name: str, level: str, blend: Blend) -> list[Score]:
    """Score the test portion with the blend and with each part alone."""
    reader = lab.reader({name, *overlap_group(name)})
    tested, rows = {one.id: one for one in test_dialogues(name)}, []
    lowest = Blend.load(SHIPPED).lowest("turn")  # what an empty reply, or none, counts
    for found in (found.counting_empty(lowest) for found in lab.parts(name, reader)):
        one = found.dialogue
        if one.id not in tested or not found.turns:
            continue
        places = {None: found.whole} if level == "dialogue" else found.turns
        for place, parts in places.items():
            value = blend.score(level, parts, found.shares)
            rows.append(Score(one.id, place, one.system, "quality", "quality", value))
            rows.append(Score(one.id, place, one.system, "turns", "turns", float(place or len(one.turns))))
            for part in NAMES[level]:
                value = parts.get(part)
                note = None if value is not None else "unknown"
                rows.append(Score(one.id, place, one.system, f"part:{part}", part, value, note))
    return rows


def measure(lab: Lab, name: str, level: str, options: argparse.Namespace) -> None:
    chosen = public_set(name)
    gold = next(one for one in chosen.golds if one.level == level)
    blend = lab.fit(name, level, NAMES[level], lab.others(name, level))
    own = Scores.of(rows_of(lab, name, level, blend), {})
    known = {row.dialogue_id for row in own}
    try:
        peers = [row for row in chosen.peer_scores().where(level=level) if row.dialogue_id in known]
    except DataError:
        peers = []
    ratings = [row for row in chosen.ratings().where(level=level) if row.dialogue_id in known]
    scores = Scores.concat([own, Scores.of(ratings, {}), Scores.of(peers, {})])
    found = study(
        scores,
        level=level,
        dimension=gold.dimension,
        resamples=options.resamples,
        permutations=1,
        seed=options.seed,
    )
    weights = ", ".join(f"{term.part} {max(term.weights.values()):.2f}" for term in blend.terms[level])
    print(f"\n## {name}, {level}; fitted on {', '.join(lab.others(name, level))}: {weights}")
    ceiling = {method: one.value for method, one in found.ceiling.items()}
    print(f"one rater with the others: {shown(ceiling.get('pearson'))} / {shown(ceiling.get('spearman'))}")
    aside = {}
    for row in found.to_dict()["differences"]:
        if "quality" in (row["first"], row["second"]):
            other = row["second"] if row["first"] == "quality" else row["first"]
            aside[other] = (row["first"] == "quality", row["difference"])
    for row in found.to_dict()["correlations"]:
        beside = f"\tquality above it by {gap(*aside[row['label']])}" if row["label"] in aside else ""
        print(f"{row['label']}\t{row['n']}\t{interval(row['pearson'])}\t{interval(row['spearman'])}{beside}")
    controls(scores, level, gold.dimension)
    if len({row.system for row in own if row.system}) >= 5:
        systems(scores, level, gold.dimension, options)


def systems(scores: Scores, level: str, dimension: str, options: argparse.Namespace) -> None:
    """Print how the means of systems go with the means of their ratings."""
    found = study(
        scores.where(level=level),
        level="system",
        dimension=dimension,
        resamples=options.resamples,
        permutations=1,
        seed=options.seed,
    ).to_dict()
    for row in found["correlations"]:
        print(f"systems: {row['label']}\t{row['n']}\t{interval(row['pearson'])}\t{interval(row['spearman'])}")


def controls(scores: Scores, level: str, dimension: str) -> None:
    """Print the correlation with length held fixed, and inside systems."""
    gold: dict[tuple[str, int | None], list[float]] = {}
    quality, length, system = {}, {}, {}
    for row in scores.where(level=level):
        key = (row.dialogue_id, row.turn)
        if row.source.startswith("human") and row.dimension == dimension and row.value is not None:
            gold.setdefault(key, []).append(row.value)
        elif row.source == "quality":
            quality[key], system[key] = row.value, row.system
        elif row.source == "turns":
            length[key] = row.value
    keys = [key for key in quality if key in gold]
    y = np.array([np.mean(gold[key]) for key in keys])
    x, n = np.array([quality[key] for key in keys]), np.array([length[key] for key in keys])
    held = [partial(*map(scale, (x, y, n))) for scale in (np.asarray, stats.rankdata)]
    inside = [
        spearman(x[own], y[own]).value
        for name in sorted({system[key] for key in keys if system[key]})
        if (own := np.array([system[key] == name for key in keys])).sum() >= 10
    ]
    within = [value for value in inside if value is not None]
    mean = f"{np.mean(within):.3f} over {len(within)} systems" if within else "no systems are named"
    print(f"partial {shown(held[0])} / {shown(held[1])}; within systems, Spearman: {mean}")


def ablation(lab: Lab, name: str, level: str, seed: int) -> None:
    """Print Pearson and Spearman on the left-out set, with each part left out and with less to learn from."""
    others, names = lab.others(name, level), NAMES[level]
    reader = lab.reader({name, *overlap_group(name)})
    tested = {one.id for one in test_dialogues(name)}
    given = lab.sets[name].ratings[level]
    rows = [
        (parts, found.shares, given[found.dialogue.id, place])
        for found in lab.parts(name, reader)
        if found.dialogue.id in tested and found.turns
        for place, parts in ({None: found.whole} if level == "dialogue" else found.turns).items()
        if (found.dialogue.id, place) in given
    ]
    y = np.array([rating for *_, rating in rows])

    def figures(blend: Blend) -> str:
        x = np.array([blend.score(level, parts, shares) for parts, shares, _ in rows])
        return f"{np.corrcoef(x, y)[0, 1]:.3f} / {spearman(x, y).value:.3f}"

    print(f"\n## {name}, {level}\nall\t{figures(lab.fit(name, level, names, others))}")
    for part in names:
        left = tuple(one for one in names if one != part)
        print(f"without {part}\t{figures(lab.fit(name, level, left, others))}")
    chance = np.random.default_rng(seed)
    if len(others) > 1:
        for _ in range(10):
            some = sorted(chance.choice(others, max(1, len(others) // 2), replace=False).tolist())
            print(f"fitted on {', '.join(some)}\t{figures(lab.fit(name, level, names, some))}")
    blend = lab.fit(name, level, names, others)
    equal = [
        type(term)(term.part, term.mean, term.scale, dict.fromkeys(term.weights, 1.0))
        for term in blend.terms[level]
    ]
    print(f"equal weights\t{figures(Blend({level: tuple(equal)}))}")


def partial(x: np.ndarray, y: np.ndarray, control: np.ndarray) -> float:
    """Correlate what is left of both when a straight line in the control is taken out."""
    design = np.column_stack([np.ones(len(x)), control])
    left, right = (row - design @ np.linalg.lstsq(design, row, rcond=None)[0] for row in (x, y))
    return float(stats.pearsonr(left, right).statistic)


def shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def interval(estimate: dict) -> str:
    if estimate["value"] is None:
        return estimate["reason"] or "-"
    return f"{shown(estimate['value'])} [{shown(estimate['low'])}, {shown(estimate['high'])}]"


def gap(ahead: bool, estimate: dict) -> str:
    """Say how far `quality` is above another source; the study names the one with more first."""
    if estimate["value"] is None:
        return estimate["reason"] or "-"
    sign = 1 if ahead else -1
    ends = [sign * end for end in (estimate["low"], estimate["high"]) if end is not None]
    told = f" [{min(ends):.3f}, {max(ends):.3f}]" if ends else ""
    return f"{sign * estimate['value']:.3f}{told}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="*", help="which to leave out and measure; by default all")
    parser.add_argument("--resamples", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ablation", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(rated_sets(), Path(folder))
        for name in options.sets or rated_sets():
            for level in LEVELS:
                if lab.sets[name].ratings.get(level):
                    if options.ablation:
                        ablation(lab, name, level, options.seed)
                    else:
                        measure(lab, name, level, options)


if __name__ == "__main__":
    main()
