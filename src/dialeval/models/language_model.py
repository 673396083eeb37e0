"""Language models by name: a pulled GGUF file, one of the Hub, or one behind an address."""

import functools
import hashlib
import os
from pathlib import Path

from dialeval import files
from dialeval.errors import DataError, DialevalError, UsageError
from dialeval.models.artefact import Artefact, load, names, resolve
from dialeval.models.byte_pairs import BytePairs
from dialeval.models.cache import DiskCache, Layered, MemoryCache
from dialeval.models.gguf import Gguf
from dialeval.models.likelihood import LanguageModel, TokenModel
from dialeval.models.llama import Llama

DEFAULT = "smollm2-135m-instruct"
MISSING = f"no language model: fetch it with `dialeval models pull {DEFAULT}`"


def is_here(name: str) -> bool:
    """Say whether a language model can be opened without being fetched; only the default can be missing."""
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
    cache = Layered(MemoryCache(64 << 20), DiskCache(folder) if folder else None)
    if name.startswith(("http://", "https://")):
        from dialeval.models.echo import EchoModel

        return EchoModel.at(name)
    if name.startswith("hub:"):
        from dialeval.models.causal import open_causal

        return open_causal(name.removeprefix("hub:"), cache)
    path, sha = (Path(name), files.sha256(name)) if name.endswith(".gguf") else _weights(name)
    file = Gguf(path)
    llama = Llama(file)
    return TokenModel(sha, llama.limit, BytePairs(file), llama.log_likelihoods, cache)


def _weights(name: str) -> tuple[Path, str]:
    """Find the GGUF file of an artefact, and its SHA-256."""
    folder = resolve(name)
    found = _checked(str(folder), hashlib.sha256(_listing(folder)).hexdigest())
    file = found.config.get("model_file")
    if not isinstance(file, str):
        raise DataError("names no file", file=found.folder / "config.json", field="model_file")
    return found.path(file), found.files[file]


def _listing(folder: Path) -> bytes:
    """Tell one state of a folder from another: a signature is asked for often, its hashes cost a second."""
    try:
        return repr(
            sorted((one.name, one.stat().st_size, one.stat().st_mtime_ns) for one in folder.iterdir())
        ).encode()
    except OSError:
        return b""


@functools.lru_cache(maxsize=8)
def _checked(folder: str, state: str) -> Artefact:
    return load(folder, "gguf.v1")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_opened.cache_clear)
