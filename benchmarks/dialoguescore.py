"""Ten figures in one pass: what `dialoguescore` costs beside one figure, with encoding and without.

    python benchmarks/dialoguescore.py [--model dialeval-dialoguescore] [--dialogues 300]

*speed*: dialogues of invented turns, every text different, so that no cache helps; a fresh encoder for each
run. One figure is `ur2` alone, ten are all. Wanted: ten cost less than three times one.

*own time*: the same with all turns encoded before, which is what the figures themselves cost.
"""

import argparse
import random
import re
import time

from dialeval.dialogues import Dialogue, dialogue
from dialeval.models.coherence import CoherenceScorer
from dialeval.models.encoder import Encoder, load, resolve

WORDS = re.findall(
    r"\w+",
    "i need a train hotel room table for two people on monday near the centre cheap please book it can you "
    "tell me phone number address is there anything else thank goodbye which day would like to leave arrive",
)


def invented(count: int, seed: int) -> list[Dialogue]:
    chance = random.Random(seed)
    made = []
    for number in range(count):
        texts = [
            " ".join(chance.choice(WORDS) for _ in range(chance.randint(4, 20))) + f" {number} {turn}"
            for turn in range(chance.randint(8, 20))
        ]
        made.append(
            dialogue(
                [(("user", "assistant")[n % 2], text) for n, text in enumerate(texts)], f"{seed}-{number}"
            )
        )
    return made


def timed(scorer: CoherenceScorer, dialogues: list[Dialogue], asked: list | None, *, fresh: bool) -> float:
    if fresh:
        scorer.encoder = Encoder(load(resolve("dialeval-encoder-small"), "encoder.v1"))
        scorer.encoder.vectors(["warm"])
    begun = time.perf_counter()
    scorer.score(dialogues, asked=asked)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="dialeval-dialoguescore")
    parser.add_argument("--dialogues", type=int, default=300)
    chosen = parser.parse_args()
    scorer = CoherenceScorer.load(chosen.model)
    dialogues = invented(chosen.dialogues, 0)
    turns = sum(len(one.turns) for one in dialogues)
    one: list = [("ur", 2)]
    times = {
        (name, fresh): min(timed(scorer, dialogues, asked, fresh=fresh) for _ in range(3))
        for fresh in (True, False)
        for name, asked in (("one", one), ("ten", None))
    }
    print(f"{len(dialogues)} dialogues, {turns} turns; best of three")
    for fresh, what in ((True, "with encoding"), (False, "turns encoded before")):
        single, all_ten = times["one", fresh], times["ten", fresh]
        print(
            f"  {what}: one figure {turns / single:,.0f} turns/s, ten {turns / all_ten:,.0f} turns/s, "
            f"ratio {all_ten / single:.2f} (wanted: below 3)"
        )


if __name__ == "__main__":
    main()
