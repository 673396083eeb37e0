"""Recipes of the published baselines: RUBER, BERT-RUBER, PONE, predictive engagement, DynaEval, Flow score.

None of them needs a label but predictive engagement, which learns from ratings of dialogues: `rating` in the
meta of a dialogue, or else the mean of the `label`s of its turns.
"""

import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dialeval.dialogues import Dialogue, scored_turns
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
from dialeval.training.recipe import Recipe, in_blocks, vector_recipe
from dialeval.training.settings import TrainingSettings

FITS, WHOLE, ENGAGEMENT = Head("fits", "binary"), Head("whole", "binary"), Head("engagement", "regression")
SMALL = TrainingSettings(batch=128, learning_rate=5e-4, epochs=4, warmup=0.1, weight_decay=0.05, dropout=0.3)
_TOGETHER = 128  # dialogues encoded at a time
_CANDIDATES = 16  # replies that a negative is chosen among
_NEIGHBOUR = 0.6  # cosine from which a reply of another dialogue may stand in for the true one
MOST_FLOWS = 12_000  # turns that the flow is learned from: each has as many targets as a vector numbers


def _replies_recipe(
    name: str, about: str, reader: BaselineReader, hidden: tuple[int, ...], *, chosen: bool = False
) -> Recipe:
    made, told = functools.partial(_replies, reader=reader, chosen=chosen), reader.fields()
    layers: dict[str, Any] = {"hidden": hidden, "activation": "gelu"}
    return vector_recipe(
        name, (FITS,), made, "accuracy", SMALL, **layers, about=about, fields=told, kind=KIND
    )


def _linear_recipe(
    name: str,
    about: str,
    reader: BaselineReader,
    heads: Sequence[Head],
    examples: Any,
    figure: Any,
    penalty: float,
) -> Recipe:
    made, told = functools.partial(examples, reader=reader), reader.fields()
    settings = TrainingSettings(epochs=0, weight_decay=penalty)
    return vector_recipe(
        name, heads, made, figure, settings, hidden=(), ridge=True, about=about, fields=told, kind=KIND
    )


def _reader(encoder: str | None, features: Features, vectors: Vectors = "sentence") -> BaselineReader:
    return BaselineReader(Encoder.load(encoder or DEFAULT), features, vectors)


def ruber(encoder: str | None = None) -> Recipe:
    """RUBER: true against random replies, over means of word vectors."""
    reader = _reader(encoder, "exchange", "words")
    about = "Says how well a reply answers what was said; true replies against random ones, word vectors."
    return _replies_recipe("ruber", about, reader, (256,))


def bert_ruber(encoder: str | None = None) -> Recipe:
    """BERT-RUBER: true against random replies, over sentence vectors."""
    reader = _reader(encoder, "exchange")
    about = "Says how well a reply answers what was said; true replies against random ones, sentence vectors."
    return _replies_recipe("bert-ruber", about, reader, (64, 32))


def pone(encoder: str | None = None) -> Recipe:
    """PONE: BERT-RUBER with weighted positives and near negatives."""
    reader = _reader(encoder, "exchange")
    about = "Says how well a reply answers what was said; weighted positives and chosen negatives."
    return _replies_recipe("pone", about, reader, (64, 32), chosen=True)


def predictive_engagement(encoder: str | None = None) -> Recipe:
    """Engagement of an utterance, learned from ratings of whole dialogues."""
    reader = _reader(encoder, "exchange")
    about = "Says how engaging an utterance is; learned from ratings of dialogues."
    return _linear_recipe("predictive-engagement", about, reader, (ENGAGEMENT,), _rated, "spearman", 10.0)


def dynaeval(encoder: str | None = None) -> Recipe:
    """DynaEval: dialogues against shuffled or replaced ones, by utterance graphs."""
    reader = _reader(encoder, "windows")
    about = "Says how much a dialogue is one; originals against shuffled and replaced utterances."
    network = functools.partial(window_network, head=WHOLE, hidden=128)
    made, told = functools.partial(_graphs, reader=reader), reader.fields()
    return Recipe("dynaeval", made, network, "accuracy", WINDOWS, about, told, KIND)


def flow_score(encoder: str | None = None) -> Recipe:
    """Flow score: prediction of the next turn from the flow of the dialogue."""
    reader = _reader(encoder, "flow")
    heads = tuple(Head(f"d{number}", "regression") for number in range(reader.encoder.width))
    about, made = (
        "Predicts the vector of the next turn of a dialogue.",
        functools.partial(_flows, heads=heads),
    )
    return _linear_recipe("flow-score", about, reader, heads, made, mean_cosine, 1.0)


class _TaughtExchange(NamedTuple):
    said: Floats
    reply: Floats
    key: str


def _read(dialogues: Iterable[Dialogue], reader: BaselineReader) -> Iterator[TurnVectors]:
    for some in in_blocks(dialogues, _TOGETHER):
        yield from reader.turns(some)


def _exchanges(found: TurnVectors) -> Iterator[tuple[int, _TaughtExchange]]:
    answered = found.answered()
    for turn in scored_turns(found.dialogue):
        before = answered[turn]
        if before is not None and found.spoken[turn]:
            vectors = found.vectors
            yield turn, _TaughtExchange(vectors[before], vectors[turn], f"{found.dialogue.id}|{turn}")


def _replies(
    dialogues: Iterable[Dialogue], reader: BaselineReader, *, chosen: bool = False
) -> Iterator[VectorExample]:
    """Make of every reply an example, and one of a reply that was given elsewhere."""
    known = [one for found in _read(dialogues, reader) for _, one in _exchanges(found)]
    if not known:
        return
    replies = np.stack([one.reply for one in known])
    for one in known:
        drawn = np.array([_draw(f"{one.key}|{n}", len(known)) for n in range(_CANDIDATES if chosen else 1)])
        alike = replies[drawn] @ one.reply
        other = _nearest(drawn, alike, one.key) if chosen else int(drawn[0])
        yield _example(one.said, one.reply, 1.0)
        yield _example(one.said, replies[other], 0.0)
        best = int(alike.argmax())
        if chosen and _NEIGHBOUR <= alike[best] < 1 - 1e-6:  # PONE's augmented positives weigh what they fit
            yield _example(one.said, replies[drawn[best]], 1.0, float(alike[best]))


def _nearest(drawn: Any, alike: Floats, key: str) -> int:
    """Choose a negative: every second time the nearest of the candidates that is no paraphrase."""
    near = np.where(alike < _NEIGHBOUR, alike, -2.0)
    return int(drawn[int(near.argmax())] if _draw(f"{key}|near", 2) else drawn[0])


def _example(said: Floats, reply: Floats, fits: float, weight: float = 1.0) -> VectorExample:
    return VectorExample(exchange_features(said[None], reply[None])[0], {FITS.name: fits}, weight)


def _rated(dialogues: Iterable[Dialogue], reader: BaselineReader) -> Iterator[VectorExample]:
    """Give every reply of a dialogue the dialogue's rating."""
    for found in _read(dialogues, reader):
        rating = dialogue_rating(found.dialogue)
        if rating is not None:
            for _, one in _exchanges(found):
                row = exchange_features(one.said[None], one.reply[None])[0]
                yield VectorExample(row, {ENGAGEMENT.name: rating})


def dialogue_rating(dialogue: Dialogue) -> float | None:
    """Return the `rating` in the meta of a dialogue, or the mean of the labels of its turns.

    >>> from dialeval.dialogues import Turn, dialogue
    >>> dialogue_rating(dialogue([Turn("user", "Hi", {"label": 1.0}), Turn("user", "?", {"label": 0})]))
    0.5
    """
    given = dialogue.meta.get("rating")
    labels = [turn.meta.get("label") for turn in dialogue.turns]
    known = labels if given is None else [given]
    numbers = [float(one) for one in known if isinstance(one, int | float)]
    return sum(numbers) / len(numbers) if numbers else None


def _graphs(dialogues: Iterable[Dialogue], reader: BaselineReader) -> Iterator[WindowExample]:
    """Make examples of the utterances of every dialogue, as it is and damaged in two ways.

    One speaker's utterances are shuffled, or replaced by those of another dialogue and, one in four, by
    others of the same one. An utterance is seen with the one after it, one in four without.
    """
    known = [(found, np.flatnonzero(found.spoken).tolist()) for found in _read(dialogues, reader)]
    known = [(found, order) for found, order in known if len(order) > 3]
    texts = {found.dialogue.turns[turn].text: found.vectors[turn] for found, order in known for turn in order}
    rows = {text: row for row, text in enumerate(texts)}
    vectors = np.array([*texts.values()], np.float32).reshape(len(texts), reader.encoder.width)
    table = VectorTable(described(vectors, [*texts]))
    said = [[rows[found.dialogue.turns[turn].text] for turn in order] for found, order in known]
    for own, (found, order) in zip(said, known, strict=True):
        name, speakers = found.dialogue.id, [found.dialogue.turns[turn].speaker for turn in order]
        chosen = sorted(set(speakers))[_draw(f"{name}|speaker", len(set(speakers)))]
        places = [place for place, speaker in enumerate(speakers) if speaker == chosen]
        other = said[_draw(f"{name}|other", len(said))]
        for made in (own, _shuffled(own, places, name), _replaced(own, places, other, name)):
            yield from _utterances(table, made, own, name)


def _utterances(
    table: VectorTable, made: Sequence[int], own: Sequence[int], name: str
) -> Iterator[WindowExample]:
    """Make examples of utterances; in a damaged dialogue only of those whose neighbours are others."""
    label = float(made is own)
    for place, pairs in enumerate(zip(utterance_windows(made), utterance_windows(own), strict=True)):
        window, true = (pair[min(1, _draw(f"{name}|{place}|after", 4))] for pair in pairs)
        if label or window.turns[:3] != true.turns[:3]:
            told = window.turns, window.direction, window.histories
            yield WindowExample(table, *told, {WHOLE.name: label}, 1 + label)


def _shuffled(own: Sequence[int], places: Sequence[int], name: str) -> list[int]:
    """Put the utterances of one speaker in another order."""
    order = sorted(places, key=lambda place: _draw(f"{name}|{place}", 1 << 30))
    made = list(own)
    for place, chosen in zip(places, order, strict=True):
        made[place] = own[chosen]
    return made


def _replaced(own: Sequence[int], places: Sequence[int], other: Sequence[int], name: str) -> list[int]:
    """Put other utterances in the place of one speaker's."""
    made = list(own)
    for place in places:
        source = other if _draw(f"{name}|{place}|in", 4) else own
        made[place] = source[_draw(f"{name}|{place}|which", len(source))]
    return made


def _flows(
    dialogues: Iterable[Dialogue], reader: BaselineReader, heads: Sequence[Head]
) -> Iterator[VectorExample]:
    """Make an example of every turn that follows something."""
    names, chosen = [head.name for head in heads], list[tuple[int, Floats, Floats]]()
    for found in _read(dialogues, reader):
        before = flow_features(found)
        first = next((turn for turn, heard in enumerate(found.spoken) if heard), 0)
        chosen += [
            (_draw(f"{found.dialogue.id}|{turn}", 1 << 62), before[turn], found.vectors[turn])
            for turn in range(first + 1, len(before))
            if found.spoken[turn]
        ]
    for _, known, said in sorted(chosen, key=lambda one: one[0])[:MOST_FLOWS]:
        yield VectorExample(known, dict(zip(names, said.tolist(), strict=True)))


def mean_cosine(predictions: Mapping[str, Floats64], targets: Mapping[str, Floats64]) -> float | None:
    """Return the mean cosine of predicted and true vectors, whose numbers are heads."""
    said, wanted = (np.stack(list(some.values()), axis=1) for some in (predictions, targets))
    lengths = np.linalg.norm(said, axis=1) * np.linalg.norm(wanted, axis=1)
    return float(np.mean((said * wanted).sum(axis=1) / np.maximum(lengths, 1e-12)))


def _draw(key: str, count: int) -> int:
    """Draw a number below `count`; the same key draws the same one."""
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) % count
