"""Processor time of whole metrics as a multiple of one bare pass of the encoder over the same turns.

    python benchmarks/encode_once.py [--repeat 3] [--dialogues 150]

The dialogues are of DSTC9 (`DIALEVAL_DATA`), 150 with about 5,300 turns; without it, the bundled examples,
repeated with other words. The denominator is `Encoder.vectors` over their distinct turns, from text to
vectors, nothing cached. Each measurement is a process of its own: models are opened and warmed up on a
dialogue that is not among them, then the processor time of all threads is taken while the dialogues are
scored. The variants are taken in turns, `--repeat` times, and the least of each counts; peak memory is that
of the whole process.

`floweval` compares with the bundled corpus, which is indexed before the clock starts. What it reads of turns
is shared; comparing their tokens with those of the references that may be the best (BERTScore) is work of its
own, which no sharing can avoid: its share of the bare pass is printed beside the figures. `no faults` is
`quality:faults=false`, which reads turns one by one, as the other three metrics do.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterable
from functools import partial
from itertools import islice

from dialeval.dialogues import Dialogue, Turn

VARIANTS = {
    "bare": (),
    "turn-quality": ("turn-quality",),
    "no faults": ("quality:faults=false",),
    "quality": ("quality",),
    "all four": ("quality:faults=false", "floweval:corpus=examples", "coherence", "user-reaction"),
}
WANTED = {"no faults": 1.25, "quality": 3.0, "all four": 1.4}


def some_dialogues(number: int) -> list[Dialogue]:
    """Return dialogues of DSTC9 with about 36 turns on average, or the bundled ones with other words."""
    from dialeval.dialogues.datasets import public_set
    from dialeval.errors import DialevalError
    from dialeval.jobs.demo import example_dialogues

    try:
        return list(islice((one for one in public_set("dstc9").dialogues() if len(one.turns) < 176), number))
    except DialevalError:
        given = example_dialogues()
        return [_varied(given[place % len(given)], place) for place in range(number)]


def _varied(one: Dialogue, place: int) -> Dialogue:
    turns = tuple(Turn(turn.speaker, f"{turn.text} {place}") for turn in one.turns)
    return Dialogue(f"{one.id}-{place}", turns, one.system)


def distinct(dialogues: Iterable[Dialogue]) -> list[str]:
    """Return the turns that have text, each once."""
    return list(dict.fromkeys(turn.text for one in dialogues for turn in one.turns if turn.text.strip()))


def measure(variant: str, number: int) -> dict[str, float]:
    """Score the dialogues in this process: seconds of processor time, and megabytes at most."""
    from dialeval.jobs.scoring import score_to
    from dialeval.models.encoder import Encoder

    said = ("How was the concert in Lisbon? Did you go?", "It was loud. I liked it, though.", "Oh! Why?")
    warm = Dialogue("warm", tuple(Turn(("user", "assistant")[n % 2], text) for n, text in enumerate(said)))
    dialogues, specs = some_dialogues(number), VARIANTS[variant]
    texts = distinct(dialogues)
    encoder = Encoder.load()
    encoder.vectors(said)
    if specs:
        score_to([warm], specs)
    began = time.process_time()
    if specs:
        score_to(dialogues, specs)
    else:
        encoder.vectors(texts)
    spent = time.process_time() - began
    return {"seconds": spent, "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def describe(number: int) -> None:
    """Print what is measured: turns, and what comparing them with references costs by itself."""
    from dialeval.metrics.floweval import FlowEval
    from dialeval.models.consensus import open_corpus
    from dialeval.models.encoder import Encoder

    dialogues, made = some_dialogues(number), FlowEval(corpus="examples")
    texts, encoder = distinct(dialogues), Encoder.load()
    encoder.vectors(["warm"])
    bare = time.process_time()
    encoder.vectors(texts)
    bare = time.process_time() - bare
    corpus, _ = open_corpus(made.corpus, made._description())
    asked, matcher = corpus.how.describe(dialogues), made._matcher(corpus)
    near = list(made._compare(corpus, matcher, asked, made._weigh))
    stored = [corpus.states(found.rows) for found, _, _ in near]
    worth = [
        partial(made._weigh, acts, tokens=len(one))
        for (_, acts, _), one in zip(near, asked.states, strict=True)
    ]
    spent = time.process_time()
    for _ in matcher.decisive(asked.states, stored, worth):
        pass
    spent = time.process_time() - spent
    count = sum(len(one.turns) for one in dialogues)
    print(f"{len(dialogues)} dialogues, {count} turns, {len(texts)} distinct")
    print(f"comparing tokens with references alone: {spent:.1f} s, {spent / bare:.2f} x bare")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--dialogues", type=int, default=150)
    parser.add_argument("--only", choices=list(VARIANTS), help="measure one variant in this process")
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measure(options.only, options.dialogues)))
        return
    describe(options.dialogues)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in VARIANTS}
    for _ in range(options.repeat):
        for name, runs in found.items():
            command = [sys.executable, __file__, "--only", name, "--dialogues", str(options.dialogues)]
            runs.append(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))
    least = {name: min(one["seconds"] for one in runs) for name, runs in found.items()}
    for name, runs in found.items():
        wanted = f"  (wanted: {WANTED[name]:.2f})" if name in WANTED else ""
        most = max(one["megabytes"] for one in runs)
        ratio = least[name] / least["bare"]
        print(f"{name:14s} {least[name]:6.1f} s  {ratio:5.2f} x bare  {most:5.0f} MB{wanted}")


if __name__ == "__main__":
    main()
