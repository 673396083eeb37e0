"""What every system is: a name, a signature, and a reply to a context."""

from typing import Protocol, runtime_checkable

from dialeval.dialogues.contexts import Context
from dialeval.scores import Signature


@runtime_checkable
class System(Protocol):
    """Something that answers."""

    @property
    def name(self) -> str:
        """What it is called in scores and reports."""
        ...

    @property
    def at_once(self) -> int:
        """How many replies may be asked for at the same time."""
        ...

    @property
    def fixed_only(self) -> bool:
        """Whether it knows contexts of given dialogues only, so that nobody can talk to it."""
        ...

    @property
    def signature(self) -> Signature:
        """How its replies are made."""
        ...

    def reply(self, context: Context) -> str:
        """Answer; any exception is this one reply's failure."""
        ...
