"""The shipped reader of user reactions on hand-written cases, beside VADER.

    python benchmarks/user_reaction.py [--model dialeval-user-reaction]

*cases*: 280 exchanges of our own writing (`tests/metrics/reaction_cases.jsonl`), half of them displeased with
the reply. They were written apart from those that the model learned from, and are hard on purpose: 35 next
turns stand there twice, once under each label, and most of the fine ones have negative words. Shares are not
those of a log. VADER says displeased where its compound score is below zero (also tried: below -0.05).
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path

import numpy as np

from dialeval.models.reactions import DEFAULT, REACTIONS, Exchange, Reactions

CASES = Path(__file__).parent.parent / "tests" / "metrics" / "reaction_cases.jsonl"


def read_cases() -> tuple[list[Exchange], np.ndarray, list[str]]:
    rows = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    asked = [Exchange(row["before"] or "", row["reply"], row["next"]) for row in rows]
    return asked, np.array([row["label"] == "displeased" for row in rows]), [row["kind"] for row in rows]


def balanced(found: np.ndarray, truth: np.ndarray) -> float:
    return float((found[truth].mean() + (~found[~truth]).mean()) / 2)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=DEFAULT)
    model = Reactions.load(parser.parse_args().model)
    asked, truth, kinds = read_cases()
    ours = model.shares(asked).argmax(axis=1) == REACTIONS.index("displeased")
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    vader = SentimentIntensityAnalyzer()
    compound = np.array([vader.polarity_scores(one.next)["compound"] for one in asked])
    print(f"{model.name} {model.sha[:12]}: {len(asked)} cases, balanced accuracy (wanted: VADER + .20)")
    print(f"  dialeval {balanced(ours, truth):.3f}   VADER {balanced(compound < 0, truth):.3f}", end="")
    print(f"   VADER at -0.05 {balanced(compound < -0.05, truth):.3f}")
    twice = [sum(one.next == other.next for other in asked) > 1 for one in asked]
    print(f"  on the {sum(twice)} whose words stand there twice: {balanced(ours[twice], truth[twice]):.3f}")
    right = defaultdict(list)
    for kind, found, wanted in zip(kinds, ours, truth, strict=True):
        right[kind].append(found == wanted)
    for kind, some in sorted(right.items(), key=lambda item: np.mean(item[1])):
        print(f"    {kind:20} {sum(some)} of {len(some)}")


if __name__ == "__main__":
    main()
