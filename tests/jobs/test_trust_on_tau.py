"""The tau-bench case: a judge's own interval misses every agent, prediction-powered intervals do not."""

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

from dialeval.statistics.prediction_powered import mean_of, prediction_powered

DATA = Path(os.environ.get("DIALEVAL_DATA", "../shared/data")) / "tau"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="tau is not in DIALEVAL_DATA")


@pytest.fixture(scope="module")
def tau() -> tuple[np.ndarray, ...]:
    """Return outcomes, GPT-4o's verdicts, numbers of messages, agents and tasks of the retail dialogues."""
    path = Path(__file__).parents[2] / "benchmarks" / "trust.py"
    spec = importlib.util.spec_from_file_location("trust_benchmark", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    chats, rewards, judge = made.tau()
    tasks = np.unique([one.id for one in chats], return_inverse=True)[1]
    return rewards, judge, np.array([len(c.turns) for c in chats]), np.array([c.system for c in chats]), tasks


def test_the_judge_alone_misses_all_agents(tau: tuple[np.ndarray, ...]) -> None:
    rewards, judge, _, agents, _ = tau
    asked = ~np.isnan(judge)
    assert (rewards.size, round(rewards.mean(), 3), np.unique(agents[asked]).size) == (1265, 0.282, 5)
    for agent in np.unique(agents[asked]):
        own = asked & (agents == agent)
        found = mean_of(judge[own]).estimate()
        assert not found.low <= rewards[own].mean() <= found.high


@pytest.mark.parametrize("source", ["gpt-4o", "fewer messages"])
def test_with_labels_it_covers(tau: tuple[np.ndarray, ...], source: str) -> None:
    """200 draws of 100 outcomes, seed 0."""
    rewards, judge, messages, _, tasks = tau
    values = judge if source == "gpt-4o" else -messages.astype(float)
    own, rng = np.flatnonzero(~np.isnan(values)), np.random.default_rng(0)
    hits = []
    for _ in range(200):
        labels = np.full(values.size, np.nan)
        chosen = rng.choice(own, 100, replace=False)
        labels[chosen] = rewards[chosen]
        found = prediction_powered(labels, values, tasks).estimate()
        hits.append(found.low <= rewards[own].mean() <= found.high)
    assert np.mean(hits) >= 0.93
