"""The baselines that papers of this field compare with, each as a small head on the shared encoder.

They follow their papers in what they look at and in what they learn from; the networks below that are
replaced by one frozen encoder (`models/baselines.py`). So they say how far an idea goes, not what the code of
its authors gives.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from dialeval.dialogues import Dialogue, scored_turns
from dialeval.metrics.registry import (
    Aggregate,
    Better,
    OpensModels,
    Rows,
    encoded_chunks,
    metric,
    model_field,
)
from dialeval.models.baselines import Baseline
from dialeval.models.network import unit
from dialeval.models.turn_vectors import TurnVectors
from dialeval.scores import Scores

Blend = Literal["min", "max", "mean", "geometric"]
_NOTHING, _EMPTY = "nothing said before it", "empty reply"


def _note(encoded: TurnVectors, turn: int) -> str | None:
    return "truncated" if encoded.cut[turn] else None


def _trained(name: str) -> Any:
    return model_field(name, Baseline.load)


@dataclass(frozen=True)
class _Learned(OpensModels):
    """The fields of all learned baselines: a model, and the speaker whose turns are scored."""

    model: str = _trained("")
    speaker: str | None = None

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Judge each dialogue by the vectors of its turns."""
        rows, model = Rows(self), Baseline.load(self.model)
        for chunk in encoded_chunks(self, dialogues):
            for encoded in model.reader.turns(chunk):
                self._judge(rows, model, encoded)
        return rows.scores()

    def _judge(self, rows: Rows, model: Baseline, encoded: TurnVectors) -> None:
        """Add the rows of a dialogue."""
        raise NotImplementedError


@dataclass(frozen=True)
class _ByReply(_Learned):
    """One that judges replies; a dialogue has the figure of its replies by `aggregate`."""

    aggregate: Aggregate = "mean"

    def _add(self, rows: Rows, encoded: TurnVectors, dimension: str, values: dict[int, float]) -> None:
        """Add a row for each scored turn and one for the dialogue."""
        for turn in scored_turns(encoded.dialogue, self.speaker):
            missing = _NOTHING if encoded.spoken[turn] else _EMPTY
            note = _note(encoded, turn) if turn in values else missing
            rows.add(encoded.dialogue, turn, dimension, values.get(turn), note)
        rows.add_dialogue(encoded.dialogue, dimension, values, self.aggregate, "no reply to score")


@metric("ruber.v1")
@dataclass(frozen=True)
class Ruber(_ByReply):
    """RUBER: fit to the context and similarity to a reference, 0 to 1.

    `unreferenced` was trained on true and random replies, over means of word vectors; `referenced` is the
    cosine with the best reference, moved to 0 to 1; `overall` blends the two, and is the first where there
    is no reference.

    >>> from dialeval.dialogues import dialogue
    >>> chats = [dialogue([("user", "Do you have any pets?"), ("assistant", reply)], reply)
    ...     for reply in ("Yes, two cats and an old dog.", "The train leaves at nine.")]
    >>> good, bad = (row.value for row in Ruber().score(chats) if row.turn and row.dimension == "overall")
    >>> good > bad
    True
    """

    model: str = _trained("dialeval-ruber")
    blend: Blend = "mean"
    dimensions: ClassVar[tuple[str, ...]] = ("overall", "unreferenced", "referenced")

    def _judge(self, rows: Rows, model: Baseline, encoded: TurnVectors) -> None:
        """Judge each reply by what it answers and by its references."""
        turns = scored_turns(encoded.dialogue, self.speaker)
        fits = model.replies(encoded, turns)
        alike = self._referenced(model, encoded, turns)
        both = {
            turn: blended([fits[turn], *([alike[turn]] if turn in alike else [])], self.blend)
            for turn in fits
        }
        self._add(rows, encoded, "overall", both)
        self._add(rows, encoded, "unreferenced", fits)
        self._add_referenced(rows, encoded, turns, alike)

    def _referenced(self, model: Baseline, encoded: TurnVectors, turns: Sequence[int]) -> dict[int, float]:
        alike = {}
        for turn in turns:
            references = [text for text in encoded.dialogue.references.get(turn, ()) if text.strip()]
            if references and encoded.spoken[turn]:
                vectors = unit(model.reader.encoder.vectors(references, **model.reader.reading))
                alike[turn] = (1 + float((vectors @ encoded.vectors[turn]).max())) / 2
        return alike

    def _add_referenced(
        self, rows: Rows, encoded: TurnVectors, turns: Sequence[int], alike: dict[int, float]
    ) -> None:
        for turn in turns:
            missing = "no reference" if encoded.spoken[turn] else _EMPTY
            rows.add(
                encoded.dialogue, turn, "referenced", alike.get(turn), None if turn in alike else missing
            )
        mean = sum(alike.values()) / len(alike) if alike else None
        rows.add(encoded.dialogue, None, "referenced", mean, None if alike else "no reference")


@metric("bert-ruber.v1")
@dataclass(frozen=True)
class BertRuber(Ruber):
    """RUBER over sentence vectors of the encoder.

    >>> from dialeval.dialogues import dialogue
    >>> chats = [dialogue([("user", "Do you have any pets?"), ("assistant", reply)], reply)
    ...     for reply in ("Yes, two cats and an old dog.", "The train leaves at nine.")]
    >>> good, bad = (row.value for row in BertRuber().score(chats) if row.turn and row.dimension == "overall")
    >>> good > bad
    True
    """

    model: str = _trained("dialeval-bert-ruber")


@metric("pone.v1")
@dataclass(frozen=True)
class Pone(Ruber):
    """BERT-RUBER trained with weighted positives and selected negatives.

    >>> from dialeval.dialogues import dialogue
    >>> chats = [dialogue([("user", "Do you have any pets?"), ("assistant", reply)], reply)
    ...     for reply in ("Yes, two cats and an old dog.", "The train leaves at nine.")]
    >>> good, bad = (row.value for row in Pone().score(chats) if row.turn and row.dimension == "overall")
    >>> good > bad
    True
    """

    model: str = _trained("dialeval-pone")


@metric("predictive-engagement.v1")
@dataclass(frozen=True)
class PredictiveEngagement(_ByReply):
    """Engagement of an utterance, learned from dialogue ratings.

    >>> from dialeval.dialogues import dialogue
    >>> chat = dialogue([("user", "Do you have any pets?"), ("assistant", "Yes, two cats and an old dog.")])
    >>> [round(row.value, 1) for row in PredictiveEngagement().score([chat]) if row.turn]
    [0.5]
    """

    model: str = _trained("dialeval-predictive-engagement")
    dimensions: ClassVar[tuple[str, ...]] = ("engagement",)

    def _judge(self, rows: Rows, model: Baseline, encoded: TurnVectors) -> None:
        """Judge each reply beside what it answers."""
        values = model.replies(encoded, scored_turns(encoded.dialogue, self.speaker))
        self._add(rows, encoded, "engagement", values)


@metric("dynaeval.v1")
@dataclass(frozen=True)
class DynaEval(_Learned):
    """DynaEval: coherence of the utterance graph of a dialogue, 0 to 1.

    Trained to separate dialogues from ones with shuffled or replaced utterances.

    A reply is judged by the graph of the dialogue up to it, the dialogue by that of all its utterances.

    >>> from dialeval.dialogues import dialogue
    >>> said = ["Do you have any pets?", "Yes, two cats.", "What are the cats called?", "Tom and Tim."]
    >>> whole, shuffled = (dialogue([(("user", "assistant")[n % 2], text) for n, text in enumerate(some)])
    ...     for some in (said, [said[3], said[0], said[2], said[1]]))
    >>> good, bad = (DynaEval().score([one]).where(level="dialogue") for one in (whole, shuffled))
    >>> next(iter(good)).value > next(iter(bad)).value
    True
    """

    model: str = _trained("dialeval-dynaeval")
    dimensions: ClassVar[tuple[str, ...]] = ("overall",)

    def _judge(self, rows: Rows, model: Baseline, encoded: TurnVectors) -> None:
        """Judge each dialogue as a whole, and up to each reply."""
        spoken = [turn for turn, is_spoken in enumerate(encoded.spoken) if is_spoken]
        values = model.graphs(encoded) if len(spoken) > 1 else np.zeros(0)
        for turn in scored_turns(encoded.dialogue, self.speaker):
            scorable = encoded.spoken[turn] and len(spoken) > 1 and turn > spoken[0]
            missing = _NOTHING if encoded.spoken[turn] else _EMPTY
            value = float(values[turn]) if scorable else None
            rows.add(encoded.dialogue, turn, "overall", value, _note(encoded, turn) if scorable else missing)
        whole = float(values[spoken[-1]]) if len(values) else None
        rows.add(encoded.dialogue, None, "overall", whole, None if len(values) else "fewer than two turns")


@metric("flow-score.v1")
@dataclass(frozen=True)
class FlowScore(_Learned):
    """Flow score: how unexpected the turns are, from 1; lower is better.

    A linear model predicts the vector of the next turn; s = (1 + cosine with the true one) / 2. A reply has
    1 / s, a dialogue the exponential of the mean of -ln s over its replies, as perplexity is made.

    >>> from dialeval.dialogues import dialogue
    >>> chats = [dialogue([("user", "Do you have any pets?"), ("assistant", reply)], reply)
    ...     for reply in ("Yes, two cats and an old dog.", "The train leaves at nine.")]
    >>> good, bad = (row.value for row in FlowScore().score(chats) if row.turn)
    >>> good < bad
    True
    """

    model: str = _trained("dialeval-flow-score")
    dimensions: ClassVar[tuple[str, ...]] = ("flow",)
    better: ClassVar[Better] = "lower"

    def _judge(self, rows: Rows, model: Baseline, encoded: TurnVectors) -> None:
        """Compare each reply with the one that was to be expected."""
        first = next((turn for turn, is_spoken in enumerate(encoded.spoken) if is_spoken), None)
        turns = scored_turns(encoded.dialogue, self.speaker)
        scorable = [turn for turn in turns if encoded.spoken[turn] and turn != first]
        cosines = model.expected(encoded) if scorable else np.zeros(0)
        shares = {turn: max(1e-3, (1 + float(cosines[turn])) / 2) for turn in scorable}
        for turn in turns:
            missing = _NOTHING if encoded.spoken[turn] else _EMPTY
            value = 1 / shares[turn] if turn in shares else None
            rows.add(
                encoded.dialogue, turn, "flow", value, _note(encoded, turn) if turn in shares else missing
            )
        mean = sum(map(math.log, shares.values())) / len(shares) if shares else None
        rows.add(
            encoded.dialogue,
            None,
            "flow",
            None if mean is None else math.exp(-mean),
            None if shares else "no reply to score",
        )


def blended(values: Sequence[float], method: Blend) -> float:
    """Blend the parts of a score into one.

    >>> [round(blended([0.2, 0.8], how), 2) for how in ("min", "max", "mean", "geometric")]
    [0.2, 0.8, 0.5, 0.4]
    """
    if method in ("min", "max"):
        return min(values) if method == "min" else max(values)
    if method == "mean":
        return sum(values) / len(values)
    return math.prod(values) ** (1 / len(values))
