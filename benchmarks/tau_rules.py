"""Rules against the reward of tau-bench retail, within each agent, beside "fewer messages".

    DIALEVAL_DATA=… python benchmarks/tau_rules.py

AUC: how often a failed dialogue has more findings of a rule than a successful one of the same agent, ties
half, over the pairs of all agents. Intervals draw whole tasks: the dialogues of a task stay together.
"""

import os
from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dialeval.dialogues.formats import read
from dialeval.metrics.rules import RULES, replies

Figures = NDArray[np.float64]


def dialogues(folder: Path) -> list[tuple[str, int, float, dict[str, float]]]:
    """Return agent, task, reward and figures of every trajectory."""
    found = []
    for path in sorted(folder.glob("*-retail.json.gz")) + sorted(folder.glob("*_retail.json.gz")):
        for one in read(path, note=print):
            counts: Counter[str] = Counter()
            for _, reply in replies(one):
                counts.update(name for name, rule in RULES.items() if rule(reply))
            figures = {name: float(counts[name]) for name in RULES}
            figures["any rule"] = float(sum(counts.values()))
            figures["messages"] = float(len(one.turns))
            found.append((path.name, int(one.meta["task_id"]), float(one.meta["reward"]), figures))
    return found


def within_auc(values: Figures, failed: Figures, agents: Figures, weights: Figures) -> float:
    """Return the AUC over pairs of one agent's dialogues, each dialogue weighted by its task's draws."""
    won = pairs = 0.0
    for agent in np.unique(agents):
        here = agents == agent
        bad, good = here & (failed == 1), here & (failed == 0)
        more = (values[bad][:, None] > values[good]) + 0.5 * (values[bad][:, None] == values[good])
        both = weights[bad][:, None] * weights[good]
        won, pairs = won + float((more * both).sum()), pairs + float(both.sum())
    return won / pairs


def main() -> None:
    """Print a line for each rule."""
    found = dialogues(Path(os.environ["DIALEVAL_DATA"]) / "tau")
    names, agents = np.unique([one[0] for one in found], return_inverse=True)
    tasks = np.array([one[1] for one in found])
    failed = np.array([1.0 - one[2] for one in found])
    print(f"{len(found)} dialogues of {len(names)} agents, {int((failed == 0).sum())} with reward 1")
    n_tasks = int(tasks.max()) + 1
    drawn = np.random.default_rng(7).multinomial(n_tasks, np.full(n_tasks, 1 / n_tasks), 300)
    calling = np.array([name.startswith("tool-calling") for name in names])[agents]
    print(f"{'':22} dialogues   AUC: 4 tool-calling agents   7 ReAct agents")
    for name in (*RULES, "any rule", "messages"):
        values = np.array([one[3][name] for one in found])
        cells = [f"{int((values > 0).sum()):9}"]
        for here in (calling, ~calling):
            held = values[here], failed[here], agents[here]
            draws = [within_auc(*held, draw[tasks[here]].astype(float)) for draw in drawn]
            low, high = np.quantile(draws, (0.025, 0.975))
            cells.append(f"{within_auc(*held, np.ones(int(here.sum()))):.3f} [{low:.3f}, {high:.3f}]")
        print(f"{name:22} {'   '.join(cells)}")


if __name__ == "__main__":
    main()
