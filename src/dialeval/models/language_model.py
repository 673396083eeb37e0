"""Language models by name: a GGUF file, an address, or any causal model that transformers can load.

An address returns the likelihood of every token of a prompt, by OpenAI's older completions: `echo` and
`logprobs`, which vLLM and others support. One call per continuation; the server may cache the common prefix.
A chat address cannot be used, because it returns no likelihood of given words. Models of transformers, from
the Hub or from a folder, need the extra `[train]`.
"""

import functools
import hashlib
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
from dialeval.models.conversion import reading_by_transformers
from dialeval.models.endpoint import Endpoint
from dialeval.models.gguf import BytePairs, Floats, Gguf
from dialeval.models.likelihood import (
    ContinuationScores,
    LanguageModel,
    Place,
    Position,
    SpokenTurn,
    Template,
    TokenModel,
    spoken,
)
from dialeval.models.llama import Llama
from dialeval.models.tokenization import check_growth

AT_ONCE = 4
_LETTERS = 3  # of a token, at least on average: how many letters surely fit into a window of tokens


@dataclass(frozen=True)
class EndpointModel:
    """A completions endpoint; typed special tokens are broken up, because all is sent as text."""

    endpoint: Endpoint

    @classmethod
    def at(cls, address: str) -> "EndpointModel":
        """Return the model at an address, optionally followed by `#model`."""
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
        """Return the scores of every continuation at every position."""
        turns = spoken(dialogue)
        jobs, cuts = [], []
        for question in questions:
            before, cut = _written(turns, question, template, window * _LETTERS)
            cuts.append(cut)
            jobs += [(before, template.lead + text) for text in continuations]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            results = list(pool.map(lambda job: self._ask(*job), jobs))
        size = len(continuations)
        answers = []
        for number, cut in enumerate(cuts):
            scores = results[number * size : (number + 1) * size]
            totals = np.array([total for total, _ in scores], np.float32)
            answers.append(ContinuationScores(totals, tuple(count for _, count in scores), cut))
        return answers

    def _ask(self, before: str, continuation: str) -> tuple[float, int]:
        body = {
            "prompt": before + continuation,
            "echo": True,
            "logprobs": 1,
            "max_tokens": 1,
            "temperature": 0,
        }
        body |= {} if self.endpoint.model is None else {"model": self.endpoint.model}
        read = self.endpoint.post("/completions", body)
        try:
            scores = json.loads(read)["choices"][0]["logprobs"]
            pairs = list(zip(scores["text_offset"], scores["token_logprobs"], strict=True))
        except (ValueError, KeyError, IndexError, TypeError, RecursionError):
            raise self._useless() from None
        start, end = len(before), len(before) + len(continuation)
        values = [value for at, value in pairs if isinstance(at, int) and start <= at < end]
        if not values or not all(isinstance(value, float | int) and abs(value) < 1e9 for value in values):
            raise self._useless()
        return float(sum(values)), len(values)

    def _useless(self) -> DataError:
        return DataError(
            "returns no log-probabilities of the prompt's tokens (completions with echo and logprobs)",
            file=self.endpoint.address,
            fix="serve the model with vLLM, or name a GGUF file or hub:org/name",
        )


def _written(
    turns: Sequence[SpokenTurn], question: Position, template: Template, letters: int
) -> tuple[str, bool]:
    """Return the prompt up to a position, with the newest turns that fit, and whether any were cut."""
    seen = [turn for turn in turns if question.turn is None or turn.number <= question.turn]
    parts: list[str] = []
    cut = False
    for turn in reversed(seen):
        text = template.opening(turn.side) + template.lead + template.plain(turn.text) + template.close
        if sum(map(len, parts)) + len(text) > letters:
            cut = True
            parts += [] if parts else [text[-letters:]]
            break
        parts.append(text)
    return template.begin + "".join(reversed(parts)) + template.opening(question.side), cut


_COUNTED = ("config.json", "tokenizer.json")


def open_causal(name: str, cache: Cache) -> TokenModel:
    """Load a model by folder or Hub id (`org/name`, `org/name@revision`), in fp32; no code of it is run."""
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError:
        raise UsageError(f"hub:{name} needs torch and transformers: pip install 'dialeval[train]'") from None
    place, _, revision = (name, "", "") if Path(name).is_dir() else name.partition("@")
    which: dict[str, Any] = {"trust_remote_code": False} | ({"revision": revision} if revision else {})
    with reading_by_transformers(name, "a language model", "a causal model"):
        model: Any = AutoModelForCausalLM.from_pretrained(
            place, dtype=torch.float32, use_safetensors=True, **which
        )
        tokenizer = AutoTokenizer.from_pretrained(place, **which)
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        raise DataError("its tokenizer has no tokenizer.json", file=name, fix="use a fast tokenizer")
    model.train(False)
    limit = int(getattr(model.config, "max_position_embeddings", 0) or 1024)
    commit = str(getattr(model.config, "_commit_hash", None) or "")
    sha = hashlib.sha256(f"{mark_of(name)}|{commit}".encode()).hexdigest()
    words = _Words(tokenizer, int(model.get_input_embeddings().num_embeddings), name)
    return TokenModel(sha, limit, words, functools.partial(_compute, model), cache)


def mark_of(name: str) -> str:
    """Return a model's mark in signatures: the content hash of a folder, or the Hub id and revision."""
    folder = Path(name)
    if not folder.is_dir():
        return name
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.name in _COUNTED or path.suffix == ".safetensors":
            digest.update(f"{path.name} {files.sha256(path)}\n".encode())
    return digest.hexdigest()[:12]


class _Words:
    """The tokenizer of a transformers model, without automatic special tokens."""

    def __init__(self, tokenizer: Any, vocabulary: int, name: str) -> None:
        from tokenizers import Tokenizer

        self._vocabulary, self._name = vocabulary, name
        content = json.loads(tokenizer.backend_tokenizer.to_str()) | {"truncation": None, "padding": None}
        packed = json.dumps(content)
        check_growth(packed.encode(), name)
        self._marks, self._words = Tokenizer.from_str(packed), Tokenizer.from_str(packed)
        self._words.encode_special_tokens = True

    def first(self) -> list[int]:
        """Return no tokens: the template has all special tokens."""
        return []

    def marks(self, text: str) -> list[int]:
        """Return the tokens of a template, with special tokens recognised."""
        return self._known(self._marks.encode(text, add_special_tokens=False).ids)

    def words(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of texts, with special tokens as plain text."""
        encodings = self._words.encode_batch(list(texts), add_special_tokens=False)
        return [self._known(encoding.ids) for encoding in encodings]

    def _known(self, ids: Sequence[int]) -> list[int]:
        if max(ids, default=0) >= self._vocabulary:
            message = f"its tokenizer returns the token {max(ids)}, but the model has {self._vocabulary}"
            raise DataError(message, file=self._name)
        return list(ids)


def _compute(model: Any, text: Sequence[int], places: Sequence[Place]) -> list[list[Floats]]:
    """Return token log-probabilities: the text is read once, continuations reuse its cache in a batch."""
    import torch

    with torch.inference_mode():
        read = model(torch.tensor([list(text)]), use_cache=True)
        first = torch.log_softmax(read.logits[0], dim=-1)
        results = []
        for place, tree in places:
            continuations = tree.continuations
            width = max(map(len, continuations))
            ids = torch.zeros((len(continuations), max(1, width - 1)), dtype=torch.int64)
            for row, continuation in zip(ids, continuations, strict=True):
                row[: len(continuation) - 1] = torch.tensor(continuation[:-1], dtype=torch.int64)
            past = _up_to(read.past_key_values, place, len(continuations))
            mask = torch.ones((len(continuations), place + ids.shape[1]), dtype=torch.int64)
            logits = model(ids, past_key_values=past, attention_mask=mask, use_cache=True).logits
            rest = torch.log_softmax(logits, dim=-1)
            results.append(
                [
                    _picked(first[place - 1], rest[row], continuation)
                    for row, continuation in enumerate(continuations)
                ]
            )
    return results


def _picked(first: Any, rest: Any, tokens: Sequence[int]) -> Floats:
    values = [float(first[tokens[0]])] if tokens else []
    values += [float(rest[number, token]) for number, token in enumerate(tokens[1:])]
    return np.array(values, np.float32)


def _up_to(past: Any, place: int, copies: int) -> Any:
    """Return the key-value cache up to a place, expanded to `copies` without copying."""
    from transformers import DynamicCache

    cache = DynamicCache()
    for number, layer in enumerate(past.layers):
        keys, values = (
            tensor[:, :, :place].expand(copies, -1, -1, -1) for tensor in (layer.keys, layer.values)
        )
        cache.update(keys, values, number)
    return cache


DEFAULT = "smollm2-135m-instruct"
MISSING = f"no language model: fetch it with `dialeval models pull {DEFAULT}`"


def is_here(name: str) -> bool:
    """Return whether a language model is available without a download."""
    return name != DEFAULT or any(called == name for called, _, _ in names()) or Path(name).exists()


def open_model(name: str) -> LanguageModel:
    """Open a language model, one per process and name.

    Args:
        name: A pulled name or an artefact's folder; a file that ends in `.gguf`; `hub:org/name`, or `hub:`
            and a folder as transformers saves it (extra `[train]`); `http://…` or `https://…`, an address
            that answers completions with the log-probabilities of the prompt, with `#model` behind it if
            it serves several.

    Raises:
        DialevalError: It is missing or unusable.
    """
    if name == DEFAULT and not is_here(name):
        raise UsageError(MISSING)
    return _opened(name, os.environ.get("DIALEVAL_CACHE") or None)


def mark(name: str) -> str:
    """Return a language model's mark in signatures: its content hash, or else its name.

    >>> mark("http://localhost:8000/v1#tiny")
    'http://localhost:8000/v1#tiny'
    """
    if name.startswith(("http://", "https://")) or name == "":
        return name
    try:
        if name.startswith("hub:"):
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
        return open_causal(name.removeprefix("hub:"), cache)
    path, sha = (Path(name), files.sha256(name)) if name.endswith(".gguf") else _weights(name)
    file = Gguf(path)
    llama = Llama(file)
    return TokenModel(sha, llama.limit, BytePairs(file), llama.log_likelihoods, cache)


def _weights(name: str) -> tuple[Path, str]:
    """Return the GGUF file of an artefact, and its SHA-256."""
    artefact = load(name, "gguf.v1")
    file = artefact.config.get("model_file")
    if not isinstance(file, str):
        raise DataError("names no file", file=artefact.folder / "config.json", field="model_file")
    return artefact.path(file), artefact.files[file]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_opened.cache_clear)
