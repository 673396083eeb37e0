"""What wizards would have said: the two human baselines of Gandhe and Traum.

`wizard-max-voted` says what most wizards chose for a context, `wizard-random` any utterance that at least one
of them chose. Both know only the contexts that wizards have seen, so nobody can talk to them.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from dialeval.dialogues.contexts import Context
from dialeval.dialogues.votes import Vote, load_votes, votes_mark
from dialeval.errors import DataError, UsageError
from dialeval.scores import Signature

How = Literal["max-voted", "random"]


@dataclass(frozen=True)
class Wizards:
    """A system that repeats wizards' choices; equal counts are settled by the order of the votes."""

    name: str
    how: How
    votes: str
    seed: int = 0
    at_once: int = 1
    fixed_only: bool = True

    def __post_init__(self) -> None:
        """Open the votes at once: a missing file should not be as many failures as there are contexts."""
        _ = self._choices

    @property
    def signature(self) -> Signature:
        """Which votes, and for a random choice which seed."""
        fields: dict[str, object] = {"votes": votes_mark(self.votes)}
        return Signature.of(
            f"wizard-{self.how}.v1", fields | ({"seed": self.seed} if self.how == "random" else {})
        )

    @cached_property
    def _choices(self) -> Mapping[tuple[str, int], Sequence[tuple[str, int]]]:
        return choices(load_votes(self.votes))

    def knows(self, context: Context) -> bool:
        """Say whether a wizard chose anything here."""
        return (context.dialogue_id, context.turn) in self._choices

    def reply(self, context: Context) -> str:
        """Say what wizards chose here."""
        if context.dialogue_id is None or context.turn is None:
            raise UsageError(f"{self.name} answers contexts that wizards have seen, not new ones")
        found = self._choices.get((context.dialogue_id, context.turn))
        if not found:
            raise DataError("no wizard chose anything here")
        if self.how == "max-voted":
            return max(found, key=lambda choice: choice[1])[0]
        key = f"{self.seed}|{context.dialogue_id}|{context.turn}".encode("utf-8", "surrogatepass")
        return found[int.from_bytes(hashlib.sha256(key).digest()[:8]) % len(found)][0]


def choices(votes: Sequence[Vote]) -> dict[tuple[str, int], list[tuple[str, int]]]:
    """Count, for each dialogue and turn, how many wizards chose each utterance.

    >>> choices([Vote("d", 1, "ann", "Hi."), Vote("d", 1, "bob", "Hi."), Vote("d", 1, "bob", "Yes?")])
    {('d', 1): [('Hi.', 2), ('Yes?', 1)]}
    """
    raters: dict[tuple[str, int], dict[str, set[str]]] = {}
    for vote in votes:
        raters.setdefault((vote.dialogue_id, vote.turn), {}).setdefault(vote.utterance, set()).add(vote.rater)
    return {place: [(text, len(some)) for text, some in said.items()] for place, said in raters.items()}
