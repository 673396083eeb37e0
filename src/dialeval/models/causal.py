"""Any causal language model that transformers can load, from the Hub or from a folder (extra `[train]`)."""

import contextlib
import functools
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dialeval import files
from dialeval.errors import DataError, UsageError
from dialeval.models.cache import Cache
from dialeval.models.gguf import Floats
from dialeval.models.likelihood import Place, TokenModel
from dialeval.models.tokenization import check_growth

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
    with _readable(name):
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
    """Name a model in signatures: a folder by its content, one of the Hub by its id and revision."""
    folder = Path(name)
    if not folder.is_dir():
        return name
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.name in _COUNTED or path.suffix == ".safetensors":
            digest.update(f"{path.name} {files.sha256(path)}\n".encode())
    return digest.hexdigest()[:12]


class _Words:
    """The tokenizer of a model, without what it would put around a text by itself."""

    def __init__(self, tokenizer: Any, vocabulary: int, name: str) -> None:
        from tokenizers import Tokenizer

        self._vocabulary, self._name = vocabulary, name
        content = json.loads(tokenizer.backend_tokenizer.to_str()) | {"truncation": None, "padding": None}
        packed = json.dumps(content)
        check_growth(packed.encode(), name)
        self._marks, self._words = Tokenizer.from_str(packed), Tokenizer.from_str(packed)
        self._words.encode_special_tokens = True

    def first(self) -> list[int]:
        """Return what every text begins with: nothing but what the template says."""
        return []

    def marks(self, text: str) -> list[int]:
        """Read what a template says."""
        return self._known(self._marks.encode(text, add_special_tokens=False).ids)

    def words(self, texts: Sequence[str]) -> list[list[int]]:
        """Read what people say."""
        every = self._words.encode_batch(list(texts), add_special_tokens=False)
        return [self._known(one.ids) for one in every]

    def _known(self, ids: Sequence[int]) -> list[int]:
        if max(ids, default=0) >= self._vocabulary:
            what = f"its tokenizer gives the token {max(ids)}, where the model knows {self._vocabulary}"
            raise DataError(what, file=self._name)
        return list(ids)


def _compute(model: Any, text: Sequence[int], places: Sequence[Place]) -> list[list[Floats]]:
    """Read the text once; at every place, all continuations side by side go on from what was read."""
    import torch

    with torch.inference_mode():
        read = model(torch.tensor([list(text)]), use_cache=True)
        first = torch.log_softmax(read.logits[0], dim=-1)
        found = []
        for place, tree in places:
            said = tree.continuations
            width = max(map(len, said))
            ids = torch.zeros((len(said), max(1, width - 1)), dtype=torch.int64)
            for row, one in zip(ids, said, strict=True):
                row[: len(one) - 1] = torch.tensor(one[:-1], dtype=torch.int64)
            held = _up_to(read.past_key_values, place, len(said))
            mask = torch.ones((len(said), place + ids.shape[1]), dtype=torch.int64)
            logits = model(ids, past_key_values=held, attention_mask=mask, use_cache=True).logits
            rest = torch.log_softmax(logits, dim=-1)
            found.append([_picked(first[place - 1], rest[row], one) for row, one in enumerate(said)])
    return found


def _picked(first: Any, rest: Any, said: Sequence[int]) -> Floats:
    values = [float(first[said[0]])] if said else []
    values += [float(rest[number, token]) for number, token in enumerate(said[1:])]
    return np.array(values, np.float32)


def _up_to(past: Any, place: int, copies: int) -> Any:
    """Take what was read up to a place, once for every continuation; the memory is shared until written."""
    from transformers import DynamicCache

    held = DynamicCache()
    for number, layer in enumerate(past.layers):
        keys, values = (one[:, :, :place].expand(copies, -1, -1, -1) for one in (layer.keys, layer.values))
        held.update(keys, values, number)
    return held


@contextlib.contextmanager
def _readable(name: str) -> Iterator[None]:
    from transformers.utils import logging as theirs

    logging: Any = theirs
    loud, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    except (OSError, ValueError) as error:
        first = str(error).strip().partition("\n")[0]
        fix = "name a folder with config.json, *.safetensors and tokenizer.json, or a causal model of the Hub"
        raise DataError(f"no language model there: {first}", file=name, fix=fix) from None
    finally:
        logging.set_verbosity(loud)
        if bars:
            logging.enable_progress_bar()
