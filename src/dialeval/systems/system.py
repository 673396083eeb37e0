"""What every system is: a name, a signature, and a reply to a context."""

from typing import Protocol, runtime_checkable

from dialeval.dialogues.contexts import Context
from dialeval.scores import Signature


@runtime_checkable
class System(Protocol):
    """Something that answers.

    Attributes:
        name: What it is called in scores and reports.
        at_once: How many replies may be asked for at the same time.
        fixed_only: Whether it can answer contexts of known dialogues only, so that nobody can talk to it.
    """

    name: str
    at_once: int
    fixed_only: bool

    @property
    def signature(self) -> Signature:
        """How its replies are made."""
        ...

    def reply(self, context: Context) -> str:
        """Answer; any exception is this one reply's failure."""
        ...
