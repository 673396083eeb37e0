"""Systems under test: each is given a context and returns a reply.

>>> from dialeval.dialogues.contexts import Context
>>> from dialeval.dialogues import Turn
>>> system = build("wizard-max-voted:votes=examples")
>>> system.reply(Context((Turn("user", "…"),), "assistant", "book-05-good", 1))
"I'm sorry to hear that. Does it hurt?"
"""

from dialeval.systems.system import Conversation, System, build, system_names

__all__ = ["Conversation", "System", "build", "system_names"]
