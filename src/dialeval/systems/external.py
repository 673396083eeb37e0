"""Systems of your own: an OpenAI-compatible endpoint (`Remote`), or a Python function (`Function`).

A function is called in its own thread, one call at a time, so that it may use thread-local state. A call that
takes too long is abandoned: its thread goes on, because threads cannot be killed, its result is discarded,
and the next call uses a new thread. The program does not wait for abandoned threads when it ends.
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

from dialeval.dialogues import Turn, dialogue
from dialeval.dialogues.contexts import Context
from dialeval.dialogues.dialogue import clean_turn
from dialeval.errors import DataError, UsageError
from dialeval.models.endpoint import TIMEOUT, Endpoint
from dialeval.scores import Signature

AT_ONCE = 4
Messages = list[dict[str, str]]
Answer = Callable[[Messages], str | list[dict[str, Any]]]
Calls = queue.SimpleQueue[tuple[Future[Any], Messages] | None]


def messages_of(context: Context) -> Messages:
    """Return a context as chat messages: the system is `assistant`, tools' answers are left out."""
    roles = {context.speaker: "assistant", "system": "system"}
    return [
        {"role": roles.get(turn.speaker, "user"), "content": turn.text}
        for turn in context.turns
        if turn.speaker != "tool"
    ]


@dataclass(frozen=True)
class Remote:
    """An OpenAI-compatible endpoint as a system under test; `instructions` is sent first, as a system prompt.

    >>> system = Remote(Endpoint("http://localhost:8000/v1", model="tiny"), "tiny")
    >>> str(system.signature)
    'endpoint.v1|address:http://localhost:8000/v1|model:tiny|temperature:0.0|max_tokens:256|instructions:-'
    """

    endpoint: Endpoint
    name: str
    instructions: str | None = None
    at_once: int = AT_ONCE
    fixed_only: bool = False

    @property
    def signature(self) -> Signature:
        """The signature: address, model and sampling, which determine the replies, unlike time-outs."""
        asked = {
            key: getattr(self.endpoint, key) for key in ("address", "model", "temperature", "max_tokens")
        }
        return Signature.of("endpoint.v1", {**asked, "instructions": self.instructions})

    def reply(self, context: Context) -> str:
        """Send the context as a chat."""
        return self.endpoint.complete(self.messages(context))

    def messages(self, context: Context) -> Messages:
        """Return the messages to send: the instructions, then the turns that are not blank."""
        first = [] if self.instructions is None else [{"role": "system", "content": self.instructions}]
        return first + [message for message in messages_of(context) if message["content"].strip()]


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
        """Refuse a time-out that is not positive."""
        if not self.timeout > 0:
            raise UsageError("timeout must be above 0")
        object.__setattr__(self, "_caller", _Caller(self.answer))

    @property
    def signature(self) -> Signature:
        """The signature: the name of the function, since its code is unknown."""
        return Signature.of("function.v1", {"function": self.spec or self.name})

    def reply(self, context: Context) -> str:
        """Call the function with `{"role", "content"}` dictionaries, its own earlier turns as `assistant`."""
        return self.turns(context)[-1].text

    def turns(self, context: Context) -> tuple[Turn, ...]:
        """Call the function; an agent may return messages with its tool calls, and its reply last."""
        returned = self._caller.call(messages_of(context), self.timeout)
        if isinstance(returned, list) and returned and all(isinstance(message, dict) for message in returned):
            turns = dialogue(returned).turns
            if turns and turns[-1].speaker == "assistant":
                return turns
            raise DataError("returned messages of which the last is not the assistant's")
        if not isinstance(returned, str):
            raise DataError(f"returned {type(returned).__name__}, not text")
        return (clean_turn("assistant", returned),)


class _Caller:
    """The thread in which a function is called, replaced when it is stuck."""

    def __init__(self, answer: Answer) -> None:
        self._answer, self._turn = answer, threading.Lock()
        self._calls: Calls | None = None

    def call(self, messages: Messages, timeout: float) -> Any:
        with self._turn:
            if self._calls is None:
                self._calls = queue.SimpleQueue()
                threading.Thread(target=_work, args=(self._answer, self._calls), daemon=True).start()
                weakref.finalize(self, self._calls.put, None)
            future: Future[Any] = Future()
            self._calls.put((future, messages))
            try:
                return future.result(timeout)
            except TimeoutError:
                if future.done():  # in time after all, or an error of the function's own
                    return future.result()
                self._calls.put(None)
                self._calls = None
                raise DataError(f"no answer in {timeout:g} s") from None


def _work(answer: Answer, calls: Calls) -> None:
    """Answer calls until None arrives."""
    while (call := calls.get()) is not None:
        future, messages = call
        try:
            future.set_result(answer(messages))
        except SystemExit as error:  # ends the reply, not the run
            future.set_exception(DataError(f"ended itself: {error!r}"))
        except BaseException as error:
            future.set_exception(error)
        del call, future, messages  # or the last of them would be kept until the next


def load_function(spec: str, name: str | None = None, timeout: float | None = None) -> Function:
    """Import `module:function`, from the current folder too, as `python -m` would."""
    module, _, attribute = spec.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        target: Any = importlib.import_module(module)
    except ImportError as error:
        raise UsageError(f"--system {spec}: {error}") from None
    except Exception as error:  # whatever a module does while it is imported
        raise UsageError(f"--system {spec}: {module} cannot be imported: {error!r}") from None
    for part in attribute.split("."):
        target = getattr(target, part, None)
    if not callable(target):
        raise UsageError(f"--system {spec}: {module} has no function {attribute!r}")
    return Function(name or spec, target, spec, timeout=TIMEOUT if timeout is None else timeout)
