r"""Cutting a turn into segments, the stretches that each do one thing.

- `punkt`: into sentences, by Punkt (Kiss and Strunk, 2006) with NLTK's English model. It knows abbreviations
  and needs a blank after the mark that ends a sentence: `Going good.for you?` stays whole. Unlike NLTK's own
  code, the marks of a run stay together: `Really??` is one sentence, not `Really?` and `?`.
- `punkt+comma`: the same, and each sentence at its commas, which are dropped; the blank after a comma stays
  with what follows. So did the authors of FlowEval, though their paper does not say it: no published segment
  holds a comma, and many begin with a blank. A comma between two digits (`1,000`) does not cut.

Languages that end their sentences with other marks come out in one piece. Time grows linearly with the text.
"""

import re
from functools import cache
from typing import TYPE_CHECKING, Literal, get_args

from dialeval.errors import UsageError

if TYPE_CHECKING:
    import punkt

Splitter = Literal["punkt", "punkt+comma"]
SPLITTERS: tuple[Splitter, ...] = get_args(Splitter)
DEFAULT_SPLITTER: Splitter = "punkt+comma"
_COMMA = re.compile(r"(?<!\d),|,(?!\d)")


def split(text: str, how: Splitter = DEFAULT_SPLITTER) -> list[str]:
    """Cut a turn into segments; what is blank is none, so an empty text has none.

    Every letter and digit of the text is in exactly one segment, in its order.

    >>> split("Hey, how are you? I saw Dr. Hu at 9.30, with 1,000 others.")
    ['Hey', ' how are you?', 'I saw Dr. Hu at 9.30', ' with 1,000 others.']
    >>> split("Hey, how are you? Fine.", "punkt")
    ['Hey, how are you?', 'Fine.']
    """
    if how not in SPLITTERS:
        raise UsageError(f"no splitter {how!r}; known: {', '.join(SPLITTERS)}")
    sentences = _sentences().tokenize(text)
    if how == "punkt":
        return [sentence for sentence in sentences if sentence.strip()]
    pieces = (piece.rstrip() for sentence in sentences for piece in _COMMA.split(sentence))
    return [piece for piece in pieces if piece]


@cache
def _sentences() -> "punkt.PunktSentenceTokenizer":
    import punkt

    return punkt.PunktSentenceTokenizer(punkt.load_model("english"))
