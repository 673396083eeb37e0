"""A system that is a function of yours: `module:function`, handed the messages, returning the reply."""

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dialeval.dialogues.contexts import Context
from dialeval.errors import DataError, UsageError
from dialeval.scores import Signature

Answer = Callable[[list[dict[str, str]]], str]


@dataclass(frozen=True)
class Function:
    """A Python function as a system under test, asked for one reply at a time.

    >>> from dialeval.dialogues import Turn
    >>> system = Function("shouting", lambda messages: messages[-1]["content"].upper())
    >>> system.reply(Context((Turn("user", "Hi!"),)))
    'HI!'
    """

    name: str
    answer: Answer
    spec: str = ""
    at_once: int = 1
    fixed_only: bool = False

    @property
    def signature(self) -> Signature:
        """Its name: what it does, dialeval cannot know."""
        return Signature.of("function.v1", {"function": self.spec or self.name})

    def reply(self, context: Context) -> str:
        """Call it with `{"role", "content"}` dictionaries, its own earlier turns as `assistant`."""
        roles = {context.speaker: "assistant", "system": "system"}
        messages = [
            {"role": roles.get(turn.speaker, "user"), "content": turn.text}
            for turn in context.turns
            if turn.speaker != "tool"
        ]
        said = self.answer(messages)
        if not isinstance(said, str):
            raise DataError(f"returned {type(said).__name__}, not text")
        return said


def load_function(spec: str, name: str | None = None) -> Function:
    """Import `module:function`, from the current folder too, as `python -m` would."""
    module, _, attribute = spec.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        raise UsageError(f"--system {spec}: {error}") from None
    except Exception as error:  # whatever a module does while it is imported
        raise UsageError(f"--system {spec}: {module} cannot be imported: {error!r}") from None
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise UsageError(f"--system {spec}: {module} has no function {attribute!r}")
    return Function(name or spec, found, spec)
