"""BERTScore against the package `bert-score`, in one run, on the same weights, layer and texts.

    python benchmarks/bertscore.py [--quick] [--full] [--only pairs] [--layer 6]

Two workloads from DailyDialog (`DIALEVAL_DATA`):

*pairs*: 2,000 distinct pairs of turns, nothing shared, in one call of each.
*consensus*: 200 validation dialogues, each against 50 training dialogues drawn by chance, as in FlowEval.
The package is called once per dialogue with all its references, on a scorer that is loaded beforehand. Ours
gets the corpus encoded once, which is timed apart; a second ratio includes it.

Both sides use all cores. Each gets a warm-up; the pairs run three times in turns and the best counts. The
package takes minutes for the consensus, so it runs on a tenth of the dialogues, scaled linearly (`--full`:
all of them). Beside wall-clock seconds stand the seconds of all cores together, which a busy machine changes
less. The peak is what products of matrices reach on this machine at the sizes of the model, on all cores.
"""

import argparse
import contextlib
import dataclasses
import functools
import io
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "models"))

import numpy as np
from encoder import operations, peak
from peer_model import as_transformers

from dialeval.dialogues.datasets import public_set
from dialeval.models import artefact
from dialeval.models.encoder import DEFAULT, Encoder
from dialeval.models.matching import Matcher

SEED = 1
Times = tuple[float, float]  # wall-clock seconds, seconds of all cores


def timed(work: Callable[[], Any]) -> tuple[Times, Any]:
    wall, cores = time.perf_counter(), time.process_time()
    found = work()
    return (time.perf_counter() - wall, time.process_time() - cores), found


def matching_work(matcher: Matcher, candidates: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Count the operations of the products between the tokens of the pairs."""
    texts = list({*candidates, *(one for some in references for one in some)})
    sizes = {
        text: len(one.ids) for text, one in zip(texts, matcher.encoder.tokenizer.encode(texts), strict=True)
    }
    pairs = zip(candidates, references, strict=True)
    return (
        2.0 * matcher.encoder.width * sum(sizes[one] * sizes[other] for one, some in pairs for other in some)
    )


def encoding_work(matcher: Matcher, texts: Sequence[str]) -> float:
    """Count the operations of the products inside the encoder, without padding."""
    shape = dataclasses.replace(matcher.encoder._shape, layers=matcher.layer)
    return operations([len(one.ids) for one in matcher.encoder.tokenizer.encode(texts)], shape)


def say(what: str, ours: Times, theirs: Times, wanted: float) -> None:
    print(
        f"  {what}: {theirs[0] / ours[0]:.2f} times (wanted: {wanted})   "
        f"dialeval {ours[0]:.2f} s, bert-score {theirs[0]:.2f} s   "
        f"of all cores: {theirs[1] / ours[1]:.2f} times, {ours[1]:.1f} s and {theirs[1]:.1f} s"
    )


def say_difference(ours: np.ndarray, theirs: np.ndarray) -> None:
    apart = np.abs(ours - theirs).max(axis=1)
    print(
        f"  largest difference {apart.max():.1e}, above 1e-4 in {(apart > 1e-4).sum()} of {len(apart)} pairs"
    )
    if apart.max() > 1e-4:
        print(
            "  (the package counts negative cosines as 0 where it pads, and not for the longest of a batch)"
        )


def say_share(what: str, work: float, seconds: float, top: float) -> None:
    speed = work / seconds
    print(f"  {what}: {seconds:.2f} s, {speed / 1e9:.0f} GFLOP/s, {speed / top:.0%} of the peak")


def turn_pairs(count: int) -> tuple[list[str], list[str]]:
    turns = {turn.text for one in public_set("dailydialog").dialogues("validation") for turn in one.turns}
    drawn = random.Random(SEED).sample(sorted(text for text in turns if text.strip()), 2 * count)
    return drawn[:count], drawn[count:]


def whole_dialogues(part: str) -> list[str]:
    found = public_set("dailydialog").dialogues(part)
    return list(dict.fromkeys(" ".join(turn.text for turn in one.turns) for one in found))


def run_pairs(scorer: Any, layer: int, count: int, top: float, repeats: int) -> None:
    candidates, references = turn_pairs(count)
    lists = [[one] for one in references]
    best: dict[str, Times] = {}
    phases: list[tuple[float, float]] = []
    ours = theirs = np.zeros((0, 3))
    for _ in range(repeats):
        matcher = fresh(layer)
        seconds, _ = timed(functools.partial(matcher._encode, candidates + references))
        rest, ours = timed(functools.partial(matcher.score, candidates, lists))
        phases.append((seconds[0], rest[0]))
        both = (seconds[0] + rest[0], seconds[1] + rest[1])
        best["ours"] = min(best.get("ours", both), both)
        seconds, found = timed(lambda: scorer.score(candidates, references))
        best["theirs"] = min(best.get("theirs", seconds), seconds)
        theirs = np.stack([part.numpy() for part in found], axis=1)
    print(f"pairs: {count} distinct pairs of turns, best of {repeats}")
    say("ratio", best["ours"], best["theirs"], 1.5)
    say_difference(ours, theirs)
    encoding, rest_ = min(phases, key=sum)
    say_share("encoding", encoding_work(matcher, candidates + references), encoding, top)
    say_share("tokens' weights, products, means", matching_work(matcher, candidates, lists), rest_, top)


def run_consensus(scorer: Any, layer: int, count: int, size: int, top: float, share: int) -> None:
    draw = random.Random(SEED)
    candidates = draw.sample(whole_dialogues("validation"), count)
    corpus = whole_dialogues("train")
    references = [draw.sample(corpus, size) for _ in candidates]
    used = list(dict.fromkeys(one for some in references for one in some))
    matcher = fresh(layer)
    once, _ = timed(lambda: matcher.prepare(used))
    encoding, _ = timed(lambda: matcher._encode(candidates))
    rest, ours = timed(lambda: list(matcher.compare(candidates, references)))
    both = (encoding[0] + rest[0], encoding[1] + rest[1])

    def peer() -> list[np.ndarray]:
        found = (
            scorer.score([one] * size, some)
            for one, some in zip(candidates[:share], references, strict=False)
        )
        return [np.stack([part.numpy() for part in parts], axis=1) for parts in found]

    seconds, theirs = timed(peer)
    scaled = (seconds[0] * count / share, seconds[1] * count / share)
    print(f"consensus: {count} dialogues x {size} references, {len(used)} distinct; bert-score ran {share}")
    say("corpus encoded beforehand", both, scaled, 15)
    whole = (both[0] + once[0], both[1] + once[1])
    print(f"  encoding the corpus, once: {once[0]:.1f} s; with it {scaled[0] / whole[0]:.1f} times")
    say_difference(np.concatenate(ours[:share]), np.concatenate(theirs))
    say_share("encoding the dialogues", encoding_work(matcher, candidates), encoding[0], top)
    say_share("matching", matching_work(matcher, candidates, references), rest[0], top)


def fresh(layer: int) -> Matcher:
    """Return a matcher whose encoder remembers nothing, warmed up."""
    matcher = Matcher(Encoder(artefact.load(DEFAULT)), layer)
    matcher.score(["Good morning!"] * 2, [["Good night, and good luck."]] * 2)
    return matcher


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it runs")
    parser.add_argument("--full", action="store_true", help="give the package all dialogues, too")
    parser.add_argument("--only", choices=["pairs", "consensus"], help="one workload")
    parser.add_argument("--layer", type=int, default=6)
    arguments = parser.parse_args()
    import bert_score

    pairs, dialogues, size, repeats = (100, 6, 10, 1) if arguments.quick else (2000, 200, 50, 3)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        place = as_transformers(artefact.load(DEFAULT), Path(folder), longest=512)
        scorer = bert_score.BERTScorer(model_type=str(place), num_layers=arguments.layer)
        scorer.score(["Good morning!"] * 2, ["Good night, and good luck."] * 2)
        top = peak(Encoder.load()._shape)
        print(f"{DEFAULT}, layer {arguments.layer}; peak of the machine {top / 1e9:.0f} GFLOP/s")
        if arguments.only != "consensus":
            run_pairs(scorer, arguments.layer, pairs, top, repeats)
        if arguments.only == "pairs":
            return
        share = dialogues if arguments.full else max(2, dialogues // 10)
        run_consensus(scorer, arguments.layer, dialogues, size, top, share)


if __name__ == "__main__":
    main()
