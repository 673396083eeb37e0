"""Build `dialeval-encoder-small`: all-MiniLM-L6-v2 as it was published, stored in a quarter of the space.

    python weights/build_encoder.py [--out FOLDER]

Pulls the published weights (pinned by their SHA-256), stores them at int8, measures how far the vectors of
the bundled dialogues move, and writes the artefact with its card. The same weights give the same bytes.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from dialeval.jobs.demo import example_dialogues
from dialeval.models.card import Card
from dialeval.models.conversion import encoder_artefact
from dialeval.models.downloads import known, pull
from dialeval.models.encoder import DEFAULT, Encoder

PLACE = Path(__file__).parent.parent / "src" / "dialeval" / "models" / "shipped" / DEFAULT
SOURCE = known()["all-minilm-l6-v2"]


def card(figures: dict[str, float]) -> Card:
    """Write down what it is."""
    return Card(
        DEFAULT,
        "The sentence encoder that dialeval ships and that every shipped head reads: all-MiniLM-L6-v2, "
        "frozen, its weights stored as 8-bit numbers and expanded to 32 bits when it is loaded. Activations "
        "are not quantised, so a text's vector does not depend on the texts beside it.",
        licence=SOURCE.licence,
        command="python weights/build_encoder.py",
        data=[("what its makers trained it on", "see there", SOURCE.home)],
        figures=figures,
        limits=[
            "English. Other languages get vectors, but nobody has measured what they are worth.",
            "512 tokens; the end of a longer text is not seen, and scores say `truncated`.",
            "Case and accents are dropped by its tokenizer.",
        ],
        extra=[
            ("made from", SOURCE.address),
            *((f"SHA-256 of {name}", digest) for name, digest in SOURCE.files.items()),
        ],
        name=DEFAULT,
    )


def build(out: Path) -> dict[str, float]:
    """Make the artefact and return what was measured."""
    original = pull(SOURCE.name)
    turns = sorted({turn.text for one in example_dialogues() for turn in one.turns if turn.text.strip()})
    with tempfile.TemporaryDirectory() as scratch:
        small = encoder_artefact(
            original.folder, Path(scratch) / "small", name=DEFAULT, card=card({}), storage="int8"
        )
        one, other = Encoder(original).vectors(turns), Encoder(small).vectors(turns)
    cosines = np.sum(one * other, axis=1)
    figures = {
        "turns compared": len(turns),
        "cosine to the original, mean": round(float(cosines.mean()), 5),
        "cosine to the original, lowest": round(float(cosines.min()), 5),
    }
    encoder_artefact(original.folder, out, name=DEFAULT, card=card(figures), storage="int8")
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=PLACE)
    wanted = parser.parse_args()
    for name, value in build(wanted.out).items():
        print(f"{name}: {value}")
