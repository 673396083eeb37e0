"""A language model behind an address: one that answers like OpenAI's chat completions.

It connects to the address it was given and to nothing else: no proxy of the environment is used, and a
redirect is a failure. Every call ends: with an answer, or after a time and a number of tries that are known
beforehand. What can pass (a broken connection, a time-out, 429, 5xx) is tried again, ever more slowly; what
cannot (another 4xx, an answer that is none) fails at once.

A key is taken from the environment variable `DIALEVAL_API_KEY`. It is sent to the address and is part of no
signature, message or file.
"""

import contextlib
import hashlib
import http.client
import json
import math
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from dialeval import __version__, files
from dialeval.errors import DataError, UsageError
from dialeval.models.artefact import home

KEY = "DIALEVAL_API_KEY"
TIMEOUT = 60.0  # seconds
LARGEST = 4 << 20  # bytes of an answer
_LONGEST_WAIT = 60.0
_PATH = "/chat/completions"


class EndpointError(DataError):
    """An endpoint gave no usable answer; `again` tells whether a retry may help."""

    def __init__(self, message: str, address: str, *, again: bool = False, wait: float | None = None) -> None:
        super().__init__(message, file=address)
        self.again, self.wait, self.what = again, wait, message


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible chat endpoint.

    Attributes:
        address: Where it is, such as `http://localhost:8000/v1`.
        model: Which model is asked for; many servers have one only and need no name.
        temperature: 0 for the likeliest answer, as far as the server keeps that promise.
        max_tokens: How long an answer may be.
        timeout: Seconds until a try is given up, however busy the line is.
        tries: How often a call is made at most.
        backoff: Seconds before the second try, doubled before each further one.

    >>> Endpoint("http://localhost:8000/v1").path
    '/v1/chat/completions'
    """

    address: str
    model: str | None = None
    temperature: float = 0.0
    max_tokens: int = 256
    timeout: float = TIMEOUT
    tries: int = 3
    backoff: float = 1.0

    def __post_init__(self) -> None:
        """Check address and settings."""
        parts = _parts(self.address)
        if parts.username or parts.password:
            raise UsageError(f"no password in an address: put the key into {KEY}")
        if self.timeout <= 0 or self.tries < 1 or self.backoff < 0 or self.max_tokens < 1:
            raise UsageError("timeout and max_tokens must be above 0, tries at least 1, backoff not negative")

    @property
    def path(self) -> str:
        """The path that chats are posted to."""
        return self._below(_PATH)

    def _below(self, suffix: str) -> str:
        parts = _parts(self.address)
        path = str(parts.path).rstrip("/").removesuffix(_PATH) + suffix
        return f"{path}?{parts.query}" if parts.query else path

    def complete(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Send messages (`role`, `content`) and return the text of the answer.

        Raises:
            EndpointError: After the last try, or at once if a retry cannot help.
        """
        return _answered(self.post(_PATH, self.chat_body(messages)), self.address).text

    def chat_body(self, messages: Sequence[Mapping[str, str]]) -> dict[str, Any]:
        """Return the request body of a chat completion."""
        body: dict[str, Any] = {"messages": list(messages), "temperature": self.temperature}
        return body | {"max_tokens": self.max_tokens} | ({} if self.model is None else {"model": self.model})

    def post(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Post a request to a path below the address and return the raw answer.

        Raises:
            EndpointError: After the last try, or at once if a retry cannot help.
        """
        packed = json.dumps(body).encode()
        for number in range(1, self.tries + 1):
            try:
                return self._post(self._below(path), packed)
            except EndpointError as error:
                if not error.again or number == self.tries:
                    tried = f" (tried {number} times)" if number > 1 else ""
                    raise EndpointError(error.what + tried, self.address, again=error.again) from None
                time.sleep(error.wait if error.wait is not None else self._pause(number, packed))
        raise AssertionError("unreachable")

    def _pause(self, number: int, packed: bytes) -> float:
        """Return the exponential backoff in seconds, spread by the request's hash."""
        spread = hashlib.blake2b(packed, digest_size=1).digest()[0] / 255
        return min(_LONGEST_WAIT, self.backoff * 2.0 ** (number - 1) * (0.75 + 0.5 * spread))

    def _post(self, path: str, packed: bytes) -> bytes:
        parts = _parts(self.address)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        line = kind(str(parts.hostname), parts.port, timeout=self.timeout)
        late, sockets = threading.Event(), list[socket.socket]()
        watch = threading.Timer(self.timeout, _cut, (sockets, late))
        watch.daemon = True
        watch.start()
        try:
            line.connect()
            sockets.append(line.sock)  # kept: the line forgets it when the server will close it
            line.request("POST", path, packed, self._headers())
            answer = line.getresponse()
            read = answer.read(LARGEST + 1)
        except (OSError, http.client.HTTPException, ssl.SSLError, ValueError) as error:
            if late.is_set() or isinstance(error, TimeoutError):
                raise EndpointError(f"no answer in {self.timeout:g} s", self.address, again=True) from None
            raise EndpointError(f"no connection: {_why(error)}", self.address, again=True) from None
        finally:
            watch.cancel()
            line.close()
        if late.is_set():  # cut off in the middle of an answer
            raise EndpointError(f"no answer in {self.timeout:g} s", self.address, again=True)
        if len(read) > LARGEST:
            raise EndpointError(f"the answer is larger than {LARGEST >> 20} MB", self.address)
        if answer.length:
            raise EndpointError("the answer is truncated", self.address, again=True)
        self._check(answer, read)
        return read

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        headers["User-Agent"] = f"dialeval/{__version__}"
        key = os.environ.get(KEY, "").strip()
        if not (key.isascii() and key.isprintable()):  # or the library would complain, and show it
            raise EndpointError(f"{KEY} has characters that a key cannot have", self.address)
        return headers | ({"Authorization": f"Bearer {key}"} if key else {})

    def _check(self, answer: http.client.HTTPResponse, read: bytes) -> None:
        if answer.status == 200:
            return
        if 300 <= answer.status < 400:
            raise EndpointError(f"redirects ({answer.status}); redirects are not followed", self.address)
        again = answer.status in (408, 409, 425, 429) or answer.status >= 500
        detail = " ".join(read[:200].decode("utf-8", "replace").split())
        raise EndpointError(
            f"HTTP {answer.status}{f': {detail}' if detail else ''}",
            self.address,
            again=again,
            wait=_asked_wait(answer.getheader("Retry-After")),
        )


def _parts(address: str) -> Any:
    try:
        parts = urlsplit(
            address if address.isascii() and address.isprintable() and " " not in address else ""
        )
        if parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0):
            return parts
    except ValueError:
        pass
    raise UsageError(f"not an address: {address!r}; expected for example http://localhost:8000/v1")


def _cut(sockets: Sequence[socket.socket], late: threading.Event) -> None:
    """Shut down the sockets of a call, so that a server that sends slowly times out, too."""
    late.set()
    for connection in sockets:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


def _why(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error) or type(error).__name__


def _asked_wait(header: str | None) -> float | None:
    """Return the seconds of a Retry-After header, at most `_LONGEST_WAIT`."""
    try:
        return min(_LONGEST_WAIT, max(0.0, float(header))) if header else None
    except ValueError:
        return None


_RATING = re.compile(r'\{\s*"rating"\s*:\s*(\d{1,3})\s*\}', re.ASCII)
_ALTERNATIVES = 20  # the most that OpenAI gives


@dataclass(frozen=True, slots=True)
class Answered:
    """The text of an answer, and the alternatives with log-probabilities at each token, if returned.

    >>> Answered("4", (("4", {"4": -0.7, "5": -0.7, "four": -3.0}),)).weighted(1, 5)
    4.5
    """

    text: str
    tokens: tuple[tuple[str, dict[str, float]], ...] = ()

    def number(self, low: int, high: int) -> int | None:
        """Return the rating if the answer is only a number of the scale, or `{"rating": number}`.

        >>> [Answered(text).number(1, 5) for text in ("4", " 4.", "4/5", "I'd say 4", "6", '{"rating": 4}')]
        [4, 4, None, None, None, 4]
        """
        inner = _RATING.fullmatch(self.text.strip())
        text = inner[1] if inner else self.text.strip().removesuffix(".")
        value = int(text) if text.isascii() and text.isdecimal() and len(text) < 4 else None
        return value if value is not None and low <= value <= high else None

    def weighted(self, low: int, high: int) -> float | None:
        """Return the expected rating; None if less than half of the probability is on the scale."""
        first = next(
            (alternatives for chosen, alternatives in self.tokens if chosen.strip().isdecimal()), None
        )
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
    """Return a JSON schema response format for one number of the scale."""
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
    """Return one answer; falls back to no log-probabilities if the server rejects them.

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
        raise EndpointError("the answer has no text", address)
    return Answered(text, _tokens(choice))


def _tokens(choice: Any) -> tuple[tuple[str, dict[str, float]], ...]:
    """Return the alternatives at each token; empty if they are missing or malformed."""
    try:
        tokens = [
            (
                str(token["token"]),
                {
                    str(alternative["token"]): float(alternative["logprob"])
                    for alternative in token["top_logprobs"]
                },
            )
            for token in choice["logprobs"]["content"]
        ]
    except (KeyError, TypeError, ValueError, OverflowError):
        return ()
    sound = all(
        alternatives and not any(math.isnan(value) for value in alternatives.values())
        for _, alternatives in tokens
    )
    return tuple(tokens) if sound else ()


class _StoredAnswer(msgspec.Struct):
    name: str
    answered: Answered


class AnswerStore:
    """Stored answers in a folder, one file each, named by the hash of endpoint and request."""

    def __init__(self) -> None:
        chosen = os.environ.get("DIALEVAL_CACHE")
        self.folder = (Path(chosen) if chosen else home()) / "answers"

    def fetch(self, name: str) -> Answered | None:
        """Return a stored answer; None if it is missing or damaged."""
        try:
            stored = msgspec.json.decode(self._place(name).read_bytes(), type=_StoredAnswer)
        except (OSError, ValueError, RecursionError):
            return None
        return stored.answered if stored.name == name else None

    def store(self, name: str, answered: Answered) -> None:
        """Store an answer; a full disk is ignored."""
        with contextlib.suppress(DataError), files.replacing(self._place(name)) as file:
            file.write(msgspec.json.encode(_StoredAnswer(name, answered)))

    def _place(self, name: str) -> Path:
        return self.folder / name[:2] / f"{name}.json"


def question_name(
    endpoint: Endpoint,
    messages: Sequence[Mapping[str, str]],
    run: int,
    probabilities: bool,
    form: Mapping[str, Any] | None = None,
) -> str:
    """Return the hash of all that determines the answer, with the number of the repetition."""
    content = [endpoint.address, endpoint.chat_body(messages), run, probabilities, form]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
