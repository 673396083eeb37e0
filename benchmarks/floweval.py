"""FlowEval against a straightforward loop like its authors', in one run, with the same models and corpus.

    dialeval index dailydialog
    python benchmarks/floweval.py [--quick] [--dialogues 1000] [--loop 20]

*speed*: dialogues of DSTC9 (`DIALEVAL_DATA`) against an index of DailyDialog, all cores on both sides. The
loop takes one dialogue after the other: labels and encodes it, computes similarities with the whole corpus
in double precision from features that are in memory before the clock starts, sorts all of them, asks the
package `bert-score` for the references it has found and nltk for BLEU. It takes seconds per dialogue, so it
runs on the first few dialogues and is scaled linearly. Ours scores all of them, from the index on disk.

*scores*: the package reads a dialogue as one text and cuts it at 512 tokens, ours reads it turn by turn and
cuts nothing, so the two differ by design. What is compared is therefore ours with the same loop in double
precision over the states of turns, as the encoder gives them: the index keeps them in one byte a number.

*curve*: the corpus is repeated, with noise on the vectors by which neighbours are found, and cut to several
sizes. Describing a dialogue does not depend on the corpus and is timed apart; the time per dialogue at each
size is that of a second round, in which the encoder remembers all turns, so mostly that of finding
references and comparing with them. The largest index takes some 5 GB of disk.
"""

import argparse
import contextlib
import io
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "models"))

import numpy as np
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from peer_model import as_transformers

from dialeval.dialogues import Dialogue
from dialeval.dialogues.datasets import public_set
from dialeval.metrics.floweval import FlowEval
from dialeval.models import artefact
from dialeval.models.consensus import Corpus, Described, open_corpus
from dialeval.models.encoder import DEFAULT, Encoder
from dialeval.models.index import Index
from dialeval.models.index.writing import said
from dialeval.models.token_states import TokenStates, dialogue_states

SIZES, QUICK_SIZES = (1_000, 10_000, 30_000, 100_000), (100, 400)
NOISE, SEED, BLOCK, WANTED = 0.02, 1, 2_000, 20
smooth = SmoothingFunction().method4


class Loop:
    """What the authors' code does, without its mistakes: all in memory, one dialogue at a time."""

    def __init__(self, corpus: Corpus, settings: FlowEval) -> None:
        self.corpus, self.settings = corpus, settings
        self.acts, self.content = (
            corpus.index.vectors(corpus.names[name]).astype(np.float64) for name in ("acts", "content")
        )
        rows = range(len(corpus))
        self.flows = [corpus.flow(row).acts for row in rows]
        self.texts = [said(corpus.dialogue(row)) for row in rows]

    def neighbours(self, asked: Described) -> tuple[list[int], np.ndarray]:
        """Return the rows of the references, and the likeness of acts and words to each."""
        topics = self.corpus.index.cosines(asked.words, column="words")[0]  # more than the authors have
        alike = (1 + cosines(asked.acts[0], self.acts)) * (1 + topics)
        content = cosines(asked.content[0], self.content)
        by_acts = np.argsort(-alike, kind="stable")[: self.settings.ka]
        by_content = np.argsort(-content, kind="stable")[: self.settings.kc]
        rows = list(dict.fromkeys([*by_acts.tolist(), *by_content.tolist()]))
        return rows, alike[rows]

    def by_acts(self, asked: Described, rows: Sequence[int], alike: np.ndarray) -> np.ndarray:
        """Compare flows."""
        own = asked.flows[0].acts
        found = [sentence_bleu([self.flows[row]], own, smoothing_function=smooth) for row in rows]
        return alike * np.array(found, np.float64)

    def with_package(self, scorer: Any, dialogue: Dialogue) -> float:
        """Score a dialogue with the package `bert-score`."""
        asked = self.corpus.how.describe([dialogue])
        rows, alike = self.neighbours(asked)
        own, others = " ".join(said(dialogue)), [" ".join(self.texts[row]) for row in rows]
        content = scorer.score([own] * len(others), others)[2].numpy()
        return self.best(self.by_acts(asked, rows, alike), content)

    def by_turns(self, dialogue: Dialogue) -> float:
        """Score a dialogue as we do, turn by turn, in double precision."""
        asked = self.corpus.how.describe([dialogue])
        rows, alike = self.neighbours(asked)
        encoder = Encoder.load(self.corpus.how.encoder)
        others = dialogue_states([self.texts[row] for row in rows], encoder, self.corpus.how.l)
        weigh = self.corpus.idf.weights if self.settings.idf else np.ones_like
        content = np.array([match(asked.states[0], other, weigh) for other in others])
        return self.best(self.by_acts(asked, rows, alike), content)

    def best(self, acts: np.ndarray, content: np.ndarray) -> float:
        """Let the best reference decide."""
        return float((self.settings.w * acts + (1 - self.settings.w) * content).max())


def cosines(one: np.ndarray, others: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(others, axis=1) * np.linalg.norm(one)
    return others @ one.astype(np.float64) / np.where(lengths > 0, lengths, 1)


def match(one: TokenStates, other: TokenStates, weigh: Callable[[Any], np.ndarray]) -> float:
    table = one.vectors.astype(np.float64) @ other.vectors.astype(np.float64).T
    precision, recall = (
        np.average(np.maximum(table.max(axis=axis), 0), weights=weigh(side.tokens))
        for axis, side in ((1, one), (0, other))
    )
    return float(2 * precision * recall / (precision + recall))


def overall(made: FlowEval, dialogues: Sequence[Dialogue]) -> list[float]:
    return [
        row.value for row in made.score(dialogues) if row.dimension == "overall" and row.value is not None
    ]


def compare(made: FlowEval, corpus: Corpus, dialogues: Sequence[Dialogue], share: int) -> None:
    warm, first = [corpus.dialogue(0), corpus.dialogue(1)], dialogues[:share]
    overall(made, warm)
    start = time.perf_counter()
    ours = overall(made, dialogues)
    seconds = (time.perf_counter() - start) / len(dialogues)
    loop = Loop(corpus, made)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        import bert_score

        place = as_transformers(artefact.load(DEFAULT), Path(folder), longest=512)
        texts = [" ".join(one) for one in loop.texts] if made.idf else None
        scorer = bert_score.BERTScorer(
            model_type=str(place), num_layers=made.l, idf=made.idf, idf_sents=texts
        )
        loop.with_package(scorer, warm[0])
        start = time.perf_counter()
        for dialogue in first:
            loop.with_package(scorer, dialogue)
        theirs = (time.perf_counter() - start) / len(first)
    apart = np.abs(np.array(ours[: len(first)]) - [loop.by_turns(dialogue) for dialogue in first])
    print(
        f"speed: {len(dialogues)} dialogues of DSTC9 against {len(corpus)}; the loop did {len(first)} of them"
    )
    print(
        f"  ratio {theirs / seconds:.1f} times (wanted: {WANTED})   dialeval {1e3 * seconds:.1f} ms "
        f"a dialogue, {seconds * len(dialogues):.1f} s in all; the loop {1e3 * theirs:.0f} ms, "
        f"{theirs * len(dialogues):.0f} s in all, scaled"
    )
    print(f"scores: largest difference {apart.max():.1e} on {len(apart)} dialogues (wanted: below 1e-3)")


def repeated(corpus: Corpus, size: int, chance: np.random.Generator) -> Iterator[Any]:
    """Give blocks of an index of any size: what is in the corpus, again and again, with noise."""
    names = corpus.names
    vectors = {names[one]: corpus.index.vectors(names[one]) for one in ("acts", "content")}
    for start in range(0, size, BLOCK):
        places = np.arange(start, min(start + BLOCK, size))
        rows = (places % len(corpus)).tolist()
        ids = [corpus.ids[row] for row in rows]
        columns: dict[str, Any] = {
            name: found[rows] + chance.normal(0, NOISE / found.shape[1] ** 0.5, (len(rows), found.shape[1]))
            for name, found in vectors.items()
        }
        columns[names["words"]] = ["\n".join(said(corpus.dialogue(row))) for row in rows]
        columns[names["states"]] = corpus.states(rows)
        yield [f"{place}" for place in places], columns, corpus.index.documents(ids)


def curve(made: FlowEval, corpus: Corpus, dialogues: Sequence[Dialogue], sizes: Sequence[int]) -> None:
    start = time.perf_counter()
    corpus.how.describe(dialogues)
    again = time.perf_counter()
    corpus.how.describe(dialogues)
    each = [
        1e3 * (end - begin) / len(dialogues) for begin, end in ((start, again), (again, time.perf_counter()))
    ]
    print(f"curve: describing takes {each[0]:.1f} ms a dialogue, {each[1]:.1f} if its turns were met before")
    costs: list[float] = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            blocks = repeated(corpus, size, np.random.default_rng(SEED))
            Index.build_from(folder, blocks, encoder=Encoder.load(corpus.how.encoder))
            larger = replace(made, corpus=folder)
            overall(larger, dialogues)  # opens it, and reads the dialogues that will be found
            start = time.perf_counter()
            overall(larger, dialogues)
            costs.append((time.perf_counter() - start) / len(dialogues))
            held = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        print(f"  {size:7,} dialogues, {held / 1e9:.2f} GB: {1e3 * costs[-1]:7.1f} ms a dialogue", flush=True)
    for number, size in enumerate(sizes[1:]):
        grown, longer = size / sizes[number], costs[number + 1] / costs[number]
        print(f"  {grown:.1f} times the corpus takes {longer:.2f} times as long")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it runs")
    parser.add_argument("--corpus", default="dailydialog", help="name or folder of an index")
    parser.add_argument("--dialogues", type=int, default=1000)
    parser.add_argument("--loop", type=int, default=20, help="dialogues that the loop does")
    parser.add_argument("--only", choices=["speed", "curve"])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="of the corpus, for the curve")
    arguments = parser.parse_args()
    made = FlowEval(corpus=arguments.corpus)
    corpus, _ = open_corpus(arguments.corpus, made._description())
    count, share = (12, 3) if arguments.quick else (arguments.dialogues, arguments.loop)
    few, sizes = (4, QUICK_SIZES) if arguments.quick else (100, arguments.sizes)
    dialogues = list(islice(public_set("dstc9").dialogues("test"), count + few))
    if arguments.only != "curve":
        compare(made, corpus, dialogues[:-few], share)
    if arguments.only != "speed":
        curve(made, corpus, dialogues[-few:], sizes)


if __name__ == "__main__":
    main()
