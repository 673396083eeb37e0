"""The shipped classifier of segment acts: its figures, beside a logistic regression on the same dialogues.

    python benchmarks/segment_acts.py [--model dialeval-segment-act] [--quick]

*held out*: segments of Controllable Dialogue that people labelled, of the portion that the split manifest
gives to test. Beside the classifier: the commonest act, and a logistic regression (scikit-learn, C = 0.01)
on the standardised features that the classifier reads, trained on the portions train and dev of the same
set. McNemar's exact test says whether one of the two is right more often.

*mapped*: segments of SwDA, SGD (portion test) and DailyDialog (dev, since there is no other; the shipped
classifier was chosen by it), as `act_mapping.toml` labels them: at most 800 of each corpus and act, 1,600 of
inform and question, drawn by a hash of place and text. F1 is given for each act in each corpus, and over all
corpora together; the mean of the latter over the eleven acts is the macro-F1. A label that comes from a set
phrase is easy: the table gave it for its words.

Public sets are needed (`DIALEVAL_DATA`).
"""

import argparse
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, islice

import numpy as np
from scipy.stats import binomtest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score
from sklearn.preprocessing import StandardScaler

from dialeval.dialogues import Dialogue
from dialeval.dialogues.acts import ACTS
from dialeval.dialogues.segments import Segment, segments_of
from dialeval.dialogues.splits import portion
from dialeval.models.encoder import Encoder
from dialeval.models.segment_acts import DEFAULT, SegmentActs, segment_features
from dialeval.training.segment_recipes import mapped

MOST, MOST_OF_COMMON, COMMON = 800, 1600, ("inform", "question")
Places = list[tuple[Sequence[Segment], int]]


def annotated(dialogues: Iterable[Dialogue]) -> Places:
    found = (segments_of(mapped(one)) for one in dialogues)
    return [(some, place) for some in found for place, one in enumerate(some) if one.act is not None]


def truth(places: Places) -> np.ndarray:
    return np.array([ACTS.index(str(segments[place].act)) for segments, place in places])


def guesses(classifier: SegmentActs, places: Places) -> np.ndarray:
    """Label the dialogues that the places are in, each once."""
    dialogues = {id(segments): segments for segments, _ in places}
    starts = dict(zip(dialogues, np.cumsum([0, *map(len, dialogues.values())]).tolist(), strict=False))
    shares = classifier.shares(list(dialogues.values()))
    return shares.argmax(axis=1)[[starts[id(segments)] + place for segments, place in places]]


def regression(train: Places, test: Places) -> np.ndarray:
    encoder = Encoder.load()
    scaler = StandardScaler()
    learned = scaler.fit_transform(segment_features(train, encoder))
    model = LogisticRegression(C=0.01, max_iter=2000).fit(learned, truth(train))
    return model.predict(scaler.transform(segment_features(test, encoder)))


def macro(wanted: np.ndarray, found: np.ndarray) -> float:
    """Mean F1 over the acts that occur."""
    return float(f1_score(wanted, found, labels=np.unique(wanted), average="macro", zero_division=0))


def held_out(classifier: SegmentActs) -> None:
    learned = list(chain(portion("controllable", "train"), portion("controllable", "dev")))
    train, test = annotated(learned), annotated(portion("controllable", "test"))
    wanted, ours, theirs = truth(test), guesses(classifier, test), regression(train, test)
    common = np.full(len(wanted), Counter(truth(train).tolist()).most_common(1)[0][0])
    print(f"held out: {len(test)} segments of Controllable Dialogue, {len(np.unique(wanted))} acts")
    for name, found in (("classifier", ours), ("logistic regression", theirs), ("commonest act", common)):
        print(
            f"  {name:20} accuracy {accuracy_score(wanted, found):.4f}  macro-F1 {macro(wanted, found):.3f}"
        )
    won, lost = (
        int((one & ~other).sum())
        for one, other in ((ours == wanted, theirs == wanted), (theirs == wanted, ours == wanted))
    )
    p = binomtest(won, won + lost).pvalue if won + lost else 1.0
    print(f"  only the classifier is right {won} times, only the regression {lost}; McNemar p = {p:.3f}")
    print("  F1  " + ", ".join(f"{ACTS[act]} {value:.2f}" for act, value in by_act(wanted, ours).items()))


def by_act(wanted: np.ndarray, found: np.ndarray) -> dict[int, float]:
    acts = np.unique(wanted)
    values = f1_score(wanted, found, labels=acts, average=None, zero_division=0)
    return dict(zip(acts.tolist(), values.tolist(), strict=True))


def sampled(places: Places) -> Places:
    """Keep a fixed sample of each act."""
    groups: dict[str, list[tuple[bytes, int]]] = defaultdict(list)
    for number, (segments, place) in enumerate(places):
        text = "|".join([str(place), *(one.text for one in segments[max(0, place - 3) : place + 1])])
        key = hashlib.blake2b(text.encode(), digest_size=8).digest()
        groups[str(segments[place].act)].append((key, number))
    kept = [
        number
        for act, some in groups.items()
        for _, number in sorted(some)[: MOST_OF_COMMON if act in COMMON else MOST]
    ]
    return [places[number] for number in sorted(kept)]


def mapped_corpora(classifier: SegmentActs, most: int | None) -> None:
    corpora = {
        "swda": portion("swda", "test"),
        "sgd": portion("sgd", "test"),
        "dailydialog": portion("dailydialog", "dev"),
    }
    parts = {name: sampled(annotated(islice(found, most))) for name, found in corpora.items()}
    wanted = {name: truth(places) for name, places in parts.items()}
    found = {name: guesses(classifier, places) for name, places in parts.items()}
    each = {name: by_act(wanted[name], found[name]) for name in parts}
    whole = by_act(np.concatenate([*wanted.values()]), np.concatenate([*found.values()]))
    print("mapped, F1 (segments)  " + "".join(f"{name:>20}" for name in (*parts, "together")))
    for act, name in enumerate(ACTS):
        cells = [
            f"{each[one][act]:.3f} ({(wanted[one] == act).sum()})" if act in each[one] else "-"
            for one in parts
        ]
        total = sum(int((some == act).sum()) for some in wanted.values())
        cells.append(f"{whole.get(act, 0.0):.3f} ({total})")
        print(f"  {name:21}" + "".join(f"{cell:>20}" for cell in cells))
    print(f"  macro-F1 over the eleven acts: {sum(whole.values()) / len(ACTS):.3f} (wanted: .75)")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=DEFAULT, help="name or folder of a classifier")
    parser.add_argument("--quick", action="store_true", help="few dialogues of the mapped corpora")
    arguments = parser.parse_args()
    classifier = SegmentActs.load(arguments.model)
    print(f"{classifier.name} {classifier.sha[:12]}")
    held_out(classifier)
    mapped_corpora(classifier, 20 if arguments.quick else None)


if __name__ == "__main__":
    main()
