"""The recipes `coherence` and `dialoguescore`: true replies against negatives, for every length of history.

Of each reply and each kind of negatives one pair is made: the windows with the true reply, and the same ones
with another reply in its place. How much history a window has is drawn among what the dialogue allows, so
that longer histories have fewer examples, and whether replies are read with or without their values is drawn
as well. Features of all windows would be gigabytes: an example holds rows of a table of vectors that all
share, and its features are computed when a batch is read.
"""

import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dialeval.dialogues import Dialogue, says_something
from dialeval.errors import UsageError
from dialeval.models.coherence import (
    FIGURES,
    HEAD,
    KIND,
    Direction,
    Window,
    described,
    window_arrays,
    window_features,
    windows,
)
from dialeval.models.encoder import DEFAULT, Encoder
from dialeval.models.heads import Head
from dialeval.models.network import Floats, unit
from dialeval.training.examples import PairExample, Targets
from dialeval.training.negatives import KINDS, Negatives, ReplyPlace, draws_of
from dialeval.training.networks import Lengths, Places, PreparedVectors, VectorNetwork
from dialeval.training.recipe import Recipe, pair_recipe
from dialeval.training.settings import TrainingSettings

WINDOWS = TrainingSettings(
    batch=256, learning_rate=1e-3, epochs=1, warmup=0.03, weight_decay=0.1, dropout=0.3
)

_MIXED = {"dialoguescore": ("session", "domain", "state"), "coherence": ("session", "topic", "random")}
_SAMPLE = 8192  # examples that mean and scale of the features are taken from


class VectorTable:
    """Vectors of different texts, a row each."""

    def __init__(self, vectors: Floats) -> None:
        self.vectors = vectors
        self.hash = hashlib.blake2b(np.ascontiguousarray(vectors).tobytes(), digest_size=16).digest()


@dataclass(frozen=True, eq=False)
class WindowExample:
    """Turns of a window by their rows in a table, with direction, history and target."""

    table: VectorTable = field(repr=False)
    turns: tuple[int, ...]
    direction: Direction
    history: int
    targets: Targets
    weight: float = 1.0

    def digest(self) -> bytes:
        """Return bytes that differ whenever examples do."""
        text = repr((self.turns, self.direction, self.history, sorted(self.targets.items()), self.weight))
        return hashlib.blake2b(self.table.hash + text.encode(), digest_size=16).digest()


class PreparedWindows(PreparedVectors):
    """Windows in the form that the network reads; all have features of one size."""

    def __init__(self, examples: Sequence[WindowExample], _: int | None = None) -> None:
        tables = {id(example.table): example.table for example in examples}
        starts, vectors = dict[int, int](), [np.zeros((0, 0), np.float32)]
        for key, table in tables.items():
            starts[key] = sum(map(len, vectors))
            vectors.append(table.vectors)
        self.vectors = vectors[-1] if len(vectors) == 2 else np.concatenate(vectors[1:] or vectors)
        self.lengths: Lengths = np.ones(len(examples), np.int64)
        windows = [(example.turns, example.direction, example.history) for example in examples]
        places, self._direction, self._history = window_arrays(windows)
        offsets = np.array([starts[id(example.table)] for example in examples], np.int64)
        self._places = np.where(places >= 0, places + offsets[:, None], -1)

    def features(self, places: Places | slice) -> Floats:
        """Describe the windows at these places."""
        chosen = self._places[places], self._direction[places], self._history[places]
        return window_features(self.vectors, *chosen)


class CoherenceCase(NamedTuple):
    """A window as texts, the last turn first; `true` is whether its reply is the true one."""

    texts: tuple[str, ...]
    direction: Direction
    history: int
    true: bool


@dataclass(frozen=True)
class Contrasts:
    """How true replies are paired with negatives.

    `kinds` of negatives, one of each for every reply, so one named twice is drawn twice; `bare` is the share
    of pairs whose replies have no values; the exchanges of history are drawn among those of `figures`.
    """

    kinds: tuple[str, ...]
    bare: float = 0.0
    seed: int = 0
    figures: tuple[str, ...] = FIGURES

    def cases(self, dialogues: Sequence[Dialogue]) -> Iterator[CoherenceCase]:
        """Make the cases of dialogues, true and false by turns."""
        drawn = Negatives(dialogues, self.seed)
        for number, dialogue in enumerate(dialogues):
            spoken = [says_something(turn) for turn in dialogue.turns]
            replies = drawn.replies[number]
            for turn, by_direction in zip(replies, windows(dialogue, spoken, replies), strict=True):
                for order, kind in enumerate(self.kinds if by_direction else ()):
                    count = self.kinds[:order].count(kind)
                    yield from self._pairs(drawn, ReplyPlace(number, turn), by_direction, kind, count)

    def _pairs(
        self,
        drawn: Negatives,
        place: ReplyPlace,
        by_direction: Mapping[Direction, Window],
        kind: str,
        count: int,
    ) -> Iterator[CoherenceCase]:
        """Make the windows of a reply with one negative."""
        negative = drawn.draw(place, kind, count)
        if negative is None:
            return
        name = drawn.dialogues[place.dialogue].id
        chance = draws_of(f"{self.seed}|window|{kind}|{name}|{place.turn}|{count}")
        bare = chance.random() < self.bare
        for direction, window in by_direction.items():
            allowed = [size for size in range(window.histories + 1) if f"{direction}{size}" in self.figures]
            if not allowed:
                continue
            history = allowed[int(chance.integers(len(allowed)))]
            for chosen in (place, negative):
                texts = _texts(drawn, window.cut(history), place, chosen, bare)
                yield CoherenceCase(texts, direction, history, chosen is place)


def _texts(
    drawn: Negatives, numbers: Sequence[int], place: ReplyPlace, chosen: ReplyPlace, bare: bool
) -> tuple[str, ...]:
    """Return the texts of the turns of a window, with the chosen reply in place of the true one."""
    turns = drawn.dialogues[place.dialogue].turns
    speaker = turns[place.turn].speaker
    texts = []
    for number in numbers:
        source = chosen if number == place.turn else ReplyPlace(place.dialogue, number)
        without = bare and turns[number].speaker == speaker
        texts.append(
            drawn.plain(source) if without else drawn.dialogues[source.dialogue].turns[source.turn].text
        )
    return tuple(texts)


def window_examples(contrasts: Contrasts, dialogues: Iterable[Dialogue]) -> Iterator[WindowExample]:
    """Encode each different text once, and make windows over the table of them."""
    cases = list(contrasts.cases(list(dialogues)))
    texts = {text: None for case in cases for text in case.texts}
    places = {text: number for number, text in enumerate(texts)}
    table = VectorTable(described(unit_vectors(Encoder.load(DEFAULT), list(texts)), list(texts)))
    for case in cases:
        turns = tuple(places[text] for text in case.texts)
        yield WindowExample(table, turns, case.direction, case.history, {HEAD.name: float(case.true)})


def window_network(
    examples: Sequence[WindowExample], settings: TrainingSettings, head: Head = HEAD, hidden: int = 256
) -> VectorNetwork:
    """Make layers of the right size, with the mean and scale of a sample of the examples."""
    sample = examples[:: max(1, len(examples) // _SAMPLE)]
    return VectorNetwork.fitting(
        sample, (head,), settings, hidden=(hidden,), activation="gelu", read=PreparedWindows
    )


def unit_vectors(encoder: Encoder, texts: Sequence[str]) -> Floats:
    """Encode texts to vectors of length one; a blank text is a row of zeros."""
    rows = np.zeros((len(texts), encoder.width), np.float32)
    numbers = [number for number, text in enumerate(texts) if text.strip()]
    rows[numbers] = unit(encoder.vectors([texts[number] for number in numbers]))
    return rows


def pair_examples(contrasts: Contrasts, dialogues: Iterable[Dialogue]) -> Iterator[PairExample]:
    """Make examples for a cross-encoder, whose heads are called `ur0` to `ru4`."""
    for case in contrasts.cases(list(dialogues)):
        head = f"{case.direction}{case.history}"
        yield PairExample(case.texts[:0:-1], case.texts[0], {head: float(case.true)})


def recipe(
    encoder: str | None = None,
    negatives: str = "session+session+domain",
    figure: str = "all",
    bare: str = "0.3",
) -> Recipe:
    """Coherence in task-oriented dialogue, from true replies and negatives.

    Args:
        encoder: None: a small head on the vectors of the shipped encoder, for all ten figures. A folder or
            Hub id, such as `bert-base-uncased`, is fine-tuned as a whole, with the paper's settings.
        negatives: Kinds joined by `+`, see `training.negatives`; one named twice is drawn twice. `mixed`, as
            in the paper: session, domain and state, most of which would have been right answers.
        figure: `all` ten, one of them (`ur2`) as in the paper, which trains a model for each, or several
            joined by `+`.
        bare: The share of replies that are read without their values.
    """
    return _recipe("dialoguescore", encoder, negatives, figure, bare)


def open_recipe(encoder: str | None = None, negatives: str = "mixed", figure: str = "all") -> Recipe:
    """Coherence of replies in open-domain chat, from true replies and negatives.

    Args:
        encoder: As for `dialoguescore`.
        negatives: Kinds joined by `+`; `mixed` is session, topic and random.
        figure: As for `dialoguescore`.
    """
    return _recipe("coherence", encoder, negatives, figure, "0")


def _recipe(name: str, encoder: str | None, negatives: str, figure: str, bare: str) -> Recipe:
    kinds = _MIXED[name] if negatives == "mixed" else tuple(negatives.split("+"))
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"{name}: no negatives {kind!r}; known: mixed, {', '.join(KINDS)}, joined by +")
    figures = FIGURES if figure == "all" else tuple(figure.split("+"))
    if unknown := [key for key in figures if key not in FIGURES]:
        raise UsageError(f"{name}: no figure {unknown[0]!r}; known: all, {', '.join(FIGURES)}, joined by +")
    contrasts = Contrasts(kinds, _share(name, bare), figures=figures)
    about = f"Says how well a reply fits what surrounds it; negatives: {', '.join(kinds)}."
    if encoder is None:
        if figure != "all":
            raise UsageError(f"{name}: a figure of its own is for --encoder; the head answers for all ten")
        fields = {"encoder": Encoder.load(DEFAULT).origin, "negatives": list(kinds)}
        windowed = functools.partial(window_examples, contrasts)
        return Recipe(name, windowed, window_network, "accuracy", WINDOWS, about, fields, KIND)
    heads = tuple(Head(key, "binary") for key in FIGURES if key in figures)
    paper = TrainingSettings(batch=64, learning_rate=2e-5, epochs=3)
    examples = functools.partial(pair_examples, contrasts)
    return pair_recipe(name, heads, examples, "accuracy", paper, encoder, about=about)


def _share(name: str, text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise UsageError(f"{name}: bare={text} is no share, from 0 to 1")
    return share
