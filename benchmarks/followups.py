"""How much `followup` depends on which follow-ups are asked, and on how the dialogue is written down.

    python benchmarks/followups.py [--draws 20] [--templates chatml prefixes …] [--limit N]

Dialogues of FED, overall rating, Pearson / Spearman. Every follow-up is asked once for each template; then
the shipped set, halves of it that are drawn at random (of the friendly and of the annoyed ones alike), and
the friendly or annoyed ones alone are contrasted. Nothing is chosen by it. Needs `dialeval models pull
smollm2-135m-instruct`; some minutes of one core for each template.
"""

import argparse

import numpy as np

from dialeval.dialogues.datasets import public_set
from dialeval.dialogues.splits import portion
from dialeval.metrics.followup import load_sets
from dialeval.models.language_model import DEFAULT, open_model
from dialeval.models.likelihood import Position, templates
from dialeval.statistics import pearson, spearman


def likelihoods(name: str, dialogues: list, said: tuple[str, ...]) -> np.ndarray:
    """Return the mean log-likelihood of every follow-up (a column) after every dialogue (a row)."""
    model, template = open_model(DEFAULT), templates()[name]
    asked = [Position(None, "user")]
    return np.array([model.answer(one, asked, said, template, 1024)[0].means for one in dialogues])


def figures(values: np.ndarray, ratings: np.ndarray) -> tuple[float, float]:
    return pearson(values, ratings).value, spearman(values, ratings).value


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--templates", nargs="*", default=["chatml", "chatml-bare", "prefixes"])
    parser.add_argument("--limit", type=int, help="dialogues, the first ones")
    options = parser.parse_args()
    given: dict[str, list[float]] = {}
    for row in public_set("fed").ratings().where(level="dialogue", dimension="overall"):
        if row.value is not None:
            given.setdefault(row.dialogue_id, []).append(row.value)
    dialogues = [one for one in portion("fed", "test") if one.id in given][: options.limit]
    ratings = np.array([np.mean(given[one.id]) for one in dialogues])
    shipped = load_sets("followups")["quality"]
    friendly, annoyed = len(shipped.positive), len(shipped.negative)
    print(f"{len(dialogues)} dialogues, {friendly} friendly and {annoyed} annoyed follow-ups")
    for name in options.templates:
        found = likelihoods(name, dialogues, shipped.positive + shipped.negative)
        good, bad = found[:, :friendly], found[:, friendly:]
        whole = figures(good.mean(axis=1) - bad.mean(axis=1), ratings)
        print(f"{name}\tall {whole[0]:.3f} / {whole[1]:.3f}", end="\t")
        chance, halves = np.random.default_rng(0), []
        for _ in range(options.draws):
            some = chance.choice(friendly, friendly // 2, replace=False)
            others = chance.choice(annoyed, annoyed // 2, replace=False)
            halves.append(figures(good[:, some].mean(axis=1) - bad[:, others].mean(axis=1), ratings))
        spread = [
            f"{middle:.3f} [{low:.3f}, {high:.3f}]"
            for low, middle, high in np.quantile(halves, [0, 0.5, 1], axis=0).T
        ]
        print(f"halves {' / '.join(spread)}", end="\t")
        for what, values in (("friendly alone", good.mean(axis=1)), ("annoyed alone", -bad.mean(axis=1))):
            alone = figures(values, ratings)
            print(f"{what} {alone[0]:.3f} / {alone[1]:.3f}", end="\t")
        print()


if __name__ == "__main__":
    main()
