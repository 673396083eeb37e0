"""The features by which dialogues are found unless somebody has better ones."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Protocol

import numpy as np

from dialeval.dialogues import Dialogue, takes_part
from dialeval.models.index.layout import Array, Named
from dialeval.models.index.writing import Column, Given

DIALOGUES = 2_000  # that are encoded at a time


class TextEncoder(Named, Protocol):
    """Text in, vectors out (`dialeval.models.encoder.Encoder` is one)."""

    @property
    def width(self) -> int:
        """How long its vectors are."""

    def vectors(self, texts: Sequence[str]) -> Array:
        """Return a vector for each text."""


def said(dialogue: Dialogue) -> list[str]:
    """Return what people and systems said to each other: instructions, tool calls and blanks are left out.

    >>> from dialeval.dialogues import dialogue
    >>> said(dialogue([("system", "You are a hotel desk."), ("user", "A room?"), ("assistant", " ")], "d1"))
    ['A room?']
    """
    spoken = (turn.text for turn in dialogue.turns if takes_part(turn))
    return [text for text in spoken if text.strip()]


def features(dialogues: Sequence[Dialogue], encoder: TextEncoder) -> dict[str, Column]:
    """Return the columns that `Index.of_dialogues` has, for dialogues to add or to search with.

    `text` is the mean of the vectors of a dialogue's turns (zeros if nothing was said), `words` is all of
    its text.
    """
    spoken = [said(dialogue) for dialogue in dialogues]
    places = {
        text: place for place, text in enumerate(dict.fromkeys(text for texts in spoken for text in texts))
    }
    known = encoder.vectors(list(places)) if places else None
    means = np.zeros((len(spoken), encoder.width), np.float64)
    for row, texts in enumerate(spoken):
        if texts and known is not None:
            means[row] = known[[places[text] for text in texts]].mean(axis=0, dtype=np.float64)
    return {"text": means, "words": ["\n".join(texts) for texts in spoken]}


def given_dialogues(
    dialogues: Iterable[Dialogue], encoder: TextEncoder, progress: Callable[[int], None] | None
) -> Iterator[Given]:
    """Yield ids, features and JSON of dialogues, some at a time; `progress` is told how many are done."""
    from dialeval.dialogues.formats.writing import to_json  # brings pyarrow with it

    done, stream = 0, iter(dialogues)
    while some := list(islice(stream, DIALOGUES)):
        yield [one.id for one in some], features(some, encoder), [to_json(one) for one in some]
        done += len(some)
        if progress is not None:
            progress(done)
