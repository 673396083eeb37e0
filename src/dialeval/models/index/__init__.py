"""Indexes: dialogues that are found again by vectors or by words.

`Index.of_dialogues` writes one, `Index.open` opens it, `index.search` asks it.
"""

from dialeval.models.index.index import EXACT_UP_TO, Hit, Index
from dialeval.models.index.writing import features

__all__ = ["EXACT_UP_TO", "Hit", "Index", "features"]
