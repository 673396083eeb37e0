"""Dialogues: the data model, the formats they come in, and the public sets known by name."""

from dialeval.dialogues.dialogue import Dialogue, Turn, dialogue, scored_turns, takes_part

__all__ = ["Dialogue", "Turn", "dialogue", "scored_turns", "takes_part"]
