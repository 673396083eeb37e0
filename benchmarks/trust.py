"""How far trust can be trusted: verified outcomes of tau-bench, 19 raters of STC-3, votes of MT-Bench.

    DIALEVAL_DATA=… python benchmarks/trust.py [--draws 1000] [--scores FOLDER]

*tau*: 1,265 retail dialogues of 11 agents with a verified outcome. Labels are outcomes of random dialogues,
the rest is hidden; how often does the interval hold the true success rate, and how wide is it? For `quality`,
for `rules` (share of replies that none of them finds fault with), for "fewer messages", and for
GPT-4o as a judge of turns where it was asked. Tasks are clusters: all agents did the same ones.
*stc3*: what is `user-reaction` worth in labels of helpdesk dialogues, and may it replace one of 19 raters?
The power that `plan` predicts and the share of draws that find a difference; how often `check` cries wolf.
*mtbench*: six judges by the alternative annotator test, beside what its authors published.

`--scores` keeps the scores of `quality` and `user-reaction` between calls.
"""

import argparse
import gzip
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dialeval.dialogues import Dialogue, dialogue
from dialeval.dialogues.datasets import public_set
from dialeval.metrics import score
from dialeval.scores import Scores
from dialeval.statistics.alternative_annotator import alternative_annotator, floor
from dialeval.statistics.power import Precision
from dialeval.statistics.prediction_powered import calibrated, mean_of, prediction_powered, worth_in_labels
from dialeval.studies.units import align, human_columns

DATA = Path(os.environ.get("DIALEVAL_DATA", "../shared/data"))


# --- tau ----------------------------------------------------------------------------------------------------


def agents() -> Iterator[tuple[str, list[dict]]]:
    for path in sorted((DATA / "tau").glob("*.json.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            yield path.name.removesuffix(".gz"), json.load(file)


def spoken(trajectory: list[dict]) -> list[tuple[str, str]]:
    """What user and agent said to each other; of a ReAct agent, what it answered with."""
    said = []
    for one in trajectory:
        text = one.get("content") or ""
        if one["role"] == "assistant" and "Action:" in text:
            try:
                action = json.loads(text.split("Action:", 1)[1])
            except ValueError:
                continue
            if not isinstance(action, dict) or action.get("name") != "respond":
                continue
            text = str(action.get("arguments", {}).get("content", ""))
        is_result = one["role"] == "user" and text.startswith("API output:")
        if one["role"] in ("user", "assistant") and text.strip() and not is_result:
            said.append((one["role"], text))
    return said


def tau() -> tuple[list[Dialogue], np.ndarray, np.ndarray]:
    """Return dialogues, outcomes, and GPT-4o's mean as a share of its scale (NaN where it was not asked)."""
    judged: dict[tuple[str, int], list[float]] = {}
    for line in (DATA / "tau" / "judge_gpt4o.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        judged.setdefault((row["file"], row["task_id"]), []).append(row["value"])
    chats, rewards, verdicts = [], [], []
    for name, runs in agents():
        system = re.sub(r"-0\.0_range.*", "", name)
        for run in runs:
            chats.append(dialogue(spoken(run["traj"]), f"task-{run['task_id']}", system=system))
            rewards.append(float(run["reward"]))
            values = judged.get((name, run["task_id"]))
            verdicts.append(np.nan if not values else (np.mean(values) - 1) / 4)
    return chats, np.array(rewards), np.array(verdicts)


def faultless(scores: Scores, chats: list[Dialogue]) -> np.ndarray:
    """Return the share of replies of each dialogue that no rule finds fault with."""
    units = align(scores.where(level="turn"), "turn")
    fine = np.max(list(units.columns.values()), axis=0) < 0.5
    found = defaultdict(list)
    for key, value in zip(units.keys, fine, strict=True):
        found[key[:2]].append(value)
    return np.array([np.mean(found.get((one.id, one.system), [np.nan])) for one in chats])


def kept(folder: Path | None, name: str, chats: list[Dialogue], metric: str) -> Scores:
    """Score dialogues, or read what was scored before."""
    path = None if folder is None else folder / f"{name}.parquet"
    if path is not None and path.exists():
        return Scores.read(path)
    found = score(chats, metric)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        found.write(path)
    return found


def by_dialogue(scores: Scores, chats: list[Dialogue], dimension: str | None = None) -> np.ndarray:
    units = align(scores, "dialogue")
    column = next(c for c in units.columns if dimension in (None, c.dimension))
    found = {key[:2]: value for key, value in zip(units.keys, units.columns[column], strict=True)}
    return np.array([found.get((one.id, one.system), np.nan) for one in chats])


def covered(estimate, truth: float) -> bool:
    return estimate.low is not None and estimate.low <= truth <= estimate.high


def measure_tau(draws: int, folder: Path | None) -> None:
    chats, rewards, judge = tau()
    systems = np.array([one.system for one in chats])
    tasks = np.unique([one.id for one in chats], return_inverse=True)[1]
    sources = {
        "quality": by_dialogue(kept(folder, "tau-quality", chats, "quality"), chats),
        "rules": faultless(kept(folder, "tau-rules", chats, "rules"), chats),
        "fewer messages": -np.array([len(one.turns) for one in chats], dtype=float),
        "gpt-4o": judge,
    }
    print(f"\ntau retail: {len(chats)} dialogues, true success {rewards.mean():.3f}")
    for name, values in sources.items():
        own = ~np.isnan(values)
        r = np.corrcoef(values[own], rewards[own])[0, 1]
        print(f"\n{name}: scores {own.sum()}, r = {r:.3f} with the outcome")
        if name == "gpt-4o":
            naive = {s: mean_of(values[own & (systems == s)]).estimate() for s in np.unique(systems[own])}
            right = sum(covered(one, rewards[own & (systems == s)].mean()) for s, one in naive.items())
            said, true = values[own].mean(), rewards[own].mean()
            print(f"  naive: mean {said:.2f}, true {true:.2f}; covers {right} of {len(naive)} agents")
        for n in (30, 100, 300):
            _draws(values, rewards, tasks, systems, own, n, draws)


def _draws(values, rewards, tasks, systems, own, n: int, draws: int) -> None:
    """Draw n labels many times: the success of all agents together, and the naive one of each agent."""
    rng, truth = np.random.default_rng(n), rewards[own].mean()
    hits: dict[str, list[bool]] = {"naive, each agent": [], "labels": [], "PPI++": [], "isotonic": []}
    widths: dict[str, list[float]] = {name: [] for name in hits}
    worth = []
    for _ in range(draws):
        labels = np.full(values.size, np.nan)
        chosen = rng.choice(np.flatnonzero(own), n, replace=False)
        labels[chosen] = rewards[chosen]
        if np.ptp(rewards[chosen]) == 0:
            continue
        curve = calibrated(labels, values, tasks)
        found = {
            "labels": mean_of(labels, tasks),
            "PPI++": prediction_powered(labels, values, tasks),
            "isotonic": prediction_powered(labels, curve, tasks, bounds=(0, 1)),
        }
        worth.append(worth_in_labels(found["labels"], found["PPI++"]))
        for name, one in found.items():
            made = one.estimate()
            hits[name].append(covered(made, truth))
            widths[name].append(made.high - made.low)
        for system in np.unique(systems[own]):
            part = own & (systems == system)
            made = mean_of(curve[part], tasks[part]).estimate()
            hits["naive, each agent"].append(covered(made, rewards[part].mean()))
            widths["naive, each agent"].append(0.0 if made.low is None else made.high - made.low)
    figures = "; ".join(f"{k} {np.mean(v):.3f} (width {np.mean(widths[k]):.3f})" for k, v in hits.items())
    print(f"  {n} labels, {len(worth)} draws: coverage {figures}; worth {np.median(worth):.0f} labels")


# --- STC-3 --------------------------------------------------------------------------------------------------


def measure_stc3(draws: int, folder: Path | None) -> None:
    chosen = public_set("stc3")
    chats = list(chosen.dialogues())
    values = by_dialogue(kept(folder, "stc3-user-reaction", chats, "user-reaction"), chats)
    ratings = align(chosen.ratings(), "dialogue")
    order = {key.dialogue_id: place for place, key in enumerate(ratings.keys)}
    scored = ~np.isnan(values)
    places = [order[one.id] for one, known in zip(chats, scored, strict=True) if known]
    print(f"\nSTC-3: user-reaction scores {scored.sum()} of {len(chats)} dialogues, the rest is left out")
    values = values[scored]
    for dimension in dict.fromkeys(column.dimension for column in ratings.columns):
        seats = np.array([ratings.columns[c] for c in human_columns(ratings, dimension)]).T[places]
        truth = np.nanmean(seats, axis=1)
        r = np.corrcoef(values, truth)[0, 1]
        print(
            f"\nSTC-3 {dimension}: {len(truth)} dialogues, {seats.shape[1]} raters; user-reaction r = {r:.3f}"
        )
        rng = np.random.default_rng(1)
        for n, raters in ((100, 1), (100, 3), (100, 19), (300, 3)):
            worth = []
            for _ in range(draws):
                labels = np.full(truth.size, np.nan)
                some = rng.choice(truth.size, n, replace=False)
                labels[some] = np.nanmean(
                    seats[some][:, rng.choice(seats.shape[1], raters, replace=False)], axis=1
                )
                worth.append(worth_in_labels(mean_of(labels), prediction_powered(labels, values)))
            low, middle, high = np.quantile(worth, (0.05, 0.5, 0.95))
            print(f"  {n} labels of {raters} raters: worth {middle:.0f} labels ({low:.0f} to {high:.0f})")
        curve = calibrated(truth, values)
        options = {"alignment": "distance", "epsilon": 0.1}
        judge = alternative_annotator(curve, seats, **options)
        for name, said in (("user-reaction", judge), ("constant", floor(seats, **options))):
            print(f"  {name}: winning rate {said.winning_rate:.2f}, advantage {said.advantage:.2f}")
        measure_power(truth, values, dimension, draws)
    measure_gate(kept(folder, "stc3-user-reaction", chats, "user-reaction"), draws)


def measure_power(truth: np.ndarray, values: np.ndarray, dimension: str, draws: int) -> None:
    """Two halves of the dialogues as two systems, one of them better by so much; n labels of each."""
    rng = np.random.default_rng(2)
    sd, r = float(np.std(truth, ddof=1)), float(np.corrcoef(values, truth)[0, 1])
    half = truth.size // 2
    difference = 0.4 * sd
    for n in (50, 100, 150):
        for name, weight, precision in (
            ("labels alone", 0.0, Precision(sd, scored=half)),
            ("with user-reaction", None, Precision(sd, abs(r), half)),
        ):
            found = 0
            for _ in range(draws):
                order = rng.permutation(truth.size)
                sides = []
                for side, shift in ((order[:half], difference), (order[half:], 0.0)):
                    labels = np.full(truth.size, np.nan)
                    labels[side[:n]] = truth[side[:n]] + shift
                    scores = np.full(truth.size, np.nan)
                    scores[side] = values[side]
                    sides.append(prediction_powered(labels, scores, weight=weight))
                found += (sides[0] - sides[1]).estimate().p < 0.05
            predicted = precision.power(difference, n)
            print(
                f"  power, {dimension}, {n} labels a system, {name}: predicted {predicted:.3f}, "
                f"realised {found / draws:.3f}"
            )


def measure_gate(scores: Scores, draws: int) -> None:
    from dialeval.studies.planning import false_alarms

    for seed in (0, 1, 2):
        found = false_alarms(scores, splits=draws, seed=seed)
        ends = f"[{found.low:.3f}, {found.high:.3f}]"
        print(f"  A/A of check at .05, {draws} random halves, seed {seed}: {found.value:.3f} {ends}")


# --- MT-Bench -----------------------------------------------------------------------------------------------


def measure_mtbench() -> None:
    folder = DATA / "judges" / "mtbench"
    people, judges = (
        json.loads((folder / f"{who}_annotations.json").read_text()) for who in ("human", "llm")
    )
    codes = {"model_a": 0.0, "model_b": 1.0, "tie": 2.0}
    items = sorted({item for one in people.values() for item in one})
    table = np.array([[codes.get(one.get(item, ""), np.nan) for one in people.values()] for item in items])
    print("\nMT-Bench, 3 raters, ε = .2")
    for name, said in judges.items():
        found = alternative_annotator([codes[said[item]] for item in items], table)
        print(f"  {name}: winning rate {found.winning_rate:.2f}, advantage {found.advantage:.2f}")
    found = floor(table)
    print(f"  always the same: winning rate {found.winning_rate:.2f}, advantage {found.advantage:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--scores", type=Path)
    asked = parser.parse_args()
    measure_mtbench()
    measure_stc3(asked.draws, asked.scores)
    measure_tau(asked.draws, asked.scores)


if __name__ == "__main__":
    main()
