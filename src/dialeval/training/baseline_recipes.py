"""Recipes of the published baselines: RUBER, BERT-RUBER, PONE, predictive engagement, DynaEval, Flow score.

None of them needs a label but predictive engagement, which learns from ratings of dialogues: `rating` in the
meta of a dialogue, or else the mean of the `label`s of its turns.
"""

import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dialeval.dialogues import Dialogue, in_blocks, scored_turns
from dialeval.models.baselines import (
    KIND,
    BaselineReader,
    Features,
    Vectors,
    exchange_features,
    flow_features,
    utterance_windows,
)
from dialeval.models.coherence import described
from dialeval.models.encoder import DEFAULT, Encoder
from dialeval.models.heads import Head
from dialeval.models.network import Floats
from dialeval.models.turn_vectors import TurnVectors
from dialeval.training.coherence_recipe import WINDOWS, VectorTable, WindowExample, window_network
from dialeval.training.examples import Floats as Floats64
from dialeval.training.examples import VectorExample
from dialeval.training.recipe import Recipe, vector_recipe
from dialeval.training.settings import TrainingSettings

FITS, WHOLE, ENGAGEMENT = Head("fits", "binary"), Head("whole", "binary"), Head("engagement", "regression")
SMALL = TrainingSettings(batch=128, learning_rate=5e-4, epochs=4, warmup=0.1, weight_decay=0.05, dropout=0.3)
_LINEAR = TrainingSettings(epochs=0, weight_decay=1.0)  # ridge regression
_TOGETHER = 128  # dialogues encoded at a time
_CANDIDATES = 16  # replies that a negative is chosen among
_NEIGHBOUR = 0.6  # cosine from which a reply of another dialogue may stand in for the true one
MOST_FLOWS = 12_000  # turns that the flow is learned from: each has as many targets as a vector numbers


def _reader(encoder: str | None, features: Features, vectors: Vectors = "sentence") -> BaselineReader:
    return BaselineReader(Encoder.load(encoder or DEFAULT), features, vectors)


def _replies_recipe(
    name: str, about: str, reader: BaselineReader, hidden: tuple[int, ...], *, chosen: bool = False
) -> Recipe:
    examples = functools.partial(_replies, reader=reader, chosen=chosen)
    layers: dict[str, Any] = {"hidden": hidden, "activation": "gelu", "fields": reader.fields()}
    return vector_recipe(name, (FITS,), examples, "accuracy", SMALL, **layers, about=about, kind=KIND)


def ruber(encoder: str | None = None) -> Recipe:
    """RUBER: true against random replies, over means of word vectors."""
    about = "Scores how well a reply fits what it answers; true against random replies, word vectors."
    return _replies_recipe("ruber", about, _reader(encoder, "exchange", "words"), (256,))


def bert_ruber(encoder: str | None = None) -> Recipe:
    """BERT-RUBER: true against random replies, over sentence vectors."""
    about = "Scores how well a reply fits what it answers; true against random replies, sentence vectors."
    return _replies_recipe("bert-ruber", about, _reader(encoder, "exchange"), (64, 32))


def pone(encoder: str | None = None) -> Recipe:
    """PONE: BERT-RUBER with weighted positives and near negatives."""
    about = "Scores how well a reply fits what it answers; weighted positives and near negatives."
    return _replies_recipe("pone", about, _reader(encoder, "exchange"), (64, 32), chosen=True)


def predictive_engagement(encoder: str | None = None) -> Recipe:
    """Engagement of an utterance, learned from ratings of whole dialogues."""
    reader = _reader(encoder, "exchange")
    about = "Scores how engaging an utterance is; learned from ratings of dialogues."
    examples, settings = functools.partial(_rated, reader=reader), replace(_LINEAR, weight_decay=10.0)
    more: dict[str, Any] = {"hidden": (), "ridge": True, "fields": reader.fields(), "kind": KIND}
    name, heads = "predictive-engagement", (ENGAGEMENT,)
    return vector_recipe(name, heads, examples, "spearman", settings, about=about, **more)


def dynaeval(encoder: str | None = None) -> Recipe:
    """DynaEval: dialogues against shuffled or replaced ones, by utterance graphs."""
    reader = _reader(encoder, "windows")
    about = "Scores the coherence of a dialogue; originals against shuffled and replaced utterances."
    network = functools.partial(window_network, head=WHOLE, hidden=128)
    examples = functools.partial(_graphs, reader=reader)
    return Recipe("dynaeval", examples, network, "accuracy", WINDOWS, about, reader.fields(), KIND)


def flow_score(encoder: str | None = None) -> Recipe:
    """Flow score: prediction of the next turn from the flow of the dialogue."""
    reader = _reader(encoder, "flow")
    heads = tuple(Head(f"d{number}", "regression") for number in range(reader.encoder.width))
    examples = functools.partial(_flows, heads=heads, reader=reader)
    about = "Predicts the vector of the next turn of a dialogue."
    more: dict[str, Any] = {"hidden": (), "ridge": True, "fields": reader.fields(), "kind": KIND}
    return vector_recipe("flow-score", heads, examples, mean_cosine, _LINEAR, about=about, **more)


class _Exchange(NamedTuple):
    context: Floats
    reply: Floats
    key: str


def _read(dialogues: Iterable[Dialogue], reader: BaselineReader) -> Iterator[TurnVectors]:
    for block in in_blocks(dialogues, _TOGETHER):
        yield from reader.turns(block)


def _exchanges(encoded: TurnVectors) -> Iterator[tuple[int, _Exchange]]:
    answered = encoded.answered()
    for turn in scored_turns(encoded.dialogue):
        before = answered[turn]
        if before is not None and encoded.spoken[turn]:
            vectors = encoded.vectors
            yield turn, _Exchange(vectors[before], vectors[turn], f"{encoded.dialogue.id}|{turn}")


def _replies(
    dialogues: Iterable[Dialogue], reader: BaselineReader, *, chosen: bool = False
) -> Iterator[VectorExample]:
    """Yield for each reply a positive example, and a negative with a reply from elsewhere."""
    known = [exchange for encoded in _read(dialogues, reader) for _, exchange in _exchanges(encoded)]
    if not known:
        return
    replies = np.stack([exchange.reply for exchange in known])
    for exchange in known:
        candidates = range(_CANDIDATES if chosen else 1)
        drawn = np.array([_draw(f"{exchange.key}|{n}", len(known)) for n in candidates])
        alike = replies[drawn] @ exchange.reply
        other = _nearest(drawn, alike, exchange.key) if chosen else int(drawn[0])
        yield _example(exchange.context, exchange.reply, 1.0)
        yield _example(exchange.context, replies[other], 0.0)
        best = int(alike.argmax())
        if chosen and _NEIGHBOUR <= alike[best] < 1 - 1e-6:  # PONE's augmented positives weigh what they fit
            yield _example(exchange.context, replies[drawn[best]], 1.0, float(alike[best]))


def _nearest(drawn: Any, alike: Floats, key: str) -> int:
    """Choose a negative: every second time the nearest of the candidates that is no paraphrase."""
    near = np.where(alike < _NEIGHBOUR, alike, -2.0)
    return int(drawn[int(near.argmax())] if _draw(f"{key}|near", 2) else drawn[0])


def _example(context: Floats, reply: Floats, fits: float, weight: float = 1.0) -> VectorExample:
    return VectorExample(exchange_features(context[None], reply[None])[0], {FITS.name: fits}, weight)


def _rated(dialogues: Iterable[Dialogue], reader: BaselineReader) -> Iterator[VectorExample]:
    """Yield each reply with the rating of its dialogue as target."""
    for encoded in _read(dialogues, reader):
        rating = dialogue_rating(encoded.dialogue)
        if rating is not None:
            for _, exchange in _exchanges(encoded):
                row = exchange_features(exchange.context[None], exchange.reply[None])[0]
                yield VectorExample(row, {ENGAGEMENT.name: rating})


def dialogue_rating(dialogue: Dialogue) -> float | None:
    """Return the `rating` in the meta of a dialogue, or the mean of the labels of its turns.

    >>> from dialeval.dialogues import Turn, dialogue
    >>> dialogue_rating(dialogue([Turn("user", "Hi", {"label": 1.0}), Turn("user", "?", {"label": 0})]))
    0.5
    """
    rating = dialogue.meta.get("rating")
    labels = [turn.meta.get("label") for turn in dialogue.turns]
    values = labels if rating is None else [rating]
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    return sum(numbers) / len(numbers) if numbers else None


def _graphs(dialogues: Iterable[Dialogue], reader: BaselineReader) -> Iterator[WindowExample]:
    """Make examples of the utterances of every dialogue, as it is and damaged in two ways.

    One speaker's utterances are shuffled, or replaced by those of another dialogue and, one in four, by
    others of the same one. An utterance is seen with the one after it, one in four without.
    """
    pairs = [(encoded, np.flatnonzero(encoded.spoken).tolist()) for encoded in _read(dialogues, reader)]
    known = [(encoded, order) for encoded, order in pairs if len(order) > 3]
    texts = {
        encoded.dialogue.turns[turn].text: encoded.vectors[turn] for encoded, order in known for turn in order
    }
    rows = {text: row for row, text in enumerate(texts)}
    vectors = np.array([*texts.values()], np.float32).reshape(len(texts), reader.encoder.width)
    table = VectorTable(described(vectors, [*texts]))
    rows_of = [[rows[encoded.dialogue.turns[turn].text] for turn in order] for encoded, order in known]
    for own, (encoded, order) in zip(rows_of, known, strict=True):
        name, speakers = encoded.dialogue.id, [encoded.dialogue.turns[turn].speaker for turn in order]
        chosen = sorted(set(speakers))[_draw(f"{name}|speaker", len(set(speakers)))]
        places = [place for place, speaker in enumerate(speakers) if speaker == chosen]
        other = rows_of[_draw(f"{name}|other", len(rows_of))]
        for variant in (own, _shuffled(own, places, name), _replaced(own, places, other, name)):
            yield from _utterances(table, variant, own, name)


def _utterances(
    table: VectorTable, rows: Sequence[int], own: Sequence[int], name: str
) -> Iterator[WindowExample]:
    """Make examples of utterances; in a damaged dialogue only of those whose neighbours are others."""
    label = float(rows is own)
    for place, pairs in enumerate(zip(utterance_windows(rows), utterance_windows(own), strict=True)):
        window, true = (pair[min(1, _draw(f"{name}|{place}|after", 4))] for pair in pairs)
        if label or window.turns[:3] != true.turns[:3]:
            place_of = window.turns, window.direction, window.histories
            yield WindowExample(table, *place_of, {WHOLE.name: label}, 1 + label)


def _shuffled(own: Sequence[int], places: Sequence[int], name: str) -> list[int]:
    """Put the utterances of one speaker in another order."""
    order = sorted(places, key=lambda place: _draw(f"{name}|{place}", 1 << 30))
    shuffled = list(own)
    for place, chosen in zip(places, order, strict=True):
        shuffled[place] = own[chosen]
    return shuffled


def _replaced(own: Sequence[int], places: Sequence[int], other: Sequence[int], name: str) -> list[int]:
    """Put other utterances in the place of one speaker's."""
    replaced = list(own)
    for place in places:
        source = other if _draw(f"{name}|{place}|in", 4) else own
        replaced[place] = source[_draw(f"{name}|{place}|which", len(source))]
    return replaced


def _flows(
    dialogues: Iterable[Dialogue], reader: BaselineReader, heads: Sequence[Head]
) -> Iterator[VectorExample]:
    """Make an example of every turn that follows something."""
    names, chosen = [head.name for head in heads], list[tuple[int, Floats, Floats]]()
    for encoded in _read(dialogues, reader):
        before = flow_features(encoded)
        first = next((turn for turn, is_spoken in enumerate(encoded.spoken) if is_spoken), 0)
        chosen += [
            (_draw(f"{encoded.dialogue.id}|{turn}", 1 << 62), before[turn], encoded.vectors[turn])
            for turn in range(first + 1, len(before))
            if encoded.spoken[turn]
        ]
    for _, features, target in sorted(chosen, key=lambda entry: entry[0])[:MOST_FLOWS]:
        yield VectorExample(features, dict(zip(names, target.tolist(), strict=True)))


def mean_cosine(predictions: Mapping[str, Floats64], targets: Mapping[str, Floats64]) -> float | None:
    """Return the mean cosine of predicted and true vectors, whose numbers are heads."""
    predicted, true = (np.stack(list(columns.values()), axis=1) for columns in (predictions, targets))
    lengths = np.linalg.norm(predicted, axis=1) * np.linalg.norm(true, axis=1)
    return float(np.mean((predicted * true).sum(axis=1) / np.maximum(lengths, 1e-12)))


def _draw(key: str, count: int) -> int:
    """Draw a number below `count`; the same key draws the same one."""
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) % count
