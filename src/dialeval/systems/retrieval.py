"""A system that says nothing new: it takes, from a corpus, the reply to the most similar context.

This is the selection paradigm, in which a system chooses among what people once said. Contexts are
alike by the vectors of their last turns, and half as much by the turns before those (`window` in all). The
conversation that the context comes from is never chosen from: it would give away what was said there.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from dialeval import files
from dialeval.dialogues import Dialogue
from dialeval.dialogues.contexts import Context, conversation_of
from dialeval.dialogues.formats import read
from dialeval.errors import DataError, UsageError
from dialeval.models.consensus import EXAMPLES
from dialeval.models.encoder import DEFAULT, Encoder, mark
from dialeval.models.network import Floats
from dialeval.scores import Signature

_EARLIER = 0.5**0.5  # in both factors of a product: half


@dataclass(frozen=True)
class Retrieval:
    """Choose the reply that followed the most similar context of a corpus.

    >>> from dialeval.dialogues import Turn
    >>> system = Retrieval("retrieval", "examples")
    >>> system.reply(Context((Turn("user", "What did you think of the film?"),)))
    'The one about the lighthouse keeper? We did, last night.'
    """

    name: str
    corpus: str = "examples"
    window: int = 2
    encoder: str = DEFAULT
    at_once: int = 1
    fixed_only: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot work before the first question."""
        if self.window < 1:
            raise UsageError("window must be at least 1")
        if not self._corpus.replies:
            raise DataError("no reply to choose from", file=self.corpus)

    @property
    def signature(self) -> Signature:
        """Which corpus and encoder, by their contents, and how much of the context is looked at."""
        corpus = f"{Path(self._path).stem}@{files.sha256(self._path)[:12]}"
        fields = {"corpus": corpus, "window": self.window, "encoder": mark(self.encoder)}
        return Signature.of("retrieval.v1", fields)

    @property
    def _path(self) -> Path:
        return EXAMPLES if self.corpus == "examples" else Path(self.corpus)

    @cached_property
    def _corpus(self) -> "_Corpus":
        return _Corpus.of(list(read(self._path)), Encoder.load(self.encoder), self.window)

    def reply(self, context: Context) -> str:
        """Find the nearest context and say what was said there."""
        said = [turn.text for turn in context.said][-self.window :]
        if not said:
            raise DataError("nothing was said that could be answered")
        likeness = self._corpus.vectors @ _features(Encoder.load(self.encoder).vectors(said))
        if context.dialogue_id is not None:
            own = conversation_of(context.dialogue_id)
            likeness[[name == own for name in self._corpus.conversations]] = -np.inf
        best = int(likeness.argmax())
        if likeness[best] == -np.inf:
            raise DataError("the corpus has no other dialogue")
        return self._corpus.replies[best]


@dataclass(frozen=True)
class _Corpus:
    """Contexts as vectors, and what was said after each."""

    vectors: Floats
    replies: list[str]
    conversations: list[str]

    @classmethod
    def of(cls, dialogues: list[Dialogue], encoder: Encoder, window: int) -> "_Corpus":
        said = [(one, Context(one.turns).said) for one in dialogues]
        texts = list(dict.fromkeys(turn.text for _, turns in said for turn in turns))
        rows = dict(zip(texts, encoder.vectors(texts), strict=True))
        vectors, replies, conversations = [], [], []
        for dialogue, turns in said:
            for number in range(1, len(turns)):
                if turns[number].speaker != turns[number - 1].speaker:
                    before = turns[max(0, number - window) : number]
                    vectors.append(_features(np.stack([rows[turn.text] for turn in before])))
                    replies.append(turns[number].text)
                    conversations.append(conversation_of(dialogue.id))
        made = np.stack(vectors) if vectors else np.zeros((0, 2 * encoder.width), np.float32)
        return cls(made, replies, conversations)


def _features(vectors: Floats) -> Floats:
    """Describe a context: its last turn, and the mean of those before it at half the weight."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    before = unit[:-1].mean(axis=0) if len(unit) > 1 else np.zeros_like(unit[-1])
    return np.concatenate([unit[-1], _EARLIER * before]).astype(np.float32)
