"""`faults` and `quality` on replies whose faults are known.

    python benchmarks/faults.py [--model FOLDER] [--parts unseen own abceval mtrag crsarena demo]

unseen, own: the dialogues of tests/metrics/unseen_faults.jsonl and of tests/metrics/faults.jsonl, by two
hands that wrote nothing of what was learned from. For each fault the area under
the ROC curve against good replies, recall where 5 % of those are accused, and for `quality` the share of
faulty replies below the good one in the same place, and the mean percentile among all good ones. abceval:
the visible half of ABC-Eval, balanced accuracy against the first annotator at the default and at the
best threshold, beside the second annotator; expected calibration error in ten bins. mtrag, crsarena: rank
correlation with faithfulness and relevance. demo: the bundled examples, systems compared in pairs.
"""

import argparse
from pathlib import Path

import numpy as np

from dialeval.dialogues import formats
from dialeval.dialogues.datasets import public_set
from dialeval.metrics.faults import COUNT, DEFAULT, FAULTLESS, Faults
from dialeval.metrics.quality import Quality
from dialeval.models.fault_reader import FaultReader
from dialeval.models.fault_weights import FAULTS
from dialeval.scores import is_human
from dialeval.statistics import spearman
from dialeval.training.fault_examples import marked

TESTS = Path(__file__).parents[1] / "tests" / "metrics"
LABELLED = {
    "contradicts-itself": "no-self-contradiction",
    "contradicts-user": "no-partner-contradiction",
    "ignores": "no-ignore",
    "off-topic": "no-irrelevant",
    "repeats": "no-redundant",
    "nonsense": "no-commonsense-contradiction",
    "unkind": "no-lack-of-empathy",
}


def auc(high: list[float], low: list[float]) -> float:
    one, other = np.array(high)[:, None], np.array(low)[None]
    return float(np.mean((one > other) + 0.5 * (one == other)))


def table(scores) -> dict[tuple[str, int | None, str], float]:
    return {(row.dialogue_id, row.turn, row.dimension): row.value for row in scores if row.value is not None}


def written(title: str, name: str, model: str) -> None:
    scenarios = list(formats.read(TESTS / name))
    every = [one for scenario in scenarios for one in marked(scenario)]
    dialogues = [one.dialogue for one in every]
    faults = table(Faults(model).score(dialogues))
    quality = table(Quality(reader=model).score(dialogues))
    good = [
        (one.dialogue.id, turn)
        for one in every
        if one.fault is None
        for turn, said in enumerate(one.dialogue.turns)
        if (one.dialogue.id, turn, FAULTLESS) in faults and said.speaker == "assistant"
    ]
    limits = {fault: one.threshold for fault, one in FaultReader.load(model).weights.items()}
    usual = sorted(quality[(*place, "quality")] for place in good if (*place, "quality") in quality)
    print(f"## {title}, {len(good)} good replies")
    print("fault\tn\tAUC\trecall at 5 %\tfound\tfalse\tquality below good\tpercentile among good replies")
    for fault in [*FAULTS, "any"]:
        places = [one for one in every if one.fault and fault in (one.fault.name, "any")]
        column, sign = (FAULTLESS, -1) if fault == "any" else (fault, 1)
        bad = [sign * faults[one.dialogue.id, one.fault.turn, column] for one in places]
        sound = [sign * faults[(*place, column)] for place in good if (*place, column) in faults]
        recall = float(np.mean(np.array(bad) > np.quantile(sound, 0.95)))
        twins = [
            (quality[wrong], quality[right])
            for one in places
            if (wrong := (one.dialogue.id, one.fault.turn, "quality")) in quality
            and (right := (one.dialogue.id.rpartition("-")[0], one.fault.turn, "quality")) in quality
        ]
        got, twin = zip(*twins, strict=True)
        below = float(np.mean([a < b for a, b in zip(got, twin, strict=True)]))
        rank = float(np.mean(np.searchsorted(usual, got) / len(usual)))
        counted, least = (COUNT, 1.0) if fault == "any" else (fault, limits[fault])
        found = np.mean([faults[one.dialogue.id, one.fault.turn, counted] >= least for one in places])
        false = np.mean([faults[(*place, counted)] >= least for place in good if (*place, counted) in faults])
        told = f"{fault}\t{len(places)}\t{auc(bad, sound):.3f}\t{recall:.2f}\t{found:.2f}\t{false:.3f}"
        print(f"{told}\t{below:.2f}\t{rank:.2f}")


def balanced(said: np.ndarray, truth: np.ndarray) -> float:
    return float((said[truth].mean() + (~said[~truth]).mean()) / 2)


def abceval(model: str) -> None:
    chosen = public_set("abceval")
    found = table(Faults(model).score(chosen.dialogues()))
    limits = {fault: one.threshold for fault, one in FaultReader.load(model).weights.items()}
    labels: dict[tuple[str, int | None, str], list[float]] = {}
    for row in chosen.ratings():
        if is_human(row.source) and row.value is not None:
            labels.setdefault((row.dialogue_id, row.turn, row.dimension), []).append(row.value)
    print("\n## abceval\nfault\tfaulty\tAUC\tdefault\tbest threshold\tsecond annotator\tcalibration error")
    for fault, dimension in LABELLED.items():
        places = [key for key in found if key[2] == fault and (*key[:2], dimension) in labels]
        given = [labels[(*key[:2], dimension)] for key in places]
        truth = np.array([one[0] < 0.5 for one in given])
        second = np.array([one[-1] < 0.5 for one in given])
        values = np.array([found[key] for key in places])
        best = max(balanced(values >= limit, truth) for limit in np.unique(values))
        default = balanced(values >= limits[fault], truth)
        area = auc(list(values[truth]), list(values[~truth]))
        print(
            f"{fault}\t{truth.sum()}\t{area:.3f}\t{default:.3f}\t{best:.3f}\t{balanced(second, truth):.3f}\t"
            f"{calibration_error(values, truth):.3f}"
        )


def calibration_error(values: np.ndarray, truth: np.ndarray, bins: int = 10) -> float:
    places = np.minimum((values * bins).astype(int), bins - 1)
    return float(
        sum(
            (own := places == one).mean() * abs(values[own].mean() - truth[own].mean())
            for one in range(bins)
            if (places == one).any()
        )
    )


def against(name: str, dimension: str, column: str, model: str) -> None:
    chosen = public_set(name)
    found = table(Faults(model).score(chosen.dialogues()))
    gold: dict[tuple[str, int | None], list[float]] = {}
    for row in chosen.ratings().where(dimension=dimension, level="turn"):
        if is_human(row.source) and row.value is not None:
            gold.setdefault((row.dialogue_id, row.turn), []).append(row.value)
    keys = [key for key in gold if (*key, column) in found]
    value = spearman(
        np.array([found[(*key, column)] for key in keys]), np.array([np.mean(gold[key]) for key in keys])
    ).value
    print(f"\n## {name}: {column} against {dimension}, n = {len(keys)}: Spearman {value:.3f}")


def demo(model: str) -> None:
    from importlib.resources import files

    from scipy.stats import ttest_rel

    chats = list(formats.read(Path(str(files("dialeval.dialogues") / "examples" / "dialogues.jsonl"))))
    for metric, column in ((Faults(model), FAULTLESS), (Quality(reader=model), "quality")):
        rows = [row for row in metric.score(chats) if row.turn is None and row.dimension == column]
        means: dict[str, dict[str, float]] = {}
        for row in rows:
            means.setdefault(row.system, {})[row.dialogue_id.rpartition("-")[0]] = row.value
        print(
            f"\n## demo, {column}: "
            + ", ".join(f"{n} {np.mean(list(v.values())):.3f}" for n, v in means.items())
        )
        for other in ("forgetful-bot", "repetitive-bot"):
            shared = sorted(means["good-bot"].keys() & means[other].keys())
            pair = [[means[name][key] for key in shared] for name in ("good-bot", other)]
            print(f"good-bot against {other}: n = {len(shared)}, p = {ttest_rel(*pair).pvalue:.2g}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = {
        "unseen": lambda model: written("unseen", "unseen_faults.jsonl", model),
        "own": lambda model: written("own", "faults.jsonl", model),
        "abceval": abceval,
        "mtrag": lambda model: against("mtrag", "faithfulness", "unsupported", model),
        "crsarena": lambda model: against("crsarena", "relevance", FAULTLESS, model),
        "demo": demo,
    }
    parser.add_argument("--model", default=DEFAULT)
    parser.add_argument("--parts", nargs="*", default=list(parts), choices=list(parts))
    options = parser.parse_args()
    for part in options.parts:
        parts[part](options.model)


if __name__ == "__main__":
    main()
