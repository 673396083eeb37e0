"""A system that is a function of yours: `module:function`, handed the messages, returning the reply.

It is called in one thread of its own, one call at a time, so that it may keep what belongs to a thread. A
call that takes too long is given up. No thread can be ended from outside, so the one that is stuck goes on by
itself, what it returns is thrown away, and the next call has a new thread; the end of the program waits for
none of them.
"""

import importlib
import queue
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dialeval.dialogues.contexts import Context
from dialeval.errors import DataError, UsageError
from dialeval.models.endpoint import TIMEOUT
from dialeval.scores import Signature

Messages = list[dict[str, str]]
Answer = Callable[[Messages], str]
Calls = queue.SimpleQueue[tuple[Future[Any], Messages] | None]


@dataclass(frozen=True)
class Function:
    """A Python function as a system under test, asked for one reply at a time, `timeout` seconds for each.

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
    timeout: float = TIMEOUT
    _caller: "_Caller" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse a time that is none."""
        if not self.timeout > 0:
            raise UsageError("timeout must be above 0")
        object.__setattr__(self, "_caller", _Caller(self.answer))

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
        said = self._caller.call(messages, self.timeout)
        if not isinstance(said, str):
            raise DataError(f"returned {type(said).__name__}, not text")
        return said


class _Caller:
    """The thread in which a function is called, and another one when that is stuck."""

    def __init__(self, answer: Answer) -> None:
        self._answer, self._turn = answer, threading.Lock()
        self._calls: Calls | None = None

    def call(self, messages: Messages, timeout: float) -> Any:
        with self._turn:
            if self._calls is None:
                self._calls = queue.SimpleQueue()
                threading.Thread(target=_work, args=(self._answer, self._calls), daemon=True).start()
                weakref.finalize(self, self._calls.put, None)
            made: Future[Any] = Future()
            self._calls.put((made, messages))
            try:
                return made.result(timeout)
            except TimeoutError:
                if made.done():  # in time after all, or an error of the function's own
                    return made.result()
                self._calls.put(None)
                self._calls = None
                raise DataError(f"no answer in {timeout:g} s") from None


def _work(answer: Answer, calls: Calls) -> None:
    """Answer call after call, until there is an end to it."""
    while (call := calls.get()) is not None:
        made, messages = call
        try:
            made.set_result(answer(messages))
        except SystemExit as error:  # ends the reply, not the run
            made.set_exception(DataError(f"ended itself: {error!r}"))
        except BaseException as error:
            made.set_exception(error)
        del call, made, messages  # or the last of them would be kept until the next


def load_function(spec: str, name: str | None = None, timeout: float | None = None) -> Function:
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
    return Function(name or spec, found, spec, timeout=TIMEOUT if timeout is None else timeout)
