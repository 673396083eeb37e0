"""How much one service takes on, so that no request can starve the others."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What is refused, rather than tried.

    Args:
        body: The most bytes of one request.
        turns: The most turns of one request.
        waiting: The most requests that wait to be scored; the next one is told to come again.
        seconds: The longest a request may take, to be read and to be scored.
        together: How many turns, of requests that wait at the same time, are scored in one pass.
    """

    body: int = 8 << 20
    turns: int = 5_000
    waiting: int = 256
    seconds: float = 60.0
    together: int = 2_000
