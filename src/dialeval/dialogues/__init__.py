"""Dialogues: the data model, the formats they come in, and the public sets known by name."""

from dialeval.dialogues.dialogue import (
    Dialogue,
    Passage,
    ToolCall,
    Turn,
    context_of,
    dialogue,
    evidence_before,
    in_blocks,
    instructions_of,
    is_step,
    says_something,
    scored_turns,
    steps_before,
    takes_part,
)

__all__ = [
    "Dialogue",
    "Passage",
    "ToolCall",
    "Turn",
    "context_of",
    "dialogue",
    "evidence_before",
    "in_blocks",
    "instructions_of",
    "is_step",
    "says_something",
    "scored_turns",
    "steps_before",
    "takes_part",
]
