"""Turn quality: speed against a cross-encoder over the same turns, and what each gives on the dev set.

    python benchmarks/turn_quality.py [--dialogues 60] [--repeat 2] [--cross FOLDER] [--resamples 2000]

*speed*: every reply of some DSTC9 dialogues (from `$DIALEVAL_DATA`; without it, of the bundled examples). The
peer is a cross-encoder of the same size as our encoder (its very weights) in transformers and torch: for each
reply, up to 128 tokens of context and the reply, batches of 32 sorted by length, both cores. Ours is
`turn-quality` as it ships, from text to scores, nothing cached. Taken in turns, best time of each.

*agreement*: with `--cross`, a folder made by `dialeval train turn-quality … --encoder`: both metrics against
the breakdown labels of DBDC3's training and dev dialogues, on which turn-quality's choices were made, with a
paired interval of the difference.

`--encoder-folder FOLDER` only writes the encoder as transformers reads it, to train a cross-encoder from.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "models"))

from peer_model import as_transformers

from dialeval.dialogues import Dialogue, scored_turns
from dialeval.metrics.turn_quality import TurnQuality, said_before
from dialeval.models import artefact, encoder

CONTEXT, BATCH = 128, 32


def real_dialogues(number: int) -> list[Dialogue]:
    from dialeval.dialogues.datasets import public_set
    from dialeval.errors import DialevalError
    from dialeval.jobs.demo import example_dialogues

    try:
        return list(public_set("dstc9").dialogues())[:number]
    except DialevalError:
        print("DSTC9 is not here: using the bundled examples")
        return example_dialogues()[:number]


def cross_encoder(folder: Path) -> Callable[[list[Dialogue]], int]:
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    head = torch.nn.Linear(model.config.hidden_size, 1)

    def score(dialogues: list[Dialogue]) -> int:
        pairs = []
        for one in dialogues:
            for turn in scored_turns(one):
                before = tokenizer.encode(" ".join(said_before(one, turn)), add_special_tokens=False)
                reply = tokenizer.encode(one.turns[turn].text, add_special_tokens=False)
                ids = [tokenizer.cls_token_id, *before[-CONTEXT:], tokenizer.sep_token_id]
                pairs.append([*ids, *reply[:CONTEXT], tokenizer.sep_token_id])
        pairs.sort(key=len)
        with torch.inference_mode():
            for start in range(0, len(pairs), BATCH):
                some = pairs[start : start + BATCH]
                longest = len(some[-1])
                given = torch.tensor([one + [0] * (longest - len(one)) for one in some])
                head(model(input_ids=given, attention_mask=given.ne(0).long()).last_hidden_state[:, 0])
        return len(pairs)

    return score


def ours(dialogues: list[Dialogue]) -> int:
    artefact.models.cache_clear()  # nothing is remembered from the run before
    return sum(row.turn is not None for row in TurnQuality().score(dialogues))


def compare_speed(number: int, repeat: int) -> None:
    chats = real_dialogues(number)
    with tempfile.TemporaryDirectory() as place:
        folder = as_transformers(artefact.load(artefact.resolve(encoder.DEFAULT)), Path(place))
        peer = cross_encoder(folder)
        best: dict[str, float] = {}
        for _ in range(repeat):
            for name, score in (("cross-encoder", peer), ("turn-quality", ours)):
                began = time.perf_counter()
                turns = score(chats)
                best[name] = min(best.get(name, 1e9), time.perf_counter() - began)
    for name, seconds in best.items():
        print(f"{name}: {turns} turns, {turns / seconds:,.0f} turns/s")
    print(f"ratio: {best['cross-encoder'] / best['turn-quality']:.1f}")


def compare_agreement(folder: str, resamples: int) -> None:
    from dialeval.jobs.benchmark import benchmark

    for part in ("train", "dev"):
        specs = ["turn-quality", f"cross=turn-quality:model={folder}"]
        found = benchmark("dbdc3", specs, part=part, resamples=resamples, against="cross", method="spearman")
        print(f"DBDC3, {part}")
        print(found.study)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dialogues", type=int, default=60)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--resamples", type=int, default=2000)
    parser.add_argument("--cross")
    parser.add_argument("--encoder-folder", type=Path)
    given = parser.parse_args()
    if given.encoder_folder:
        given.encoder_folder.mkdir(parents=True, exist_ok=True)
        as_transformers(artefact.load(artefact.resolve(encoder.DEFAULT)), given.encoder_folder)
        return
    compare_speed(given.dialogues, given.repeat)
    if given.cross:
        compare_agreement(given.cross, given.resamples)


if __name__ == "__main__":
    main()
