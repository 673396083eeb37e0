"""Agents of tau-bench retail: declared goals, rules and the learned estimate beside the verified outcome.

    DIALEVAL_DATA=… python benchmarks/agents.py

Goals are the tasks' own expected actions. AUC: how often a successful dialogue scores higher than a failed
one of the same agent, ties half, over the pairs of all agents. Intervals draw whole tasks. The estimate is
one of weights that have not seen the agent, or the task, or either; so is the line that makes probabilities.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tau_rules import within_auc

from dialeval.dialogues import Dialogue
from dialeval.dialogues.datasets import public_set
from dialeval.dialogues.datasets.modern import _trajectories
from dialeval.dialogues.formats import read
from dialeval.dialogues.tasks.goals import AgentGoal, ExpectedCall, GoalFile
from dialeval.metrics.agent import Agent, Goals
from dialeval.metrics.agent_calls import kind_of
from dialeval.metrics.outcome import FEATURES, rows_of, stacked
from dialeval.statistics import calibration, cohen_kappa, kfold_groups
from dialeval.training.outcome_recipe import HEAD, OutcomeExample, fit_outcome

Figures = NDArray[np.float64]
PENALTY, FOLDS, DRAWS = 0.03, 5, 300


def goals_of(folder: Path) -> Goals:
    """Declare the expected actions of each task that change something, and what must be said."""
    made = {}
    for _, _, record in _trajectories(folder):
        if task := record["info"].get("task"):
            calls = [ExpectedCall(one["name"], one["kwargs"]) for one in task["actions"]]
            kept = tuple(one for one in calls if kind_of(one.name) == "write")
            made[str(record["task_id"])] = AgentGoal(kept, tuple(task["outputs"]))
    return Goals(GoalFile(made, by="task_id"), "tau")


def held_out(
    rows: Figures, outcome: Figures, agents: Figures, parts: Sequence[tuple[Figures, Figures]]
) -> Figures:
    """Return the probability of each dialogue by weights fitted without it; parts: (held, learned from)."""
    made = [
        OutcomeExample(row, {HEAD.name: y}, agent=str(a))
        for row, y, a in zip(rows, outcome, agents, strict=True)
    ]
    found = np.full(len(rows), np.nan)
    for held, learned in parts:
        fitted = fit_outcome([made[place] for place in np.flatnonzero(learned)], PENALTY)
        found[held] = fitted.predict([made[place] for place in np.flatnonzero(held)])[HEAD.name]
    return found


def judged(dialogues: list[Dialogue]) -> Figures:
    """Return the mean of what GPT-4o said of a dialogue's replies, NaN where it was not asked."""
    given: dict[str, list[float]] = {}
    for row in public_set("tau-retail").peer_scores():
        if row.value is not None:
            given.setdefault(row.dialogue_id, []).append(row.value)
    return np.array([np.mean(given[one.id]) if one.id in given else np.nan for one in dialogues])


def shown(
    values: Figures, failed: Figures, agents: Figures, tasks: Figures, draws: Figures, kept: Figures
) -> str:
    """Return the AUC within agents, with an interval that draws whole tasks."""
    kept = kept & ~np.isnan(values)
    if len(np.unique(failed[kept])) < 2:
        return "-"
    rows = (-values[kept], failed[kept], agents[kept])  # higher is better; the AUC is of failures
    drawn = [within_auc(*rows, one[tasks[kept]].astype(float)) for one in draws]
    low, high = np.nanpercentile(drawn, [2.5, 97.5])
    return f"{within_auc(*rows, np.ones(kept.sum())):.2f} [{low:.2f}, {high:.2f}]"


def main() -> None:
    """Print the tables of docs/metrics/agent.md, goal.md and outcome.md."""
    folder = Path(os.environ["DIALEVAL_DATA"]) / "tau"
    dialogues = list(read("tau-retail"))
    truth = {row.dialogue_id: row.value for row in public_set("tau-retail").ratings()}
    outcome = np.array([truth[one.id] for one in dialogues])
    names, agents = np.unique([one.system for one in dialogues], return_inverse=True)
    tasks = np.array([int(one.meta["task_id"]) for one in dialogues])
    goals = goals_of(folder)
    verdicts = np.array([float(bool(goals.judge(one).success)) for one in dialogues])
    same = (verdicts == outcome).mean()
    print(f"goals: agreement {same:.3f}, kappa {cohen_kappa(verdicts, outcome).value:.3f}, n {len(outcome)}")
    print(f"  success by goals {verdicts.mean():.3f}, by reward {outcome.mean():.3f}")

    rows = stacked(rows_of(dialogues), FEATURES).astype(float)
    by_task = kfold_groups(tasks, FOLDS)
    places = range(len(names))
    one_agent = [(agents == a, agents != a) for a in places]
    some_tasks = [(by_task == f, by_task != f) for f in range(FOLDS)]
    either = [
        ((agents == a) & (by_task == f), (agents != a) & (by_task != f)) for a in places for f in range(FOLDS)
    ]
    estimate = {
        "outcome, other agents": held_out(rows, outcome, agents, one_agent),
        "outcome, other tasks": held_out(rows, outcome, agents, some_tasks),
        "outcome, other agents and tasks": held_out(rows, outcome, agents, either),
    }
    found = Agent().score(dialogues)
    figures: dict[str, Figures] = {}
    for name in Agent.dimensions:
        given = {row.dialogue_id: row.value for row in found.where(dimension=name)}
        figures[name] = np.array([np.nan if given[one.id] is None else -given[one.id] for one in dialogues])
    figures["fewer messages"] = -np.array([float(len(one.turns)) for one in dialogues])
    figures["GPT-4o, mean of replies"] = judged(dialogues)
    calling = np.array([name.startswith("tool-calling") for name in names])[agents]
    count = int(tasks.max()) + 1
    draws = np.random.default_rng(7).multinomial(count, np.full(count, 1 / count), DRAWS)
    print("| score | 4 tool-calling agents | 7 ReAct agents | all |")
    for name, values in {**figures, **estimate, "goal": verdicts}.items():
        cells = [
            shown(values, 1 - outcome, agents, tasks, draws, kept)
            for kept in (calling, ~calling, calling | True)
        ]
        print(f"| `{name}` | {' | '.join(cells)} |")

    chance = estimate["outcome, other agents"]
    print(f"Brier {np.mean((chance - outcome) ** 2):.3f}, of the mean {outcome.var():.3f}")
    for part in calibration(chance, outcome, bins=8):
        print(part)
    print("| agent | ended by the user | estimate | verified |")
    for place, name in enumerate(names):
        here = agents == place
        means = (rows[here, 0].mean(), chance[here].mean(), outcome[here].mean())
        print(f"| {name} | {' | '.join(f'{mean:.2f}' for mean in means)} |")


if __name__ == "__main__":
    main()
