"""Greedy matching of tokens: how BERTScore compares two texts.

Every token of a text looks for the token of the other text whose state in an encoder is most like its own.
*Precision* is the mean cosine over the tokens of the text that is judged, *recall* over those of the
reference, *F1* their harmonic mean. A token that finds only negative cosines counts as 0. Marks that the
encoder puts around a text have no weight in the means, but a token may match one. A mean may be weighted by
inverse document frequency (`Idf`), so that rare tokens count more.

A text is compared with many others in one product of matrices per block of theirs. Where only the best of
them counts, products of whole numbers leave out those that cannot be it (`Matcher.decisive`). A corpus that
is compared with again and again is encoded once: `Matcher.prepare` keeps it in memory, in two bytes a number,
an index keeps it on disk, in one (`Index.states`), from where it is compared with as it lies there.
"""

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dialeval.dialogues.formats import read
from dialeval.errors import DataError, UsageError
from dialeval.files import sha256
from dialeval.models.encoder import Encoder
from dialeval.models.network import MOST_LEFT, multiply, multiply_bytes
from dialeval.models.token_states import ROOM, Floats, TokenStates, blocks, plain, taken, text_states
from dialeval.models.tokenization import Tokenizer, default_threads, side_by_side

Doubles = npt.NDArray[np.float64]
Text = str | TokenStates
"""A thing that can be compared: a text, or its tokens where they are known already."""
Cosines = Callable[[slice, npt.NDArray[Any], Floats], Floats]
"""The cosines of some tokens of the candidate with rows, given with their scales."""
Worth = Callable[[Doubles], Doubles]
"""Weights of references, increasing with their F1."""
BLOCK_TOKENS = 1024  # tokens of the others in one product: what a core's cache holds
TABLE = 1 << 22  # cosines in one product
_ROUNDING = 1e-5  # more than what sums of single precision lose
_SOME = 16  # candidates that a core takes at a time, if there are enough for all


@dataclass(frozen=True)
class States:
    """The tokens of one text, ready to be matched; of an empty text there are none.

    A row times its scale is a vector of length one, (tokens, width); `weights` add up to 1, or are all 0.
    """

    rows: npt.NDArray[Any]
    weights: Floats
    scales: Floats

    @classmethod
    def of(cls, states: TokenStates, weights: Sequence[float] | npt.NDArray[Any]) -> "States":
        """Return states with weights normalised to a sum of 1.

        >>> States.of(TokenStates.of([7, 8], np.eye(2)), [3, 5]).weights
        array([0.375, 0.625], dtype=float32)
        """
        shares = np.asarray(weights, np.float64)
        return cls(states.numbers, (shares / (shares.sum() or 1.0)).astype(np.float32), states.scales)


def greedy_match(candidate: States, references: Sequence[States]) -> Doubles:
    """Return precision, recall and F1 of `candidate` against each reference, (references, 3).

    A side on which no token has weight scores 0. Against an empty text, or of one, all three are 0.

    >>> cat, dog, car = np.eye(3)
    >>> reply = States.of(TokenStates.of([1, 2], np.array([cat, dog])), [1, 1])
    >>> references = [States.of(TokenStates.of([1], vector), [1]) for vector in (cat[None], car[None])]
    >>> greedy_match(reply, references).round(3)
    array([[0.5  , 1.   , 0.667],
           [0.   , 0.   , 0.   ]])
    """
    mine = candidate.rows * candidate.scales[:, None]

    def cosines(part: slice, rows: npt.NDArray[Any], scales: Floats) -> Floats:
        return multiply(mine[part], np.multiply(rows, scales[:, None], dtype=np.float32))

    return _match_all(candidate.weights, references, cosines)


def f1_bounds(candidate: States, references: Sequence[States]) -> Doubles:
    """Return upper bounds of F1 against references that lie in one byte a number, in half the time.

    The candidate's numbers are rounded to one byte too. That moves a cosine by at most the length of what is
    rounded off times that of the reference's vector, which by its own rounding may be a little above one.
    """
    mine = candidate.rows * candidate.scales[:, None]
    scale = float(np.abs(mine).max(initial=1e-30)) / MOST_LEFT
    rounded = np.rint(mine / scale)
    error = float(np.linalg.norm(mine - scale * rounded, axis=1).max(initial=0))
    error *= 1 + np.sqrt(mine.shape[1]) / (2 * np.iinfo(np.int8).max)
    numbers = rounded.astype(np.int8)

    def cosines(part: slice, rows: npt.NDArray[Any], scales: Floats) -> Floats:
        return multiply_bytes(numbers[part], rows, scales * np.float32(scale))

    return _match_all(candidate.weights, references, cosines, error + _ROUNDING)[:, 2]


def _match_all(
    weights: Floats, references: Sequence[States], cosines: Cosines, error: float = 0.0
) -> Doubles:
    """Return precision, recall and F1, at most, by cosines that are too low by `error` at most."""
    scores = np.zeros((len(references), 3))
    if not len(weights):
        return scores
    places = [place for place, reference in enumerate(references) if len(reference.rows)]
    for group in blocks(
        places, lambda place: (place,), lambda place: len(references[place].rows), BLOCK_TOKENS
    ):
        block = [references[place] for place in group]
        scores[group, :2] = _match_block(weights, block, cosines, np.float32(error))
    np.minimum(scores, 1, out=scores)
    both, total = scores[:, 0] * scores[:, 1], scores[:, 0] + scores[:, 1]
    np.divide(2 * both, total, out=scores[:, 2], where=total > 0)
    return scores


def _match_block(
    weights: Floats, references: Sequence[States], cosines: Cosines, error: np.float32
) -> Doubles:
    """Return precision and recall against each of a few texts, none of them empty."""
    *starts, end = np.cumsum([0, *(len(reference.rows) for reference in references)]).tolist()
    scales = np.concatenate([reference.scales for reference in references])
    rows = np.concatenate([reference.rows for reference in references])
    scores = np.zeros((len(references), 2))
    reached, step = np.full(end, -error, np.float32), max(1, TABLE // end)
    for start in range(0, len(weights), step):
        part = slice(start, start + step)
        table = cosines(part, rows, scales)
        closest = np.maximum(np.maximum.reduceat(table, starts, axis=1) + error, 0)
        scores[:, 0] += np.einsum("t,to->o", weights[part], closest)
        np.maximum(reached, table.max(axis=0), out=reached)
    reached += error
    reached *= np.concatenate([reference.weights for reference in references])
    scores[:, 1] = np.add.reduceat(reached, starts)
    return scores


def _decisive_f1(candidate: States, references: Sequence[States], worth: Worth) -> Doubles:
    """Return F1 against the references that may be worth most, minus infinity for the others."""
    if any(reference.rows.dtype != np.int8 for reference in references) or len(references) < 2:
        return greedy_match(candidate, references)[:, 2]
    f1 = np.full(len(references), -np.inf)
    most = worth(f1_bounds(candidate, references))
    first = int(most.argmax())
    f1[first] = greedy_match(candidate, [references[first]])[0, 2]
    open_ones = np.flatnonzero(most >= worth(f1)[first])
    rest = [place for place in open_ones.tolist() if place != first]
    f1[rest] = greedy_match(candidate, [references[place] for place in rest])[:, 2]
    return f1


@dataclass(frozen=True)
class Idf:
    """Inverse document frequency of tokens: the logarithm of (texts + 1) / (texts with this token + 1).

    >>> idf = Idf(9, {7: 9, 8: 4})
    >>> [round(float(weight), 3) for weight in idf.weights([7, 8, 9])]
    [0.0, 0.693, 2.303]
    """

    texts: int
    counts: Mapping[int, int]
    """In how many texts a token occurs, by its number."""

    @classmethod
    def of(cls, texts: Iterable[str], tokenizer: Tokenizer) -> "Idf":
        """Count tokens over texts, cut where the encoder would cut them."""
        counts: Counter[int] = Counter()
        total = 0
        for block in blocks(texts, _itself, len, ROOM):
            total += len(block)
            for tokens in tokenizer.encode([plain(text) for text in block]):
                counts.update(set(tokens.ids))
        return cls(total, dict(counts))

    def weights(self, tokens: Sequence[int] | npt.NDArray[Any]) -> Floats:
        """Return the weight of each token."""
        table = self._table
        weights: Floats = table[np.minimum(np.asarray(tokens, np.int64), len(table) - 1)]
        return weights

    @functools.cached_property
    def _table(self) -> Floats:
        """Weights by the number of the token; the last is that of all tokens that were not counted."""
        frequencies = np.zeros(max(self.counts, default=-1) + 2)
        frequencies[list(self.counts)] = list(self.counts.values())
        return np.log((self.texts + 1) / (frequencies + 1)).astype(np.float32)


def idf_of_file(path: str, encoder: Encoder) -> Idf:
    """Count over a file of dialogues, in any format that is read; a turn that is not blank is a text."""
    return _counted(path, sha256(path), encoder)


@functools.lru_cache(maxsize=4)
def _counted(path: str, _sha: str, encoder: Encoder) -> Idf:
    texts = (turn.text for dialogue in read(path) for turn in dialogue.turns if turn.text.strip())
    idf = Idf.of(texts, encoder.tokenizer)
    if not idf.texts:
        raise DataError("no turn with text in it to count tokens over", file=path)
    return idf


class Matcher:
    """Compares texts by the states of one layer of an encoder.

    >>> matcher = Matcher(Encoder.load(), 6)
    >>> matcher.score(["A table for two, please."], [["We need a table.", "Good night!"]]).round(2)
    array([[0.66, 0.71, 0.69]])
    """

    def __init__(self, encoder: Encoder, layer: int | None = None, idf: Idf | None = None) -> None:
        self.encoder, self.layer, self.idf = encoder, layer, idf
        self._threads = default_threads()
        self._marks = np.array(encoder.tokenizer.special()[0])
        self._kept: dict[str, TokenStates] = {}

    def prepare(self, texts: Iterable[str]) -> None:
        """Encode a corpus once and keep it: 776 bytes a token at a width of 384."""
        fresh = (text for text in dict.fromkeys(texts) if text not in self._kept)
        for block in blocks(fresh, _itself, self._size, ROOM):
            for text, states in zip(block, self._encode(block, half=True), strict=True):
                self._kept[text] = states.packed(np.int16)

    def compare(self, candidates: Sequence[Text], references: Sequence[Sequence[Text]]) -> Iterator[Doubles]:
        """Yield precision, recall and F1 of each candidate against each of its references, (references, 3).

        Both are texts, or tokens that are known already (`dialogue_states`, `Index.states`), of this encoder
        and layer. One call for many candidates is much faster than many calls.
        """
        if len(candidates) != len(references):
            raise UsageError(f"{len(candidates)} candidates, but {len(references)} lists of references")
        for block in blocks(zip(candidates, references, strict=True), _texts, self._size, ROOM):
            match = functools.partial(
                self._match, self._known(text for pair in block for text in _texts(pair))
            )
            step = max(1, min(_SOME, len(block) // (2 * self._threads)))
            parts = [block[start : start + step] for start in range(0, len(block), step)]
            for _, scores in side_by_side(match, parts, self._threads):
                yield from scores

    def decisive(
        self,
        candidates: Sequence[TokenStates],
        references: Sequence[Sequence[TokenStates]],
        worth: Sequence[Worth],
    ) -> Iterator[Doubles]:
        """Yield the F1 of each candidate against those of its references that may be worth most.

        All others, of an index (`Index.states`), have minus infinity: that costs half of `compare`.
        """

        def match(number: int) -> Doubles:
            others = [self.weigh(reference) for reference in references[number]]
            return _decisive_f1(self.weigh(candidates[number]), others, worth[number])

        for _, f1 in side_by_side(match, range(len(candidates)), self._threads):
            yield f1

    def score(self, candidates: Sequence[Text], references: Sequence[Sequence[Text]]) -> Doubles:
        """Return precision, recall and F1 of each candidate, (candidates, 3).

        Of several references the best counts, for each of the three by itself; without any, all are 0.
        """
        best = np.zeros((len(candidates), 3))
        for row, scores in zip(best, self.compare(candidates, references), strict=True):
            if len(scores):
                row[:] = scores.max(axis=0)
        return best

    def weigh(self, states: TokenStates) -> States:
        """Return how much each token counts: by `idf`, or marks not at all and all others alike."""
        if len(states) and states.numbers.shape[1] != self.encoder.width:
            width = states.numbers.shape[1]
            raise UsageError(
                f"token states are {width} wide, those of {self.encoder.name} {self.encoder.width}"
            )
        if self.idf is not None:
            return States.of(states, self.idf.weights(states.tokens))
        return States.of(states, (states.tokens[:, None] != self._marks).all(axis=1))

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Return for each text whether it is longer than the encoder takes, so that its end is not seen."""
        return self.encoder.truncated([plain(text) for text in texts])

    def _size(self, text: Text) -> int:
        return 0 if isinstance(text, TokenStates) or text in self._kept else taken(text, self.encoder)

    def _known(self, texts: Iterable[Text]) -> dict[str, States]:
        distinct = dict.fromkeys(text for text in texts if isinstance(text, str))
        fresh = [text for text in distinct if text not in self._kept]
        by_text = {text: self._kept[text] for text in distinct if text in self._kept}
        by_text |= dict(zip(fresh, self._encode(fresh), strict=True))
        return {text: self.weigh(states) for text, states in by_text.items()}

    def _encode(self, texts: Sequence[str], *, half: bool = False) -> list[TokenStates]:
        return text_states(texts, self.encoder, self.layer, half=half)

    def _match(
        self, prepared: Mapping[str, States], pairs: Iterable[tuple[Text, Sequence[Text]]]
    ) -> list[Doubles]:
        def ready(text: Text) -> States:  # what is not known is weighed here: there may be millions of them
            return prepared[text] if isinstance(text, str) else self.weigh(text)

        nothing = np.zeros((0, 3))
        return [
            greedy_match(ready(candidate), [ready(reference) for reference in references])
            if references
            else nothing
            for candidate, references in pairs
        ]


def _texts(pair: tuple[Text, Sequence[Text]]) -> tuple[Text, ...]:
    """Return the texts to encode for a comparison; none without references."""
    candidate, references = pair
    return (candidate, *references) if references else ()


def _itself(text: str) -> tuple[str]:
    return (text,)
