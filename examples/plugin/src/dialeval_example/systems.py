"""A system: a function of messages, as any endpoint is sent them."""


def parrot(messages: list[dict[str, str]]) -> str:
    """Say back what was said last."""
    return f"You say: {messages[-1]['content']}"
