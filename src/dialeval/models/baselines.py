"""Published baselines as heads on the shared encoder.

- `exchange`: a reply beside what it answers (RUBER, BERT-RUBER, PONE, predictive engagement);
- `windows`: every utterance beside its neighbours in the utterance graph, the one after it and up to ten
  before it, by distance, which between two people is by speaker (DynaEval);
- `flow`: how well the next turn is predicted from those before it (Flow score).

Their originals have networks of their own below that, from word vectors to fine-tuned language models. Here
all of them read vectors of one frozen encoder, which every other metric of a run shares.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt

from dialeval.dialogues import Dialogue
from dialeval.errors import DataError
from dialeval.models.artefact import Artefact, Model
from dialeval.models.coherence import PLACES, Window, described, window_arrays, window_features
from dialeval.models.encoder import Encoder, recorded_encoder
from dialeval.models.heads import VectorHead
from dialeval.models.needs import Need, spoken_turns
from dialeval.models.network import Floats
from dialeval.models.turn_vectors import TurnVectors, turn_vectors

KIND = "baseline.v1"
Features = Literal["exchange", "windows", "flow"]
Vectors = Literal["sentence", "words"]
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BaselineReader:
    """The input of a baseline: turns as `sentence` vectors, or as means of context-free `words`."""

    encoder: Encoder
    features: Features
    vectors: Vectors = "sentence"

    def fields(self) -> dict[str, object]:
        """Return the fields for an artefact's config."""
        return {"features": self.features, "vectors": self.vectors, "encoder": self.encoder.origin}

    @property
    def reading(self) -> dict[str, Any]:
        """The keyword arguments for `Encoder.vectors`."""
        return {"layer": 0, "pooling": "mean"} if self.vectors == "words" else {}

    def needs(self) -> list[Need]:
        """Return what is read of the encoder."""
        return [Need(self.encoder, spoken_turns, (self.encoder.reading(**self.reading),))]

    def turns(self, dialogues: Sequence[Dialogue]) -> list[TurnVectors]:
        """Return the vectors of the turns of dialogues, of length one."""
        return turn_vectors(self.encoder, dialogues, **self.reading)


def exchange_features(context: Floats, reply: Floats) -> Floats:
    """Return features of replies: context, reply, their product and absolute difference.

    >>> exchange_features(np.ones((1, 2), np.float32), np.array([[0.0, 1.0]], np.float32)).tolist()
    [[1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0]]
    """
    return np.concatenate([context, reply, context * reply, np.abs(context - reply)], axis=1)


def utterance_windows(order: Sequence[int]) -> list[tuple[Window, Window]]:
    """Return two windows per utterance but the first: without and with the utterance after it.

    For the last one both are the same.

    >>> [(single.turns, both.turns) for single, both in utterance_windows([0, 1, 3])]
    [((1, 0), (3, 1, 0)), ((3, 1, 0), (3, 1, 0))]
    """
    windows = []
    for place in range(1, len(order)):
        before = tuple(order[place - 1 :: -1])
        alone = Window("ur", (order[place], *before)[:PLACES])
        ahead = tuple(order[place + 1 : place + 2])
        windows.append((alone, Window("ru", (*ahead, order[place], *before)[:PLACES]) if ahead else alone))
    return windows


def flow_features(encoded: TurnVectors) -> Floats:
    """Return the last two turns before each turn and the mean of all, (turns, 3 * width)."""
    means, width = encoded.contexts(), encoded.vectors.shape[1]
    before = np.zeros((len(encoded.vectors), 3 * width), np.float32)
    spoken_before: list[int] = []
    for number, is_spoken in enumerate(encoded.spoken):
        if spoken_before:
            last = encoded.vectors[spoken_before[-1]]
            earlier = (
                encoded.vectors[spoken_before[-2]] if len(spoken_before) > 1 else np.zeros(width, np.float32)
            )
            before[number] = np.concatenate([last, earlier, means[number]])
        spoken_before += [number] if is_spoken else []
    return before


class Baseline(Model):
    """A trained baseline, and the encoder that it was trained on."""

    kinds: ClassVar[tuple[str, ...]] = (KIND,)
    default: ClassVar[str] = "dialeval-bert-ruber"

    def __init__(self, artefact: Artefact) -> None:
        super().__init__(artefact)
        config, place = artefact.config, artefact.folder / "config.json"
        for field, choices in (("features", get_args(Features)), ("vectors", get_args(Vectors))):
            if config.get(field) not in choices:
                raise DataError(f"expected one of {', '.join(choices)}", file=place, field=field)
        self.reader = BaselineReader(recorded_encoder(config, place), config["features"], config["vectors"])
        self._head = VectorHead(artefact)
        self.head, self.needs = self._head.heads[0].name, self.reader.needs

    def replies(self, encoded: TurnVectors, turns: Sequence[int]) -> dict[int, float]:
        """Return the score of each reply; empty ones and those that answer nothing are left out."""
        answered = encoded.answered()
        candidates = [(turn, answered[turn]) for turn in turns if encoded.spoken[turn]]
        answering = [(turn, before) for turn, before in candidates if before is not None]
        if not answering:
            return {}
        features = exchange_features(
            encoded.vectors[[before for _, before in answering]],
            encoded.vectors[[turn for turn, _ in answering]],
        )
        values = self._head.answers(features)[self.head]
        return {turn: float(value) for (turn, _), value in zip(answering, values, strict=True)}

    def graphs(self, encoded: TurnVectors) -> Doubles:
        """Return the score of the dialogue up to each turn: the mean over utterance windows."""
        order = [turn for turn, is_spoken in enumerate(encoded.spoken) if is_spoken]
        texts = [turn.text for turn in encoded.dialogue.turns]
        windows = [window for pair in utterance_windows(order) for window in pair]
        rows = [(window.turns, window.direction, window.histories) for window in windows]
        values = np.full(len(texts), np.nan)
        if rows:
            features = window_features(described(encoded.vectors, texts), *window_arrays(rows))
            alone, both = self._head.answers(features)[self.head].reshape(-1, 2).T
            earlier = np.concatenate([[0.0], np.cumsum(both)[:-1]])
            values[order[1:]] = (earlier + alone) / np.arange(1, len(alone) + 1)
        return values

    def expected(self, encoded: TurnVectors) -> Doubles:
        """Return the cosine of each turn with the predicted one."""
        answers = self._head.answers(flow_features(encoded))
        guess = np.stack([answers[head.name] for head in self._head.heads], axis=1)
        lengths = np.linalg.norm(guess, axis=1) * np.linalg.norm(encoded.vectors, axis=1)
        return np.asarray((guess * encoded.vectors).sum(axis=1) / np.maximum(lengths, 1e-12), np.float64)
