"""Weak Agreement and Voted Appropriateness: on DBDC3 with annotators as wizards, and on invented systems.

    python benchmarks/votes.py [--repetitions 100] [--seed 0]

*dbdc3*: thirty people said of every system turn whether it is a breakdown. In each repetition four of them,
drawn anew for each dialogue, are the wizards (a vote is "not a breakdown"), and the mean of the others is the
rating. Both measures are then correlated with the rating over turns and over the four systems; the line of
Voted Appropriateness is always fitted without the dialogue it speaks about. What is printed is the mean over
repetitions and the middle 95 % of them; beside it, for the first repetition, the interval over dialogues.

A second round takes "possibly a breakdown" for a vote as well.

*synthetic*: seven invented systems, a known line. How often do the intervals of the fit hold it, and when is
the graded measure better than the plain one? When a further vote means more than half of what it could.
"""

import argparse
from dataclasses import dataclass

import numpy as np

from dialeval.dialogues.datasets import public_set
from dialeval.statistics import bootstrap_correlations, ols, pearson, ridge_out_of_group

WIZARDS = 4
LOW, HIGH = 1.0, 5.0  # equation 1


@dataclass(frozen=True)
class Replies:
    """Replies with votes and ratings; `dialogues` and `systems` are numbers."""

    votes: np.ndarray
    ratings: np.ndarray
    dialogues: np.ndarray
    systems: np.ndarray


def weak(votes: np.ndarray) -> np.ndarray:
    return np.where(votes > 0, HIGH, LOW)


def voted(replies: Replies) -> np.ndarray:
    """Equation 2, each dialogue by a line fitted to all the others."""
    return ridge_out_of_group(replies.votes[:, None], replies.ratings, replies.dialogues, alpha=0.0)


def correlation(x: np.ndarray, y: np.ndarray) -> float:
    value = pearson(x, y).value
    return np.nan if value is None else value


def by_system(values: np.ndarray, systems: np.ndarray) -> np.ndarray:
    return np.array([values[systems == one].mean() for one in np.unique(systems)])


def both(replies: Replies) -> dict[str, float]:
    """Pearson of both measures with ratings, over replies and over systems."""
    found = {}
    for name, values in (("weak", weak(replies.votes)), ("voted", voted(replies))):
        found[f"{name} response"] = correlation(values, replies.ratings)
        found[f"{name} system"] = correlation(
            by_system(values, replies.systems), by_system(replies.ratings, replies.systems)
        )
    return found


# --- DBDC3 --------------------------------------------------------------------------------------------------


def labelled() -> dict[str, tuple[str, np.ndarray]]:
    """Return, for each dialogue, its system and a table of labels, turns by raters (NaN: none)."""
    rows: dict[str, dict[tuple[int, str], float]] = {}
    systems: dict[str, str] = {}
    for row in public_set("dbdc3").ratings():
        if row.value is not None and row.turn is not None:
            rows.setdefault(row.dialogue_id, {})[row.turn, row.source] = row.value
            systems[row.dialogue_id] = row.system or ""
    found = {}
    for name, cells in rows.items():
        turns, raters = sorted({turn for turn, _ in cells}), sorted({rater for _, rater in cells})
        table = np.full((len(turns), len(raters)), np.nan)
        for (turn, rater), value in cells.items():
            table[turns.index(turn), raters.index(rater)] = value
        found[name] = systems[name], table
    return found


def drawn(tables: dict[str, tuple[str, np.ndarray]], seed: int, vote: float = 1.0) -> Replies:
    """Let four annotators of each dialogue be its wizards; a label of `vote` or more is a vote."""
    rng = np.random.default_rng(seed)
    names = sorted({system for system, _ in tables.values()})
    votes, ratings, dialogues, systems = [], [], [], []
    for number, name in enumerate(sorted(tables)):
        system, table = tables[name]
        chosen = rng.permutation(table.shape[1])[:WIZARDS]
        others = np.delete(table, chosen, axis=1)
        votes.append((table[:, chosen] >= vote).sum(axis=1))
        ratings.append(np.nanmean(others, axis=1))
        dialogues.append(np.full(len(table), number))
        systems.append(np.full(len(table), names.index(system)))
    parts = (np.concatenate(one).astype(float) for one in (votes, ratings, dialogues, systems))
    return Replies(*parts)


def on_dbdc3(repetitions: int, seed: int, vote: float) -> None:
    tables = labelled()
    first = drawn(tables, seed, vote)
    what = "not a breakdown" if vote == 1.0 else "not, or only possibly, a breakdown"
    print(f"dbdc3, a vote is {what}: {len(tables)} dialogues, {len(first.votes)} turns, 4 systems, ", end="")
    print(f"{repetitions} repetitions")
    found = [both(drawn(tables, seed + number, vote)) for number in range(repetitions)]
    for key, paper in (
        ("weak response", 0.485),
        ("voted response", 0.479),
        ("weak system", 0.803),
        ("voted system", 0.893),
    ):
        values = np.array([one[key] for one in found])
        low, high = np.quantile(values, (0.025, 0.975))
        print(f"  {key:15} {values.mean():.3f} [{low:.3f}, {high:.3f}]   (in the paper, other data: {paper})")
    better = np.mean([one["voted response"] > one["weak response"] for one in found])
    print(f"  voted above weak over turns in {better:.0%} of repetitions")
    data = np.vstack([weak(first.votes), voted(first)])
    sure = bootstrap_correlations(data, first.ratings, first.dialogues, resamples=2000)["pearson"]
    for name, one in zip(("weak", "voted"), sure, strict=True):
        print(f"  first repetition, over dialogues: {name} {one.value:.3f} [{one.low:.3f}, {one.high:.3f}]")
    line = ols(first.votes, first.ratings)
    intercept, slope = line.coefficients
    print(f"  its line: {intercept.value:.3f} + {slope.value:.3f} V, R2 {line.r_squared:.3f}, ", end="")
    print(f"no vote at all: {np.mean(first.votes == 0):.0%} of turns")


# --- synthetic ----------------------------------------------------------------------------------------------

INTERCEPT, SLOPE = 2.2, 0.6
SYSTEMS, DIALOGUES, TURNS, NOISE = 7, 5, 11, 0.8  # 385 replies, near the paper's 397


def invented(seed: int, graded: float = 1.0) -> Replies:
    """Seven systems that differ in how often they say something chosen, and in how widely it was chosen.

    Args:
        seed: Of everything that is drawn.
        graded: What a rating depends on: 1 on the number of votes, 0 only on whether there is one.
    """
    rng = np.random.default_rng(seed)
    chosen, share = rng.uniform(0.3, 0.95, SYSTEMS), rng.uniform(0.1, 0.9, SYSTEMS)
    systems = np.repeat(np.arange(SYSTEMS), DIALOGUES * TURNS)
    dialogues = np.tile(np.repeat(np.arange(DIALOGUES), TURNS), SYSTEMS)
    has_vote = rng.random(systems.size) < chosen[systems]
    votes = np.where(has_vote, 1 + rng.binomial(WIZARDS - 1, share[systems]), 0)
    mean_votes = 1 + (WIZARDS - 1) * share.mean()
    effect = graded * votes + (1 - graded) * mean_votes * has_vote
    ratings = INTERCEPT + SLOPE * effect + rng.normal(0, NOISE, systems.size)
    return Replies(votes.astype(float), ratings, dialogues.astype(float), systems.astype(float))


def coverage(studies: int, seed: int) -> tuple[float, float, float, float]:
    """Share of intervals that hold the true intercept and slope, and the mean of both estimates."""
    held, values = np.zeros(2), np.zeros(2)
    for number in range(studies):
        replies = invented(seed + number)
        for place, (one, true) in enumerate(
            zip(ols(replies.votes, replies.ratings).coefficients, (INTERCEPT, SLOPE), strict=True)
        ):
            held[place] += one.low <= true <= one.high
            values[place] += one.value
    return (*(held / studies), *(values / studies))


def overtaking(studies: int, seed: int) -> list[tuple[float, dict[str, float], float]]:
    """Mean correlations, and how often voted is above weak over systems, as votes come to matter."""
    rows = []
    for graded in (0.0, 0.25, 0.5, 0.75, 1.0):
        found = [both(invented(seed + number, graded)) for number in range(studies)]
        means = {key: float(np.nanmean([one[key] for one in found])) for key in found[0]}
        rows.append(
            (graded, means, float(np.mean([one["voted system"] > one["weak system"] for one in found])))
        )
    return rows


def on_synthetic(studies: int, seed: int) -> None:
    held = coverage(studies, seed)
    print(f"synthetic: {SYSTEMS} systems, {SYSTEMS * DIALOGUES * TURNS} replies, {studies} studies")
    print(f"  truth {INTERCEPT} + {SLOPE} V; mean estimate {held[2]:.3f} + {held[3]:.3f} V; ", end="")
    print(f"95 % intervals hold the intercept in {held[0]:.1%}, the slope in {held[1]:.1%}")
    print("  graded  weak resp.  voted resp.  weak system  voted system  voted above weak (systems)")
    for graded, means, share in overtaking(studies, seed):
        print(
            f"  {graded:6.2f}  {means['weak response']:10.3f}  {means['voted response']:11.3f}"
            f"  {means['weak system']:11.3f}  {means['voted system']:12.3f}  {share:.0%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    for vote in (1.0, 0.5):
        on_dbdc3(asked.repetitions, asked.seed, vote)
    on_synthetic(asked.repetitions * 5, asked.seed)


if __name__ == "__main__":
    main()
