"""Dynamic context: what a system says becomes part of what it answers next."""

from dialeval.dialogues import Dialogue, Turn
from dialeval.dialogues.contexts import FAILED, Context
from dialeval.dialogues.dialogue import clean_turn
from dialeval.errors import UsageError
from dialeval.systems.system import System


class Conversation:
    """A person and a system take turns; every turn of either is kept and is the context of the next.

    A reply that fails is kept as an empty turn with a note, and the person may go on.

    >>> from dialeval.systems.function import Function
    >>> talk = Conversation(Function("echo", lambda messages: f"{len(messages)}: {messages[-1]['content']}"))
    >>> [talk.say("Hi!").text, talk.say("And now?").text]
    ['1: Hi!', '3: And now?']
    """

    def __init__(self, system: System, turns: tuple[Turn, ...] = ()) -> None:
        if system.fixed_only:
            raise UsageError(f"nobody can talk to {system.name}: it answers fixed contexts only")
        self.system, self.turns = system, turns

    def say(self, text: str) -> Turn:
        """Add what the person says, and return what the system answers."""
        self.turns = (*self.turns, clean_turn("user", text))
        reply = answer(self.system, self.turns)
        self.turns = (*self.turns, reply)
        return reply

    def dialogue(self, name: str) -> Dialogue:
        """Return all that was said."""
        meta = {"setting": "dynamic", "by": str(self.system.signature)}
        return Dialogue(name, self.turns, self.system.name, {}, meta)


def answer(system: System, turns: tuple[Turn, ...]) -> Turn:
    """Let a system answer a conversation that is being held; a failure is an empty turn with a note."""
    said = tuple(turn for turn in turns if turn.text.strip())
    try:
        return clean_turn("assistant", system.reply(Context(said)))
    except Exception as error:  # whatever goes wrong in somebody's system is that system's failure
        return Turn("assistant", "", {"note": f"{FAILED}: {reason(error)}"})


def reason(error: Exception) -> str:
    """Say in one line why a reply failed.

    >>> reason(ValueError("no such word"))
    'ValueError: no such word'
    """
    from dialeval.errors import DialevalError

    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, DialevalError) else f"{type(error).__name__}: {text}"
