"""Recipes for scorers of coherence: true replies against negatives, for both directions and every history.

Of each reply and each kind of negatives one pair is made: the windows with the true reply, and the same ones
with another reply in its place. How much history a window has is drawn among what the dialogue allows, so
that longer histories have fewer examples, and whether replies are read with or without their values is drawn
as well.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dialeval.dialogues import Dialogue, takes_part
from dialeval.dialogues.negatives import Negatives, Place, draws_of
from dialeval.errors import UsageError
from dialeval.models.artefact import Artefact
from dialeval.models.card import Card
from dialeval.models.coherence import HEAD, Window, windows
from dialeval.models.encoder import DEFAULT, Encoder
from dialeval.models.tensors import Storage
from dialeval.models.training.examples import PairExample
from dialeval.models.training.export import export_vectors
from dialeval.models.training.loop import Trained
from dialeval.models.training.settings import Settings
from dialeval.models.training.window_network import Table, WindowExample, WindowNetwork
from dialeval.models.window_features import KIND, Direction, described

if TYPE_CHECKING:
    from dialeval.models.training.networks import Activation

WINDOWS = Settings(batch=256, learning_rate=1e-3, epochs=1, warmup=0.03, weight_decay=0.1, dropout=0.3)


class Case(NamedTuple):
    """A window as texts, the turn that follows first; whether its reply is the true one."""

    texts: tuple[str, ...]
    direction: Direction
    history: int
    true: bool


@dataclass(frozen=True)
class Contrasts:
    """How true replies and negatives are put side by side.

    `kinds` of negatives, one of each for every reply, so one named twice is drawn twice; `bare` is the share
    of pairs whose replies have no values; `history` fixes the exchanges of history, otherwise they are drawn.
    """

    kinds: tuple[str, ...]
    bare: float = 0.0
    seed: int = 0
    history: int | None = None
    directions: tuple[Direction, ...] = ("ur", "ru")

    def cases(self, dialogues: Sequence[Dialogue]) -> Iterator[Case]:
        """Make the cases of dialogues, true and false by turns."""
        drawn = Negatives(dialogues, self.seed)
        for number, dialogue in enumerate(dialogues):
            spoken = [takes_part(turn) and bool(turn.text.strip()) for turn in dialogue.turns]
            replies = drawn.replies[number]
            for turn, asked in zip(replies, windows(dialogue, spoken, replies), strict=True):
                for order, kind in enumerate(self.kinds if asked else ()):
                    count = self.kinds[:order].count(kind)
                    yield from self._pairs(drawn, Place(number, turn), asked, kind, count)

    def _pairs(
        self, drawn: Negatives, place: Place, asked: Mapping[Direction, Window], kind: str, count: int
    ) -> Iterator[Case]:
        """Make the windows of a reply with one negative."""
        other = drawn.draw(place, kind, count)
        if other is None:
            return
        name = drawn.dialogues[place.dialogue].id
        chance = draws_of(f"{self.seed}|window|{kind}|{name}|{place.turn}|{count}")
        bare = chance.random() < self.bare
        for direction, window in asked.items():
            history = int(chance.integers(window.histories + 1)) if self.history is None else self.history
            if direction not in self.directions or history > window.histories:
                continue
            for chosen in (place, other):
                texts = _texts(drawn, window.cut(history), place, chosen, bare)
                yield Case(texts, direction, history, chosen is place)


def _texts(
    drawn: Negatives, numbers: Sequence[int], place: Place, chosen: Place, bare: bool
) -> tuple[str, ...]:
    """Return what the turns of a window say, with the chosen reply where the true one stands."""
    turns = drawn.dialogues[place.dialogue].turns
    speaker = turns[place.turn].speaker
    found = []
    for number in numbers:
        one = chosen if number == place.turn else Place(place.dialogue, number)
        without = bare and turns[number].speaker == speaker
        found.append(drawn.plain(one) if without else drawn.dialogues[one.dialogue].turns[one.turn].text)
    return tuple(found)


@dataclass(frozen=True)
class CoherenceRecipe:
    """How to train a head over windows of turn vectors."""

    name: str
    contrasts: Contrasts
    settings: Settings = WINDOWS
    hidden: tuple[int, ...] = (256,)
    activation: "Activation" = "gelu"
    about: str = ""
    dev_figure: str = "accuracy"
    fields: Mapping[str, Any] = field(default_factory=dict)

    def examples(self, dialogues: Iterable[Dialogue]) -> Iterator[WindowExample]:
        """Encode each different text once, and make windows over the table of them."""
        cases = list(self.contrasts.cases(list(dialogues)))
        texts = {text: None for case in cases for text in case.texts}
        places = {text: number for number, text in enumerate(texts)}
        table = Table(described(unit_vectors(Encoder.load(DEFAULT), list(texts)), list(texts)))
        for case in cases:
            turns = tuple(places[text] for text in case.texts)
            yield WindowExample(table, turns, case.direction, case.history, {HEAD.name: float(case.true)})

    def network(
        self, examples: Sequence[WindowExample], settings: Settings, encoder: str | Path | None = None
    ) -> WindowNetwork:
        """Make layers of the right size, with the mean and scale of the examples."""
        if encoder is not None:
            raise UsageError(f"{self.name} reads the vectors of one encoder; another needs another recipe")
        return WindowNetwork.fitting(
            examples, (HEAD,), settings, hidden=self.hidden, activation=self.activation
        )

    def export(
        self, network: WindowNetwork, target: Path, card: Card, trained: Trained, storage: Storage
    ) -> Artefact:
        """Write the head."""
        frozen = Encoder.load(DEFAULT)
        fields = {"encoder": {"name": frozen.name, "sha": frozen.sha}, **self.fields}
        return export_vectors(
            network.inner,
            target,
            card,
            name=self.name,
            kind=KIND,
            storage=storage,
            trained=trained,
            fields=fields,
        )


def unit_vectors(encoder: Encoder, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Encode texts to vectors of length one; a blank text is a row of zeros."""
    rows = np.zeros((len(texts), encoder.width), np.float32)
    said = [number for number, text in enumerate(texts) if text.strip()]
    vectors = encoder.vectors([texts[number] for number in said])
    rows[said] = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return rows


def pair_examples(contrasts: Contrasts, dialogues: Iterable[Dialogue]) -> Iterator[PairExample]:
    """Make examples for a cross-encoder, whose heads are called `ur0` to `ru4`."""
    for case in contrasts.cases(list(dialogues)):
        head = f"{case.direction}{case.history}"
        yield PairExample(case.texts[:0:-1], case.texts[0], {head: float(case.true)})
