"""Good files that take some making: archives, weights, a tiny language model, answers of other programs.

All of them are as small as their format allows, so that many thousand changed ones can be tried.
"""

import functools
import gzip
import io
import json
import random
import shutil
import struct
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mutation import TOKENS, any_bytes, any_value

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))  # tiny_language_model

_CHAT = [("user", "a b"), ("assistant", "c d"), ("user", "b"), ("assistant", "")]


def memory() -> str | None:
    """Return a place that is no disk, where the system has one: files come and go by the thousand here."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


@functools.cache
def room() -> Path:
    """Return a folder of this process for what is made once."""
    import atexit

    made = Path(tempfile.mkdtemp(prefix="dialeval-specimens-", dir=memory()))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def chat() -> Any:
    from dialeval.dialogues import dialogue

    return dialogue(_CHAT, "d", system="bot")


def gzipped(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def gunzipped(data: bytes) -> bytes:
    return gzip.decompress(data)


def any_gzip(data: bytes, chance: random.Random) -> bytes:
    """Change bytes of the packed file, or of what is in it."""
    try:
        inside = gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        return any_bytes(data, chance)
    return any_bytes(data, chance) if chance.random() < 0.5 else gzipped(any_bytes(inside, chance))


_NAMES = ("m/a", "../a", "/a", "a\\b", "C:a", "a/../../b", "a\x00b", "x" * 300, "", ".", "m/./a")


def any_archive(data: bytes, chance: random.Random) -> bytes:
    """Change bytes, or pack members with names and kinds that none should have."""
    if chance.random() < 0.5:
        return any_bytes(data, chance)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as file:
        for name in chance.sample(_NAMES, 2):
            member = zipfile.ZipInfo("x")
            member.filename = name
            member.external_attr = chance.choice((0, 0o120777, 0o100644, 0o40755, 0o20644)) << 16
            file.writestr(member, chance.choice(TOKENS) * chance.choice((1, 50)))
    made = out.getvalue()
    return any_bytes(made, chance) if chance.random() < 0.5 else made


# --- weights ------------------------------------------------------------------------------------------------


def weights() -> list[bytes]:
    from dialeval.models.tensors import shrink, write_tensors

    path = room() / "w.safetensors"
    full = {"a": np.arange(64, dtype="f4").reshape(2, 32), "b": np.ones(3, "f4"), "n": np.arange(2)}
    write_tensors(path, shrink(full, "int8"), layout="x")
    made = [path.read_bytes()]
    header = json.dumps({"x": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    return [*made, struct.pack("<Q", len(header)) + header + b"\x80\x3f\x00\xc0"]


# --- language models ----------------------------------------------------------------------------------------

_WIDTH, _INNER = 8, 16


def _model_fields() -> dict[str, Any]:
    import tiny_language_model as tiny

    sizes = {"embedding_length": _WIDTH, "feed_forward_length": _INNER, "block_count": 1}
    sizes |= {"attention.head_count": 2, "attention.head_count_kv": 1, "context_length": 64}
    return tiny.fields() | {f"llama.{name}": size for name, size in sizes.items()}


def _model_tensors(vocabulary: int) -> dict[str, Any]:
    sizes: dict[str, tuple[int, ...]] = {"token_embd": (vocabulary, _WIDTH), "output_norm": (_WIDTH,)}
    sizes |= {f"blk.0.{name}": (_WIDTH,) for name in ("attn_norm", "ffn_norm")}
    sizes |= {f"blk.0.{name}": (_WIDTH, _WIDTH) for name in ("attn_q", "attn_output")}
    sizes |= {f"blk.0.{name}": (_WIDTH // 2, _WIDTH) for name in ("attn_k", "attn_v")}
    sizes |= {"blk.0.ffn_gate": (_INNER, _WIDTH), "blk.0.ffn_up": (_INNER, _WIDTH)}
    chance = np.random.default_rng(3)
    sizes["blk.0.ffn_down"] = (_WIDTH, _INNER)
    return {f"{name}.weight": chance.normal(size=size).astype("f4") for name, size in sizes.items()}


def gguf(change: dict[str, Any], filled: dict[str, float] | None = None) -> bytes:
    """Write a tiny model that says something else of itself, or has weights of one value."""
    import tiny_language_model as tiny

    tensors = _model_tensors(len(tiny.vocabulary()))
    for name, value in (filled or {}).items():
        tensors[name] = np.full_like(tensors[name], value)
    return tiny.write_gguf(room() / "written.gguf", _model_fields() | change, tensors).read_bytes()


def ggufs() -> list[bytes]:
    bos = {"tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.add_bos_token": True}
    return [gguf({}), gguf(bos | {"tokenizer.ggml.pre": "llama-bpe"})]


def any_gguf(data: bytes, chance: random.Random) -> bytes:
    """Say something else under one of its names, or change bytes, mostly those of the head."""
    if chance.random() < 0.5:
        head = chance.choice((64, 400, 4000, len(data)))
        return any_bytes(data[:head], chance) + data[head:]
    more = {"general.alignment": 32, "llama.rope.freq_base": 1e4, "tokenizer.ggml.bos_token_id": 0}
    more |= {"tokenizer.ggml.add_bos_token": True, "llama.rope.dimension_count": 4}
    fields = any_value({**_model_fields(), **more}, chance)
    try:
        return gguf(fields)
    except (KeyError, struct.error, AttributeError, UnicodeEncodeError, IndexError, TypeError, OverflowError):
        return any_bytes(data, chance)


def ask(path: Path) -> object:
    """Open a GGUF file as the metrics do, and ask it something."""
    from dialeval.models.cache import Cache
    from dialeval.models.gguf import BytePairs, Gguf
    from dialeval.models.likelihood import Position, TokenModel, templates
    from dialeval.models.llama import Llama

    file = Gguf(path)
    llama = Llama(file)
    cache = Cache(1 << 16)
    model = TokenModel("0" * 64, llama.limit, BytePairs(file), llama.log_likelihoods, cache)
    questions = [Position(1, "user"), Position(None, "user")]
    return [
        one.totals
        for template in templates().values()
        for one in model.answer(chat(), questions, ["a", "b c"], template, 48)
    ]


# --- what other programs say --------------------------------------------------------------------------------


def an_explanation() -> bytes:
    from dialeval.metrics.explanation import Explanation, Side, align, to_json

    side = Side.of(chat())
    pairs = align(side.labels, side.labels)
    made = Explanation("d", "flow", 0.5, {"acts": 0.25, "x": None}, side, side, pairs, "note", "overall")
    return to_json(made) + b"\n"


def annotated(folder: Path) -> Any:
    """Make a study that one person has answered a part of."""
    from dialeval.annotation import AnnotationProject, assignment, create, read_scheme
    from dialeval.annotation.answers import parse
    from dialeval.dialogues import dialogue

    chats = [dialogue(_CHAT[:2], f"d{number}", system="bot") for number in range(3)]
    create(folder, read_scheme("turn-quality"), chats, ["ann"]).close()
    study = AnnotationProject(folder)
    place = assignment.current(study, "ann")
    assert place is not None
    seat = assignment.assignment_at(study, "ann", place)
    assert seat is not None
    given, _ = parse(study.scheme, {f"q{number}": ["1"] for number in range(6)}, [], 0)
    assignment.answer(study, "ann", seat, given, "once", 1.0)
    return study


def answers(study: Any, tool: str) -> bytes:
    from dialeval.annotation.export import rendered
    from dialeval.annotation.project import snapshot

    return rendered(snapshot(study), "label-studio.json" if tool == "label-studio" else "potato.jsonl")


def server_answers() -> list[bytes]:
    top = [{"token": "4", "logprob": -0.1}, {"token": "5", "logprob": -2.0}]
    tokens = {"content": [{"token": "4", "logprob": -0.1, "top_logprobs": top}]}
    chat = {"choices": [{"message": {"role": "assistant", "content": "4"}, "logprobs": tokens}]}
    echo = {"choices": [{"logprobs": {"text_offset": [0, 2, 4], "token_logprobs": [None, -1.5, -2]}}]}
    return [json.dumps(chat).encode(), json.dumps(echo).encode()]


def hear(said: bytes) -> object:
    """Read what a server answered in each of the three ways that it is asked."""
    from dialeval.errors import DialevalError
    from dialeval.models import endpoint
    from dialeval.models.language_model import EndpointModel

    class Server(endpoint.Endpoint):
        def post(self, *_: object, **__: object) -> bytes:
            return said

    asked = EndpointModel.at("http://localhost:1/v1")
    object.__setattr__(asked, "endpoint", Server("http://localhost:1/v1"))
    ways: tuple[Callable[[], object], ...] = (
        lambda: endpoint._answered(said, "x"),
        lambda: asked._ask("ab", "cd"),
    )
    found: list[object] = []
    for way in ways:
        try:
            found.append(way())
        except DialevalError as error:
            found.append(str(error))
    return found
