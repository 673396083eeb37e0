"""Baseline systems: wizards' choices (Gandhe and Traum), and retrieval from a corpus.

`wizard-max-voted` replies with the utterance that most wizards chose for a context, `wizard-random` with any
utterance that at least one of them chose. Both answer only contexts that wizards have seen.

`retrieval` is the selection paradigm: it returns the reply to the most similar context of a corpus. Contexts
are compared by the vectors of their last turns and, with half the weight, of the turns before (`window` in
all). The conversation of the context itself is excluded, to avoid leaking its reply.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from dialeval import files
from dialeval.dialogues import Dialogue
from dialeval.dialogues.contexts import Context, conversation_of
from dialeval.dialogues.formats import read
from dialeval.dialogues.votes import Vote, load_votes, read_candidates, votes_mark
from dialeval.errors import DataError, UsageError
from dialeval.models.consensus import EXAMPLES
from dialeval.models.encoder import DEFAULT, Encoder, mark
from dialeval.models.network import Floats
from dialeval.scores import Signature

How = Literal["max-voted", "random"]
_EARLIER = 0.5**0.5  # in both factors of a product: half


@dataclass(frozen=True)
class Wizards:
    """A system that repeats wizards' choices; ties are broken by the order of the votes."""

    name: str
    how: How
    votes: str
    seed: int = 0
    at_once: int = 1
    fixed_only: bool = True

    def __post_init__(self) -> None:
        """Read the votes at once, so that a missing file is one error and not one per context."""
        if not self._choices and any(vote.act is not None for vote in load_votes(self.votes)):
            raise DataError("these votes are for acts, not for utterances", file=self.votes)

    @property
    def signature(self) -> Signature:
        """The signature: the votes, and the seed of a random choice."""
        fields: dict[str, object] = {"votes": votes_mark(self.votes)}
        return Signature.of(
            f"wizard-{self.how}.v1", fields | ({"seed": self.seed} if self.how == "random" else {})
        )

    @cached_property
    def _choices(self) -> Mapping[tuple[str, int], Sequence[tuple[str, int]]]:
        return choices(load_votes(self.votes))

    def knows(self, context: Context) -> bool:
        """Return whether a wizard chose anything for a context."""
        return (context.dialogue_id, context.turn) in self._choices

    def reply(self, context: Context) -> str:
        """Return the wizards' choice for a context."""
        if context.dialogue_id is None or context.turn is None:
            raise UsageError(f"{self.name} answers contexts that wizards have seen, not new ones")
        choices = self._choices.get((context.dialogue_id, context.turn))
        if not choices:
            raise DataError("no wizard chose anything here")
        if self.how == "max-voted":
            return max(choices, key=lambda choice: choice[1])[0]
        key = f"{self.seed}|{context.dialogue_id}|{context.turn}".encode("utf-8", "surrogatepass")
        return choices[int.from_bytes(hashlib.sha256(key).digest()[:8]) % len(choices)][0]


def choices(votes: Sequence[Vote]) -> dict[tuple[str, int], list[tuple[str, int]]]:
    """Return for each dialogue and turn how many wizards chose each utterance.

    >>> choices([Vote("d", 1, "ann", "Hi."), Vote("d", 1, "bob", "Hi."), Vote("d", 1, "bob", "Yes?")])
    {('d', 1): [('Hi.', 2), ('Yes?', 1)]}
    """
    raters: dict[tuple[str, int], dict[str, set[str]]] = {}
    for vote in votes:
        if vote.utterance is not None:
            by_text = raters.setdefault((vote.dialogue_id, vote.turn), {})
            by_text.setdefault(vote.utterance, set()).add(vote.rater)
    return {
        place: [(text, len(names)) for text, names in by_text.items()] for place, by_text in raters.items()
    }


@dataclass(frozen=True)
class Retrieval:
    """A system that returns the reply to the most similar context of a corpus.

    With `candidates`, the pool that wizards chose from (`annotate --candidates`), it returns the candidate
    nearest to that reply, so that it can be evaluated by wizards' votes. With a `speaker`, only replies of
    that speaker are returned.

    >>> from dialeval.dialogues import Turn
    >>> system = Retrieval("retrieval", "examples")
    >>> system.reply(Context((Turn("user", "What did you think of the film?"),)))
    'The one about the lighthouse keeper? We did, last night.'
    """

    name: str
    corpus: str = "examples"
    window: int = 2
    encoder: str = DEFAULT
    candidates: str | None = None
    speaker: str | None = None
    at_once: int = 1
    fixed_only: bool = False

    def __post_init__(self) -> None:
        """Validate the settings before the first reply."""
        if self.window < 1:
            raise UsageError("window must be at least 1")
        if self.candidates is not None and not self._pool[0]:
            raise DataError("no candidate to choose", file=self.candidates)
        if not self._corpus.replies:
            raise DataError("no reply to choose from", file=self.corpus)

    @property
    def signature(self) -> Signature:
        """The signature: corpus and encoder, by their contents, and the window."""
        corpus = f"{Path(self._path).stem}@{files.sha256(self._path)[:12]}"
        fields = {"corpus": corpus, "window": self.window, "encoder": mark(self.encoder)}
        if self.candidates is not None:
            fields["candidates"] = f"{Path(self.candidates).stem}@{files.sha256(self.candidates)[:12]}"
        if self.speaker is not None:
            fields["speaker"] = self.speaker
        return Signature.of("retrieval.v1", fields)

    @property
    def _path(self) -> Path:
        return EXAMPLES if self.corpus == "examples" else Path(self.corpus)

    @cached_property
    def _corpus(self) -> "_ContextCorpus":
        return _ContextCorpus.of(
            list(read(self._path)), Encoder.load(self.encoder), self.window, self.speaker
        )

    def reply(self, context: Context) -> str:
        """Return the reply to the most similar context."""
        texts = [turn.text for turn in context.said][-self.window :]
        if not texts:
            raise DataError("the context is empty")
        likeness = self._corpus.vectors @ _features(Encoder.load(self.encoder).vectors(texts))
        if context.dialogue_id is not None:
            conversation = conversation_of(context.dialogue_id)
            likeness[[name == conversation for name in self._corpus.conversations]] = -np.inf
        best = int(likeness.argmax())
        if likeness[best] == -np.inf:
            raise DataError("the corpus has no other dialogue")
        return self._chosen(self._corpus.replies[best])

    @cached_property
    def _pool(self) -> tuple[list[str], Floats]:
        texts = read_candidates(self.candidates or "", self.speaker)
        vectors = Encoder.load(self.encoder).vectors(texts)
        return texts, vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)

    def _chosen(self, reply: str) -> str:
        """Return the candidate nearest to a reply, or the reply if there are no candidates."""
        if self.candidates is None:
            return reply
        texts, vectors = self._pool
        return texts[int((vectors @ Encoder.load(self.encoder).vectors([reply])[0]).argmax())]


@dataclass(frozen=True)
class _ContextCorpus:
    """Contexts as vectors, and the reply to each."""

    vectors: Floats
    replies: list[str]
    conversations: list[str]

    @classmethod
    def of(
        cls, dialogues: list[Dialogue], encoder: Encoder, window: int, speaker: str | None
    ) -> "_ContextCorpus":
        pairs = [(dialogue, Context(dialogue.turns).said) for dialogue in dialogues]
        texts = list(dict.fromkeys(turn.text for _, turns in pairs for turn in turns))
        rows = dict(zip(texts, encoder.vectors(texts), strict=True))
        vectors, replies, conversations = [], [], []
        for dialogue, turns in pairs:
            for number in range(1, len(turns)):
                who = turns[number].speaker
                if who != turns[number - 1].speaker and speaker in (None, who):
                    before = turns[max(0, number - window) : number]
                    vectors.append(_features(np.stack([rows[turn.text] for turn in before])))
                    replies.append(turns[number].text)
                    conversations.append(conversation_of(dialogue.id))
        matrix = np.stack(vectors) if vectors else np.zeros((0, 2 * encoder.width), np.float32)
        return cls(matrix, replies, conversations)


def _features(vectors: Floats) -> Floats:
    """Return the vector of a context: its last turn, and the mean of the earlier ones at half the weight."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    before = unit[:-1].mean(axis=0) if len(unit) > 1 else np.zeros_like(unit[-1])
    return np.concatenate([unit[-1], _EARLIER * before]).astype(np.float32)
