"""Word overlap with human references: BLEU and chrF, through sacrebleu."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from dialeval.dialogues import Dialogue, scored_turns
from dialeval.metrics.ngrams import sequence_bleu
from dialeval.metrics.registry import Rows, metric
from dialeval.scores import Scores


@metric("bleu.v1")
@dataclass(frozen=True)
class Bleu:
    """BLEU of a reply against its references, 0 to 100; a turn without a reference is unscored.

    `smoothing` is sacrebleu's (`exp`, `floor`, `add-k`, `none`) or Chen and Cherry's `method3` or `method4`.

    >>> from dialeval.dialogues import dialogue
    >>> turns = [("user", "Hi"), ("assistant", "Hello, how are you?")]
    >>> chat = dialogue(turns, references={1: ["Hello, how is it going?"]})
    >>> round(next(iter(Bleu().score([chat]))).value, 2)
    27.48
    """

    order: int = 4
    smoothing: Literal["exp", "floor", "add-k", "none", "method3", "method4"] = "exp"
    tokenize: str = "13a"
    lowercase: bool = False
    speaker: str | None = None
    dimensions: ClassVar[tuple[str, ...]] = ("bleu",)

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Compare each scored turn with its references."""
        return _against_references(self, dialogues, self.speaker, "bleu", self._sentence())

    def _sentence(self) -> Callable[[str, list[str]], float]:
        from sacrebleu.metrics.bleu import BLEU

        if self.smoothing in ("method3", "method4"):
            tokenizer = BLEU(tokenize=self.tokenize, lowercase=self.lowercase)

            def split(text: str) -> list[str]:
                return str(tokenizer._preprocess_segment(text)).split()

            smoothing = self.smoothing
            return lambda text, references: (
                100 * sequence_bleu(split(text), [split(one) for one in references], self.order, smoothing)
            )
        bleu = BLEU(
            max_ngram_order=self.order,
            smooth_method=self.smoothing,
            tokenize=self.tokenize,
            lowercase=self.lowercase,
            effective_order=True,
        )
        return lambda text, references: float(bleu.sentence_score(text, references).score)


@metric("chrf.v1")
@dataclass(frozen=True)
class Chrf:
    """ChrF of a reply against its references, 0 to 100: character n-grams, kind to inflected languages.

    >>> from dialeval.dialogues import dialogue
    >>> turns = [("user", "Hi"), ("assistant", "Hello, how are you?")]
    >>> chat = dialogue(turns, references={1: ["Hello, how is it going?"]})
    >>> round(next(iter(Chrf().score([chat]))).value, 2)
    42.0
    """

    characters: int = 6
    words: int = 0
    beta: int = 2
    lowercase: bool = False
    speaker: str | None = None
    dimensions: ClassVar[tuple[str, ...]] = ("chrf",)

    def score(self, dialogues: Iterable[Dialogue]) -> Scores:
        """Compare each scored turn with its references."""
        from sacrebleu.metrics.chrf import CHRF

        chrf = CHRF(
            char_order=self.characters, word_order=self.words, beta=self.beta, lowercase=self.lowercase
        )
        return _against_references(
            self,
            dialogues,
            self.speaker,
            "chrf",
            lambda text, references: float(chrf.sentence_score(text, references).score),
        )


def _against_references(
    made: object,
    dialogues: Iterable[Dialogue],
    speaker: str | None,
    dimension: str,
    compare: Callable[[str, list[str]], float],
) -> Scores:
    rows = Rows(made)
    for dialogue, number, text, references in with_references(dialogues, speaker):
        if not references:
            rows.add(dialogue, number, dimension, None, "no reference")
        else:
            rows.add(dialogue, number, dimension, compare(text, references) if text.strip() else 0.0)
    return rows.scores()


def with_references(
    dialogues: Iterable[Dialogue], speaker: str | None
) -> Iterator[tuple[Dialogue, int, str, list[str]]]:
    """Yield each scored turn: its dialogue, number and text, and its references but for blank ones."""
    for dialogue in dialogues:
        for number in scored_turns(dialogue, speaker):
            references = [text for text in dialogue.references.get(number, ()) if text.strip()]
            yield dialogue, number, dialogue.turns[number].text, references
