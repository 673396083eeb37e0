"""A system behind an address, asked as a chat: what it is to play is `assistant`, all others are `user`."""

from dataclasses import dataclass

from dialeval.dialogues.contexts import Context
from dialeval.models.endpoint import Endpoint
from dialeval.scores import Signature

AT_ONCE = 4


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
        """What decides what it says; how patiently it is asked does not."""
        asked = {
            key: getattr(self.endpoint, key) for key in ("address", "model", "temperature", "max_tokens")
        }
        return Signature.of("endpoint.v1", {**asked, "instructions": self.instructions})

    def reply(self, context: Context) -> str:
        """Send the context as a chat."""
        return self.endpoint.complete(self.messages(context))

    def messages(self, context: Context) -> list[dict[str, str]]:
        """Write a context as the endpoint reads it; what tools answered is left out."""
        first = [] if self.instructions is None else [{"role": "system", "content": self.instructions}]
        roles = {context.speaker: "assistant", "system": "system"}
        return first + [
            {"role": roles.get(turn.speaker, "user"), "content": turn.text}
            for turn in context.turns
            if turn.speaker != "tool" and turn.text.strip()
        ]
