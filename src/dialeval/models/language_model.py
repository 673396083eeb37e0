"""A language model behind an address that says how likely every token of a prompt is.

It is asked as OpenAI's older completions are: `echo` and `logprobs`, as vLLM and others answer them. One call
per continuation; that they begin alike is the server's to notice. A chat address does not do: it has no way
to say how likely words are that it did not choose.
"""

import functools
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dialeval import files
from dialeval.dialogues import Dialogue
from dialeval.errors import DataError, DialevalError, UsageError
from dialeval.models.artefact import load, names
from dialeval.models.cache import Cache, DiskCache
from dialeval.models.endpoint import Endpoint
from dialeval.models.gguf import BytePairs, Gguf
from dialeval.models.likelihood import (
    ContinuationScores,
    LanguageModel,
    Position,
    SpokenTurn,
    Template,
    TokenModel,
    spoken,
)
from dialeval.models.llama import Llama

AT_ONCE = 4
_LETTERS = 3  # of a token, at least on average: how many letters surely fit into a window of tokens


@dataclass(frozen=True)
class EndpointModel:
    """A completions address; what is sent is text, so marks that somebody typed are made harmless first."""

    endpoint: Endpoint

    @classmethod
    def at(cls, address: str) -> "EndpointModel":
        """Take an address, with `#model` behind it where several are served."""
        place, _, model = address.partition("#")
        return cls(Endpoint(place, model=model or None))

    def answer(
        self,
        dialogue: Dialogue,
        questions: Sequence[Position],
        continuations: Sequence[str],
        template: Template,
        window: int,
    ) -> list[ContinuationScores]:
        """Ask for every continuation after every place."""
        turns = spoken(dialogue)
        jobs, cuts = [], []
        for question in questions:
            before, cut = _written(turns, question, template, window * _LETTERS)
            cuts.append(cut)
            jobs += [(before, template.lead + one) for one in continuations]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = list(pool.map(lambda job: self._ask(*job), jobs))
        size = len(continuations)
        answers = []
        for number, cut in enumerate(cuts):
            some = found[number * size : (number + 1) * size]
            totals = np.array([total for total, _ in some], np.float32)
            answers.append(ContinuationScores(totals, tuple(count for _, count in some), cut))
        return answers

    def _ask(self, before: str, said: str) -> tuple[float, int]:
        body = {"prompt": before + said, "echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
        body |= {} if self.endpoint.model is None else {"model": self.endpoint.model}
        read = self.endpoint.post("/completions", body)
        try:
            found = json.loads(read)["choices"][0]["logprobs"]
            pairs = list(zip(found["text_offset"], found["token_logprobs"], strict=True))
        except (ValueError, KeyError, IndexError, TypeError, RecursionError):
            raise self._useless() from None
        start, end = len(before), len(before) + len(said)
        values = [value for at, value in pairs if _inside(at, start, end)]
        if not values or not all(isinstance(one, float | int) and abs(one) < 1e9 for one in values):
            raise self._useless()
        return float(sum(values)), len(values)

    def _useless(self) -> DataError:
        return DataError(
            "does not say how likely the tokens of a prompt are (completions with echo and logprobs)",
            file=self.endpoint.address,
            fix="serve the model with vLLM, or name a GGUF file or hub:org/name",
        )


def _inside(at: Any, start: int, end: int) -> bool:
    return isinstance(at, int) and start <= at < end


def _written(
    turns: Sequence[SpokenTurn], question: Position, template: Template, letters: int
) -> tuple[str, bool]:
    """Write the dialogue down up to a place, the newest turns first until the room is used up."""
    seen = [one for one in turns if question.turn is None or one.number <= question.turn]
    parts: list[str] = []
    cut = False
    for one in reversed(seen):
        text = template.opening(one.side) + template.lead + template.plain(one.text) + template.close
        if sum(map(len, parts)) + len(text) > letters:
            cut = True
            parts += [] if parts else [text[-letters:]]
            break
        parts.append(text)
    return template.begin + "".join(reversed(parts)) + template.opening(question.side), cut


DEFAULT = "smollm2-135m-instruct"
MISSING = f"no language model: fetch it with `dialeval models pull {DEFAULT}`"


def is_here(name: str) -> bool:
    """Return whether a language model can be opened without a download; only the default can be missing."""
    return name != DEFAULT or any(called == name for called, _, _ in names()) or Path(name).exists()


def open_model(name: str) -> LanguageModel:
    """Open a language model, one per process and name.

    Args:
        name: A pulled name or an artefact's folder; a file that ends in `.gguf`; `hub:org/name`, or `hub:`
            and a folder as transformers saves it (extra `[train]`); `http://…` or `https://…`, an address
            that answers completions with the log-probabilities of the prompt, with `#model` behind it if
            it serves several.

    Raises:
        DialevalError: It is not there, or it cannot be used; says what to do.
    """
    if name == DEFAULT and not is_here(name):
        raise UsageError(MISSING)
    return _opened(name, os.environ.get("DIALEVAL_CACHE") or None)


def mark(name: str) -> str:
    """Name a language model in signatures by its content; what cannot be looked into keeps its name.

    >>> mark("http://localhost:8000/v1#tiny")
    'http://localhost:8000/v1#tiny'
    """
    if name.startswith(("http://", "https://")) or name == "":
        return name
    try:
        if name.startswith("hub:"):
            from dialeval.models.causal import mark_of

            return mark_of(name.removeprefix("hub:"))
        if name.endswith(".gguf"):
            return files.sha256(name)[:12]
        return _weights(name)[1][:12]
    except DialevalError:
        return name


@functools.lru_cache(maxsize=2)
def _opened(name: str, folder: str | None) -> LanguageModel:
    cache = Cache(64 << 20, DiskCache(folder) if folder else None)
    if name.startswith(("http://", "https://")):
        return EndpointModel.at(name)
    if name.startswith("hub:"):
        from dialeval.models.causal import open_causal

        return open_causal(name.removeprefix("hub:"), cache)
    path, sha = (Path(name), files.sha256(name)) if name.endswith(".gguf") else _weights(name)
    file = Gguf(path)
    llama = Llama(file)
    return TokenModel(sha, llama.limit, BytePairs(file), llama.log_likelihoods, cache)


def _weights(name: str) -> tuple[Path, str]:
    """Find the GGUF file of an artefact, and its SHA-256."""
    found = load(name, "gguf.v1")
    file = found.config.get("model_file")
    if not isinstance(file, str):
        raise DataError("names no file", file=found.folder / "config.json", field="model_file")
    return found.path(file), found.files[file]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_opened.cache_clear)
