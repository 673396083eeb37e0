"""The published baselines as heads on the shared encoder: what each of them looks at, and its answers.

- `exchange`: a reply beside what it answers (RUBER, BERT-RUBER, PONE, predictive engagement);
- `graph`: every utterance beside its neighbours in the utterance graph, by speaker and distance (DynaEval);
- `flow`: how far the next turn was to be expected of the dialogue's flow (Flow score).

Their originals have networks of their own below that, from word vectors to fine-tuned language models. Here
all of them read vectors of one frozen encoder, which every other metric of a run shares.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt

from dialeval.dialogues import Dialogue
from dialeval.errors import DataError
from dialeval.models.artefact import Artefact, Model
from dialeval.models.encoder import Encoder, recorded_encoder
from dialeval.models.heads import VectorHead
from dialeval.models.needs import Need, spoken_turns
from dialeval.models.network import Floats
from dialeval.models.turn_vectors import TurnVectors, turn_vectors

KIND = "baseline.v1"
Features = Literal["exchange", "graph", "flow"]
Vectors = Literal["sentence", "words"]
RELATIONS = 4
WINDOW = 8  # utterances before one that are its neighbours in the graph
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Reader:
    """What a baseline reads: turns as `sentence` vectors, or as means of `words` without their context."""

    encoder: Encoder
    features: Features
    vectors: Vectors = "sentence"

    def fields(self) -> dict[str, object]:
        """Return it as it is written to a configuration."""
        named = {"name": self.encoder.name, "sha": self.encoder.sha}
        return {"features": self.features, "vectors": self.vectors, "encoder": named}

    def needs(self) -> list[Need]:
        """Return what is read of the encoder."""
        words = [self.encoder.reading(0, "mean")] if self.vectors == "words" else []
        return [Need(self.encoder, spoken_turns, (self.encoder.reading(), *words))]

    def turns(self, dialogues: Sequence[Dialogue]) -> list[TurnVectors]:
        """Return the vectors of the turns of dialogues, of length one."""
        found = turn_vectors(self.encoder, dialogues)
        if self.vectors == "sentence":
            return found
        texts = list(dict.fromkeys(text for one in dialogues for text in spoken_turns(one)))
        known = dict(zip(texts, unit(self.encoder.vectors(texts, layer=0, pooling="mean")), strict=True))
        nothing = np.zeros(self.encoder.width, np.float32)
        return [
            TurnVectors(
                one.dialogue,
                np.stack([known.get(turn.text, nothing) for turn in one.dialogue.turns] or [nothing])[
                    : len(one.dialogue.turns)
                ],
                one.spoken,
                one.cut,
            )
            for one in found
        ]


def unit(vectors: Floats) -> Floats:
    """Scale vectors to length one; zeros stay zeros."""
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12), np.float32)


def exchange_features(said: Floats, reply: Floats) -> Floats:
    """Describe replies beside what they answer: both, their product, and how far they are apart.

    >>> exchange_features(np.ones((1, 2), np.float32), np.array([[0.0, 1.0]], np.float32)).tolist()
    [[1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0]]
    """
    return np.concatenate([said, reply, said * reply, np.abs(said - reply)], axis=1)


def graph_features(found: TurnVectors) -> Floats:
    """Describe a dialogue up to each of its turns, (turns, features).

    Each utterance is compared with four kinds of neighbours before it: the last one, the last of its own
    speaker, and the means of the other's and of its own within the window. Products of vectors are averaged
    over utterances; of the cosines there are mean and smallest.
    """
    width = found.vectors.shape[1]
    rows = np.zeros((len(found.vectors), RELATIONS * (width + 2)), np.float32)
    products, cosines = np.zeros(RELATIONS * width), list[Doubles]()
    said: list[int] = []
    for number, turn in enumerate(found.dialogue.turns):
        if found.spoken[number]:
            near = said[-WINDOW:]
            own = [one for one in near if found.dialogue.turns[one].speaker == turn.speaker]
            other = [one for one in near if one not in own]
            if near:
                kinds = (near[-1:], own[-1:], other, own)
                means = [_mean(found.vectors, some) for some in kinds]
                products += np.concatenate([found.vectors[number] * one for one in means])
                cosines.append(np.array([_cosine(found.vectors[number], one) for one in means]))
            said.append(number)
        if cosines:
            rows[number] = np.concatenate(
                [products / len(cosines), np.mean(cosines, axis=0), np.min(cosines, axis=0)]
            )
    return rows


def _mean(vectors: Floats, places: Sequence[int]) -> Floats:
    return vectors[list(places)].mean(axis=0) if places else np.zeros(vectors.shape[1], np.float32)


def _cosine(one: Floats, other: Floats) -> float:
    return float(one @ other / max(1e-12, float(np.linalg.norm(one) * np.linalg.norm(other))))


def flow_features(found: TurnVectors) -> Floats:
    """Describe what is known before each turn: the last two turns and the mean of all, (turns, 3 * width)."""
    means, width = found.contexts(), found.vectors.shape[1]
    before = np.zeros((len(found.vectors), 3 * width), np.float32)
    said: list[int] = []
    for number, heard in enumerate(found.spoken):
        if said:
            last = found.vectors[said[-1]]
            earlier = found.vectors[said[-2]] if len(said) > 1 else np.zeros(width, np.float32)
            before[number] = np.concatenate([last, earlier, means[number]])
        said += [number] if heard else []
    return before


class Baseline(Model):
    """A trained baseline, and the encoder that it was trained on."""

    kinds: ClassVar[tuple[str, ...]] = (KIND,)
    default: ClassVar[str] = "dialeval-bert-ruber"

    def __init__(self, artefact: Artefact) -> None:
        super().__init__(artefact)
        config, place = artefact.config, artefact.folder / "config.json"
        for field, known in (("features", get_args(Features)), ("vectors", get_args(Vectors))):
            if config.get(field) not in known:
                raise DataError(f"expected one of {', '.join(known)}", file=place, field=field)
        self.reader = Reader(recorded_encoder(config, place), config["features"], config["vectors"])
        self._head = VectorHead(artefact)
        self.head = self._head.heads[0].name

    def replies(self, found: TurnVectors, turns: Sequence[int]) -> dict[int, float]:
        """Judge replies beside what they answer; one that answers nothing, or is empty, is left out."""
        answered = found.answered()
        asked = [(turn, answered[turn]) for turn in turns if found.spoken[turn]]
        known = [(turn, before) for turn, before in asked if before is not None]
        if not known:
            return {}
        features = exchange_features(
            found.vectors[[before for _, before in known]], found.vectors[[turn for turn, _ in known]]
        )
        values = self._head.answers(features)[self.head]
        return {turn: float(value) for (turn, _), value in zip(known, values, strict=True)}

    def graphs(self, found: TurnVectors) -> Doubles:
        """Judge the dialogue up to each of its turns."""
        return np.asarray(self._head.answers(graph_features(found))[self.head], np.float64)

    def expected(self, found: TurnVectors) -> Doubles:
        """Return the cosine of each turn with the one that was to be expected in its place."""
        said = self._head.answers(flow_features(found))
        guess = np.stack([said[head.name] for head in self._head.heads], axis=1)
        lengths = np.linalg.norm(guess, axis=1) * np.linalg.norm(found.vectors, axis=1)
        return np.asarray((guess * found.vectors).sum(axis=1) / np.maximum(lengths, 1e-12), np.float64)
