"""Answers of a chat model to a question with a number for an answer, kept on disk by what was asked."""

import contextlib
import hashlib
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dialeval import files
from dialeval.errors import DataError
from dialeval.models.artefact import home
from dialeval.models.endpoint import Endpoint, EndpointError

_RATING = re.compile(r'\{\s*"rating"\s*:\s*(\d{1,3})\s*\}', re.ASCII)
_ALTERNATIVES = 20  # the most that OpenAI gives


@dataclass(frozen=True, slots=True)
class Answered:
    """The text of an answer, and for each of its tokens what it might have been, if the server says so.

    >>> Answered("4", (("4", {"4": -0.7, "5": -0.7, "four": -3.0}),)).weighted(1, 5)
    4.5
    """

    text: str
    tokens: tuple[tuple[str, dict[str, float]], ...] = ()

    def number(self, low: int, high: int) -> int | None:
        """Read the answer strictly: a number of the scale, with at most a full stop, or `{"rating": number}`.

        >>> [Answered(text).number(1, 5) for text in ("4", " 4.", "4/5", "I'd say 4", "6", '{"rating": 4}')]
        [4, 4, None, None, None, 4]
        """
        inner = _RATING.fullmatch(self.text.strip())
        text = inner[1] if inner else self.text.strip().removesuffix(".")
        found = int(text) if text.isascii() and text.isdecimal() and len(text) < 4 else None
        return found if found is not None and low <= found <= high else None

    def weighted(self, low: int, high: int) -> float | None:
        """Weigh the numbers of the scale by their probability; None where less than half of it is known."""
        first = next((others for chosen, others in self.tokens if chosen.strip().isdecimal()), None)
        if first is None or high > 9:  # a number of two digits is several tokens
            return None
        chances: dict[int, float] = {}
        for token, value in first.items():
            text = token.strip()
            if text.isascii() and text.isdecimal() and len(text) == 1 and low <= int(text) <= high:
                chances[int(text)] = chances.get(int(text), 0.0) + math.exp(min(0.0, value))
        total = sum(chances.values())
        return sum(number * chance for number, chance in chances.items()) / total if total >= 0.5 else None


def rating_format(low: int, high: int) -> dict[str, Any]:
    """Ask for JSON with one number of the scale, as servers that bind a model to a form understand it."""
    number = {"type": "integer", "enum": list(range(low, high + 1))}
    schema = {"type": "object", "properties": {"rating": number}, "required": ["rating"]}
    form = {"name": "rating", "strict": True, "schema": schema | {"additionalProperties": False}}
    return {"type": "json_schema", "json_schema": form}


def ask(
    endpoint: Endpoint,
    messages: Sequence[Mapping[str, str]],
    *,
    probabilities: bool,
    form: Mapping[str, Any] | None = None,
) -> Answered:
    """Ask once. A server that does not know log-probabilities is asked again without.

    Raises:
        EndpointError: No answer, or none that is a chat completion.
    """
    body = endpoint.chat_body(messages) | ({"response_format": form} if form else {})
    more = {"logprobs": True, "top_logprobs": _ALTERNATIVES} if probabilities else {}
    try:
        read = endpoint.post("/chat/completions", body | more)
    except EndpointError as error:
        if not more or error.again or "HTTP 4" not in error.what or "HTTP 401" in error.what:
            raise
        read = endpoint.post("/chat/completions", body)
    return _answered(read, endpoint.address)


def _answered(read: bytes, address: str) -> Answered:
    try:
        choice = json.loads(read)["choices"][0]
        text = choice["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        start = " ".join(read[:80].decode("utf-8", "replace").split())
        raise EndpointError(f"not a chat completion: {start!r}", address) from None
    if not isinstance(text, str):
        raise EndpointError("an answer without text", address)
    return Answered(text, _tokens(choice))


def _tokens(choice: Any) -> tuple[tuple[str, dict[str, float]], ...]:
    """Read the alternatives at each token, as far as they are there and as they should be."""
    try:
        found = [
            (
                str(token["token"]),
                {str(one["token"]): float(one["logprob"]) for one in token["top_logprobs"]},
            )
            for token in choice["logprobs"]["content"]
        ]
    except (KeyError, TypeError, ValueError, OverflowError):
        return ()
    sound = all(one and not any(math.isnan(value) for value in one.values()) for _, one in found)
    return tuple(found) if sound else ()


class AnswerStore:
    """Answers in a folder, one small file each, named by the hash of what was asked of whom."""

    def __init__(self, folder: Path | None = None) -> None:
        chosen = os.environ.get("DIALEVAL_CACHE")
        self.folder = folder or (Path(chosen) if chosen else home()) / "answers"

    def fetch(self, name: str) -> Answered | None:
        """Return a kept answer; a file that is damaged counts as none."""
        try:
            kept = json.loads(self._place(name).read_bytes())
            if kept["name"] != name:
                return None
            tokens = tuple(
                (str(chosen), {str(key): float(value) for key, value in others.items()})
                for chosen, others in kept["tokens"]
            )
            return Answered(str(kept["text"]), tokens)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def store(self, name: str, answered: Answered) -> None:
        """Keep an answer; a full disk is no reason to lose what was paid for."""
        kept = {"name": name, "text": answered.text, "tokens": answered.tokens}
        with contextlib.suppress(DataError):
            files.write_text(self._place(name), json.dumps(kept))

    def _place(self, name: str) -> Path:
        return self.folder / name[:2] / f"{name}.json"


def question_name(
    endpoint: Endpoint,
    messages: Sequence[Mapping[str, str]],
    run: int,
    probabilities: bool,
    form: Mapping[str, Any] | None = None,
) -> str:
    """Name a question by all that decides the answer; the number of the run tells repetitions apart."""
    said = [endpoint.address, endpoint.chat_body(messages), run, probabilities, form]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
