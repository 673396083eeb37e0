"""Needs: the encoder outputs that the models of a run will read, so that each text is encoded once.

Several heads read the same turns: one the vector of the last layer, another the mean of a middle one, a
third the states of tokens. Each of them asks the encoder by itself and knows nothing of the others. So that a
turn is encoded once nevertheless, a metric has a method `needs` that returns what its models read (`Need`),
and a run calls `encode_ahead` with the needs of all of its metrics before they score. A metric without
`needs`, or one that is called by itself, is answered all the same, in passes of its own.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from dialeval.dialogues import Dialogue, says_something
from dialeval.dialogues.segments import segments_of
from dialeval.models.encoder import Encoder, Reading
from dialeval.models.token_states import plain

Texts = Callable[[Dialogue], Iterable[str]]


class Need(NamedTuple):
    """Which texts of a dialogue a model asks an encoder about, and what it reads of each."""

    encoder: Encoder
    texts: Texts
    readings: tuple[Reading, ...]


def encode_ahead(dialogues: Sequence[Dialogue], needs: Iterable[Need]) -> None:
    """Encode the needed texts of dialogues, each text once for all of its readings.

    >>> from dialeval.dialogues import dialogue
    >>> encoder = Encoder.load()
    >>> chat = dialogue([("user", "Where is the old station?"), ("assistant", "Behind the new one.")])
    >>> encode_ahead([chat], [Need(encoder, spoken_turns, (encoder.reading(), encoder.reading(3, "mean")))])
    >>> encoder.vectors(["Behind the new one."], layer=3, pooling="mean").shape  # from the cache
    (1, 384)
    """
    together: dict[int, tuple[Encoder, list[tuple[Iterable[str], tuple[Reading, ...]]]]] = {}
    for need in dict.fromkeys(needs):
        texts = dict.fromkeys(text for dialogue in dialogues for text in need.texts(dialogue))
        together.setdefault(id(need.encoder), (need.encoder, []))[1].append((texts, need.readings))
    for encoder, requests in together.values():
        encoder.prepare(requests)


def spoken_turns(dialogue: Dialogue) -> Iterator[str]:
    """Return the turns that have text, as they are."""
    return (turn.text for turn in dialogue.turns if turn.text.strip())


def plain_turns(dialogue: Dialogue) -> Iterator[str]:
    """Return what was said as token states are made of it, see `states.plain`."""
    return (plain(turn.text) for turn in dialogue.turns if says_something(turn))


@functools.cache
def segment_texts(splitter: str) -> Texts:
    """Return a function that yields the stripped segment texts of a dialogue."""

    def texts(dialogue: Dialogue) -> Iterator[str]:
        return (segment.text.strip() for segment in segments_of(dialogue, splitter))

    return texts
