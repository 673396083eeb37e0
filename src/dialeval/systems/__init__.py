"""Systems: who speaks. A system under test is handed a context and gives a reply.

>>> from dialeval.dialogues.contexts import Context
>>> from dialeval.dialogues import Turn
>>> system = build("wizard-max-voted:votes=examples")
>>> system.reply(Context((Turn("user", "…"),), "assistant", "book-05-good", 1))
"I'm sorry to hear that. Does it hurt?"
"""

from dialeval.systems.conversation import Conversation
from dialeval.systems.registry import NAMES, build
from dialeval.systems.system import System

__all__ = ["NAMES", "Conversation", "System", "build"]
