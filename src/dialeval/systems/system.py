"""Systems under test: the protocol, parsing of `--system`, and conversations."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from dialeval.dialogues import Dialogue, Turn
from dialeval.dialogues.contexts import FAILED, Context
from dialeval.dialogues.dialogue import clean_turn
from dialeval.errors import DialevalError, UsageError
from dialeval.plugins import plugins
from dialeval.scores import Signature

_OPTIONS: dict[str, dict[str, type]] = {
    "retrieval": {"corpus": str, "window": int, "encoder": str, "candidates": str, "speaker": str},
    "wizard-max-voted": {"votes": str},
    "wizard-random": {"votes": str, "seed": int},
}


@runtime_checkable
class System(Protocol):
    """Something that replies to a context, with a name and a signature."""

    @property
    def name(self) -> str:
        """The name of the system in scores and reports."""
        ...

    @property
    def at_once(self) -> int:
        """The maximum number of concurrent requests."""
        ...

    @property
    def fixed_only(self) -> bool:
        """Whether it answers only contexts of given dialogues, so that nobody can talk to it."""
        ...

    @property
    def signature(self) -> Signature:
        """The signature of its replies."""
        ...

    def reply(self, context: Context) -> str:
        """Return the reply to a context; an exception is the failure of this reply only."""
        ...


def system_names() -> tuple[str, ...]:
    """Return the names of built-in systems and of those of other packages.

    >>> system_names()[0]
    'retrieval'
    """
    return (*_OPTIONS, *sorted(plugins("systems", _OPTIONS)))


def build(
    spec: str,
    *,
    name: str | None = None,
    instructions: str | None = None,
    at_once: int | None = None,
    timeout: float | None = None,
    **asked: Any,
) -> System:
    """Make a system.

    Args:
        spec: `http://…` or `https://…`; `module:function`; or `retrieval`, `wizard-max-voted` or
            `wizard-random` with their options, as in `wizard-random:votes=votes.jsonl,seed=1`;
            or the name that another package gave to a function.
        name: What it is called; by default the model or the spec.
        instructions: A system prompt for an endpoint.
        at_once: How many replies of an endpoint may be under way.
        timeout: Seconds until a reply of a function, or a try at an endpoint, is given up; 60 if None.
        **asked: Other fields of an `Endpoint`.
    """
    if spec.startswith(("http://", "https://")):
        from dialeval.models.endpoint import Endpoint
        from dialeval.systems.external import AT_ONCE, Remote

        settings = {**asked, "timeout": timeout}
        endpoint = Endpoint(spec, **{key: value for key, value in settings.items() if value is not None})
        return Remote(endpoint, name or endpoint.model or spec, instructions, at_once or AT_ONCE)
    kind, _, options = spec.partition(":")
    remote_only = {**asked, "instructions": instructions, "concurrency": at_once}
    wrong = [key for key, value in remote_only.items() if value is not None]
    if wrong:
        raise UsageError(f"{wrong[0]} goes with an address, not with {spec}")
    if kind in _OPTIONS:
        if timeout is not None:
            raise UsageError(f"timeout goes with an address or a function, not with {spec}")
        return _ours(kind, options, name or kind)
    if spec in (installed := plugins("systems")):
        name, spec = name or spec, installed[spec].value
    if ":" in spec and all(part.replace(".", "").isidentifier() for part in spec.split(":", 1)):
        from dialeval.systems.external import load_function

        return load_function(spec, name, timeout)
    raise UsageError(
        f"no system {spec!r}: an http address, module:function, or one of {', '.join(system_names())}"
    )


def _ours(kind: str, options: str, name: str) -> System:
    types, fields = _OPTIONS[kind], {}
    for part in filter(None, options.split(",")):
        key, sign, value = part.partition("=")
        if not sign or key not in types:
            raise UsageError(f"--system {kind}: no option {part!r}; it has: {', '.join(types)}")
        try:
            fields[key] = types[key](value)
        except ValueError:
            raise UsageError(f"--system {kind}:{part}: expected a number") from None
    from dialeval.systems.baselines import Retrieval, Wizards

    if kind == "retrieval":
        return Retrieval(name, **fields)
    if "votes" not in fields:
        raise UsageError(f"--system {kind}: say which votes, {kind}:votes=votes.jsonl")
    return Wizards(name, "random" if kind == "wizard-random" else "max-voted", **fields)


class Conversation:
    """A conversation of a person with a system, in which all turns so far are the context of the next.

    A failed reply becomes an empty turn with a note, and the person may go on.

    >>> from dialeval.systems.external import Function
    >>> talk = Conversation(Function("echo", lambda messages: f"{len(messages)}: {messages[-1]['content']}"))
    >>> [talk.say("Hi!").text, talk.say("And now?").text]
    ['1: Hi!', '3: And now?']
    """

    def __init__(self, system: System) -> None:
        if system.fixed_only:
            raise UsageError(f"nobody can talk to {system.name}: it answers fixed contexts only")
        self.system = system
        self.turns: tuple[Turn, ...] = ()

    def say(self, text: str) -> Turn:
        """Add a message of the person, and return the reply of the system."""
        self.hear(text)
        reply_turns = getattr(self.system, "turns", None)  # an agent's function also returns its tool calls
        self.turns += answers(reply_turns, self.turns) if reply_turns else (answer(self.system, self.turns),)
        return self.turns[-1]

    def hear(self, text: str) -> None:
        """Add a message of the person without a reply."""
        self.turns += (clean_turn("user", text),)

    def dialogue(self, name: str) -> Dialogue:
        """Return the conversation so far as a dialogue."""
        meta = {"setting": "dynamic", "by": str(self.system.signature)}
        return Dialogue(name, self.turns, self.system.name, {}, meta)


def answer(system: System, turns: tuple[Turn, ...]) -> Turn:
    """Return the reply of a system to a conversation; a failure is an empty turn with a note."""
    return answers(lambda context: (clean_turn("assistant", system.reply(context)),), turns)[0]


def answers(say: Callable[[Context], tuple[Turn, ...]], turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """Return the turns that a system adds to a conversation; a failure is an empty turn with a note."""
    spoken = tuple(turn for turn in turns if turn.text.strip())
    try:
        return say(Context(spoken))
    except Exception as error:  # whatever goes wrong in somebody's system is that system's failure
        return (Turn("assistant", "", {"note": f"{FAILED}: {reason(error)}"}),)


def reason(error: Exception) -> str:
    """Return the reason for a failed reply in one line.

    >>> reason(ValueError("no such word"))
    'ValueError: no such word'
    """
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, DialevalError) else f"{type(error).__name__}: {text}"
