"""Encoding turns: speed against sentence-transformers, with the same weights, in one run.

    python benchmarks/encoder.py [--turns 4000] [--dialogues 10] [--repeat 3]

Real turns of DSTC9 (from `$DIALEVAL_DATA`; without it, of the bundled examples). Two workloads, peers taken
in turns, the best time of each:

- distinct turns: every text once; the peer sorts by length itself and is given both cores;
- a log: every reply of some dialogues scored by three metrics, each of which asks for the reply, the turn
  before it and all turns of its growing history. The peer encodes what each metric asks for, as a metric
  written around `encode()` does; ours is asked the same and encodes each text once.

Printed: turns a second, ratio, largest difference between vectors, and the share of the speed that this
machine's matrix product reaches on the sizes of the model, which nothing built of such products can exceed.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "models"))

import numpy as np
from peer_model import as_transformers

from dialeval.dialogues import Dialogue
from dialeval.models import artefact
from dialeval.models.encoder import DEFAULT, Encoder
from dialeval.models.network import FLOAT, Graph
from dialeval.models.shape import EncoderShape

CORES = len(os.sched_getaffinity(0))


def real_dialogues() -> list[Dialogue]:
    from dialeval.dialogues.datasets import public_set
    from dialeval.errors import DialevalError
    from dialeval.jobs.demo import example_dialogues

    try:
        return list(public_set("dstc9").dialogues())
    except DialevalError:
        print("DSTC9 is not here: using the bundled examples")
        return example_dialogues()


def peer() -> Callable[[list[str]], np.ndarray]:
    """Load the shipped weights into sentence-transformers, from a folder as the Hub has it."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules

    torch.set_num_threads(CORES)
    made = artefact.load(DEFAULT)
    with tempfile.TemporaryDirectory() as folder:
        body = modules.Transformer(str(as_transformers(made, Path(folder))), max_seq_length=512)
    parts = [body, modules.Pooling(made.config["shape"]["width"]), modules.Normalize()]
    model = SentenceTransformer(modules=parts, device="cpu")
    return lambda texts: np.asarray(model.encode(texts, batch_size=32, show_progress_bar=False))


def fresh() -> Encoder:
    return Encoder(artefact.load(DEFAULT))


def best(run: Callable[[], object], repeat: int) -> tuple[float, object]:
    """Return the shortest time and the last answer."""
    times, answer = [], None
    for _ in range(repeat):
        start = time.perf_counter()
        answer = run()
        times.append(time.perf_counter() - start)
    return min(times), answer


def asked_by_three_metrics(dialogues: list[Dialogue]) -> list[list[str]]:
    """List what each metric asks for, reply by reply: the reply, what it answers, and all before it."""
    calls = []
    for _ in range(3):
        for dialogue in dialogues:
            texts = [turn.text for turn in dialogue.turns]
            replies = [number for number, turn in enumerate(dialogue.turns) if turn.speaker == "assistant"]
            calls += [texts[: number + 1] for number in replies if number]
    return calls


def peak(shape: EncoderShape) -> float:
    """Measure the matrix product at the model's sizes, all cores at once: operations a second."""
    import onnxruntime

    graph = Graph()
    graph.input("x", FLOAT, ["rows", shape.width])
    graph.weight("w", [shape.width, shape.inner])
    graph.node("MatMul", ["x", "w"], output="y")
    graph.output("y", FLOAT, ["rows", shape.inner])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = CORES
    weight = np.random.default_rng(1).normal(size=(shape.width, shape.inner)).astype(np.float32)
    options.add_external_initializers(["w"], [onnxruntime.OrtValue.ortvalue_from_numpy(weight)])
    session = onnxruntime.InferenceSession(graph.model(), options)
    rows = np.ones((4096, shape.width), np.float32)
    taken, _ = best(lambda: session.run(None, {"x": rows}), 20)
    return 2 * len(rows) * shape.width * shape.inner / taken


def operations(lengths: list[int], shape: EncoderShape) -> float:
    """Count the operations of all matrix products for texts of these lengths, none spent on padding."""
    layer = 4 * shape.width**2 + 2 * shape.width * shape.inner
    return float(sum(2 * shape.layers * (n * layer + 2 * n * n * shape.width) for n in lengths))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=4000)
    parser.add_argument("--dialogues", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=3)
    wanted = parser.parse_args()
    dialogues = real_dialogues()
    distinct = sorted({turn.text for one in dialogues for turn in one.turns if turn.text.strip()})
    chosen = np.random.default_rng(1).permutation(len(distinct))[: wanted.turns]
    turns = [distinct[place] for place in chosen]
    theirs = peer()
    theirs(turns[:64])
    fresh().vectors(turns[:64])

    ours_time = peer_time = float("inf")
    for _ in range(wanted.repeat):
        one, vectors = best(lambda: theirs(turns), 1)
        two, mine = best(lambda: fresh().vectors(turns), 1)
        peer_time, ours_time = min(peer_time, one), min(ours_time, two)
    difference = float(np.abs(np.asarray(vectors) - np.asarray(mine)).max())
    encoder = fresh()
    shape = EncoderShape.of(artefact.load(DEFAULT).config, "config.json")
    lengths = [len(one.ids) for one in encoder.tokenizer.encode(turns)]
    reached = operations(lengths, shape) / ours_time / peak(shape)
    print(f"{len(turns)} distinct turns, {np.mean(lengths):.1f} tokens each, {CORES} cores")
    print(f"  sentence-transformers  {len(turns) / peer_time:7.0f} turns/s")
    print(f"  dialeval               {len(turns) / ours_time:7.0f} turns/s (loading included)")
    print(
        f"  ratio {peer_time / ours_time:.2f}, largest difference {difference:.1e}, matmul peak {reached:.0%}"
    )

    log = dialogues[: wanted.dialogues]
    calls = asked_by_three_metrics(log)
    replies = len(calls) // 3
    peer_time, answers = best(lambda: [theirs(texts) for texts in calls], 1)

    def ours() -> list[np.ndarray]:
        made = fresh()
        made.vectors([turn.text for one in log for turn in one.turns])
        return [made.vectors(texts) for texts in calls]

    ours_time, mine = best(ours, wanted.repeat)
    pairs = zip(answers, mine, strict=True)  # type: ignore[call-overload]
    difference = max(float(np.abs(one - other).max()) for one, other in pairs)
    batched = [text for texts in calls for text in texts]
    kind_time, _ = best(lambda: theirs(batched), 1)
    print(f"a log of {len(log)} dialogues, {replies} replies, three metrics, growing histories")
    print(f"  sentence-transformers  {replies / peer_time:7.1f} replies/s asked reply by reply")
    print(f"  sentence-transformers  {replies / kind_time:7.1f} replies/s if a metric asks for all at once")
    print(f"  dialeval               {replies / ours_time:7.1f} replies/s")
    print(
        f"  ratio {peer_time / ours_time:.1f} (all at once: {kind_time / ours_time:.1f}), "
        f"largest difference {difference:.1e}"
    )


if __name__ == "__main__":
    main()
