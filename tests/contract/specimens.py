"""Good files that take some making: archives, artefacts of every class, an index, a tiny language model.

All of them are as small as their format allows, so that many thousand changed ones can be tried.
"""

import functools
import gzip
import hashlib
import io
import json
import random
import shutil
import struct
import sys
import tarfile
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
_WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefgh"]
_HEADS = [{"name": "quality", "kind": "regression", "classes": []}]


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


def _chat() -> Any:
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


_NAMES = ("m/a", "../a", "/a", "a\\b", "C:a", "a/../../b", "a\x00b", "x" * 300, "", ".", "m/./a", "\udc80")
_KINDS = (tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE)


def any_archive(data: bytes, chance: random.Random) -> bytes:
    """Change bytes, also behind gzip, or pack members with names, kinds and sizes that none should have."""
    way = chance.randrange(4)
    if way < 2:
        return any_gzip(data, chance) if data[:2] == b"\x1f\x8b" else any_bytes(data, chance)
    out = io.BytesIO()
    if way == 2:
        with zipfile.ZipFile(out, "w", chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as file:
            for name in chance.sample(_NAMES[:-1], 2):
                member = zipfile.ZipInfo("x")
                member.filename = name
                member.external_attr = chance.choice((0, 0o120777, 0o100644, 0o40755, 0o20644)) << 16
                file.writestr(member, chance.choice(TOKENS) * chance.choice((1, 50)))
    else:
        with tarfile.open(fileobj=out, mode=chance.choice(("w", "w:gz"))) as tar:
            for name in chance.sample(_NAMES, 2):
                info = tarfile.TarInfo(name)
                info.type, info.linkname = chance.choice(_KINDS), "/etc/passwd"
                content = chance.choice(TOKENS)
                info.size = len(content) if info.isreg() else 0
                tar.addfile(info, io.BytesIO(content))
    made = out.getvalue()
    return any_bytes(made, chance) if chance.random() < 0.5 else made


# --- weights ------------------------------------------------------------------------------------------------


def weights() -> list[bytes]:
    from dialeval.models.tensors import shrink, write_tensors

    path = room() / "w.safetensors"
    full = {"a": np.arange(64, dtype="f4").reshape(2, 32), "b": np.ones(3, "f4"), "n": np.arange(2)}
    write_tensors(path, shrink(full, "int8"), {"note": "x"})
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


def _gguf(fields: dict[str, Any]) -> bytes:
    import tiny_language_model as tiny

    path = room() / "written.gguf"
    return tiny.write_gguf(path, fields, _model_tensors(len(tiny.vocabulary()))).read_bytes()


def ggufs() -> list[bytes]:
    bos = {"tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.add_bos_token": True}
    return [_gguf(_model_fields()), _gguf(_model_fields() | bos | {"tokenizer.ggml.pre": "llama-bpe"})]


def any_gguf(data: bytes, chance: random.Random) -> bytes:
    """Say something else under one of its names, or change bytes, mostly those of the head."""
    if chance.random() < 0.5:
        head = chance.choice((64, 400, 4000, len(data)))
        return any_bytes(data[:head], chance) + data[head:]
    more = {"general.alignment": 32, "llama.rope.freq_base": 1e4, "tokenizer.ggml.bos_token_id": 0}
    more |= {"tokenizer.ggml.add_bos_token": True, "llama.rope.dimension_count": 4}
    fields = any_value({**_model_fields(), **more}, chance)
    try:
        return _gguf(fields)
    except (KeyError, struct.error, AttributeError, UnicodeEncodeError, IndexError, TypeError, OverflowError):
        return any_bytes(data, chance)


def ask(path: Path) -> object:
    """Open a GGUF file as the metrics do, and ask it something."""
    from dialeval.models.byte_pairs import BytePairs
    from dialeval.models.cache import Layered, MemoryCache
    from dialeval.models.gguf import Gguf
    from dialeval.models.likelihood import Question, TokenModel
    from dialeval.models.llama import Llama
    from dialeval.models.templates import templates

    file = Gguf(path)
    llama = Llama(file)
    cache = Layered(MemoryCache(1 << 16), None)
    model = TokenModel("0" * 64, llama.limit, BytePairs(file), llama.log_likelihoods, cache)
    questions = [Question(1, "user"), Question(None, "user")]
    return [
        one.totals
        for template in templates().values()
        for one in model.answer(_chat(), questions, ["a", "b c"], template, 48)
    ]


# --- artefacts ----------------------------------------------------------------------------------------------


def tokenizers() -> list[bytes]:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    made = Tokenizer(models.WordLevel({word: place for place, word in enumerate(_WORDS)}, "[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return [made.to_str().encode()]


def _shape() -> Any:
    from dialeval.models.shape import Shape

    return Shape(vocabulary=len(_WORDS), width=8, layers=1, heads=2, inner=8, positions=16, segments=2)


def _random(sizes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    chance = np.random.default_rng(4)
    return {name: chance.normal(0, 0.2, size).astype("f4") for name, size in sizes.items()}


def _save(kind: str, fields: dict[str, Any], tensors: dict[str, Any] | None, *, words: bool = False) -> Path:
    from dialeval.models import artefact
    from dialeval.models.card import Card
    from dialeval.models.tensors import write_tensors

    files: dict[str, Any] = {}
    if tensors is not None:
        files["model.safetensors"] = lambda path: write_tensors(path, tensors)
    if words:
        files["tokenizer.json"] = tokenizers()[0]
    card = Card("A specimen", "For tests.", licence="mit", command="none")
    return artefact.save(room() / kind, kind, fields, files, card).folder


_SHIPPED = {
    "blend.v1": "dialeval-quality",
    "dialogue-scorer.v1": "dialeval-turn-quality",
    "reactions.v1": "dialeval-user-reaction",
    "segment-acts.v1": "dialeval-segment-act",
    "coherence.v2": "dialeval-coherence",
}


@functools.cache
def artefacts() -> dict[str, Path]:
    """Return a good artefact of every class: small ones made here, and shipped ones that are small."""
    from dialeval.dialogues.acts import ACTS
    from dialeval.models.act_flows import FIRST
    from dialeval.models.artefact import resolve

    shape = _shape()
    acts = shape.fields() | {"vocabulary": FIRST + len(ACTS)}
    layout = {"cls": 2, "sep": 3, "pair_separator": [3], "segments": True}
    tops = {"heads.quality.weight": (1, shape.width), "heads.quality.bias": (1,)}
    encoder = {"name": "tiny", "shape": shape.fields(), "pooling": "mean", "unit": True}
    pairs = {"name": "pairs", "shape": shape.fields(), "limit": 12, "layout": layout, "heads": _HEADS}
    table = shape.weights() | {"embeddings.tokens": (FIRST + len(ACTS), shape.width)}
    table |= {"heads.act.weight": (len(ACTS), shape.width), "heads.act.bias": (len(ACTS),)}
    model = room() / "m.gguf"
    model.write_bytes(ggufs()[0])
    return {
        **{kind: Path(shutil.copytree(resolve(name), room() / kind)) for kind, name in _SHIPPED.items()},
        "coherence.v1": _older(resolve(_SHIPPED["coherence.v2"])),
        "encoder.v1": _save("encoder.v1", encoder, _random(shape.weights()), words=True),
        "pair-scorer.v1": _save("pair-scorer.v1", pairs, _random(shape.weights() | tops), words=True),
        "act-bert.v1": _save("act-bert.v1", {"acts": list(ACTS), "shape": acts}, _random(table)),
        "gguf.v1": _save_gguf(model),
    }


def _older(newer: Path) -> Path:
    """Make a head of coherence as the first version had it, with as many inputs as that had."""
    from dialeval.models.tensors import expand, read_tensors

    config = json.loads((newer / "config.json").read_bytes())
    tensors = expand(read_tensors(newer / "model.safetensors"))
    for name in ("input.mean", "input.scale", "layers.0.weight"):
        tensors[name] = tensors[name][..., :3560]
    return _save("coherence.v1", {key: config[key] for key in config.keys() - {"class", "dialeval"}}, tensors)


def _save_gguf(model: Path) -> Path:
    from dialeval.models import artefact
    from dialeval.models.card import Card

    card = Card("A specimen", "For tests.", licence="mit", command="none")
    files = {"m.gguf": model.read_bytes()}
    return artefact.save(room() / "gguf.v1", "gguf.v1", {"model_file": "m.gguf"}, files, card).folder


def _blend(folder: Path) -> object:
    from dialeval.models.blend import LEVELS, Blend

    found = Blend.load(folder)
    return [found.adds(level, {"coherence": 1e300, "tone": None}) for level in LEVELS]


def _turns(folder: Path) -> object:
    from dialeval.models.dialogue_scorer import DialogueScorer

    return DialogueScorer.load(folder).score([_chat()])


def _reactions(folder: Path) -> object:
    from dialeval.models.reactions import Exchange, Reactions

    return Reactions.load(folder).sentiments([Exchange("a", "b", "c")])


def _segment_acts(folder: Path) -> object:
    from dialeval.models.segment_acts import SegmentActs

    return SegmentActs.load(folder).label([_chat()])


def _coherence(folder: Path) -> object:
    from dialeval.models.coherence import CoherenceScorer

    return CoherenceScorer.load(folder).score([_chat()])


def _encoder(folder: Path) -> object:
    from dialeval.models.encoder import Encoder

    found = Encoder.load(folder)
    return found.vectors(["a b", "", "x" * 100]), found.tokens(["c"])


def _pairs(folder: Path) -> object:
    from dialeval.models.pairs import PairScorer

    return PairScorer.load(folder).score([(["a b"], "c"), ([], "")])


def _act_bert(folder: Path) -> object:
    from dialeval.models.act_flows import ActBert, Flow

    found, flow = ActBert.load(folder), Flow(("inform", "question"), (0, 1))
    return found.vectors([flow, Flow((), ())]), found.shares([flow], [0])


def _language_model(folder: Path) -> object:
    from dialeval.models.language_model import open_model

    return open_model(str(folder)).sha


USES: dict[str, Callable[[Path], object]] = {
    "blend.v1": _blend,
    "dialogue-scorer.v1": _turns,
    "reactions.v1": _reactions,
    "segment-acts.v1": _segment_acts,
    "coherence.v1": _coherence,
    "coherence.v2": _coherence,
    "encoder.v1": _encoder,
    "pair-scorer.v1": _pairs,
    "act-bert.v1": _act_bert,
    "gguf.v1": _language_model,
}
"""How an artefact of each class is loaded and then used, by the one way that metrics have."""


def use(kind: str, folder: Path) -> object:
    return USES[kind](folder)


# --- models as the Hub has them, and indexes ----------------------------------------------------------------


def hub_config() -> bytes:
    import model_files

    return json.dumps(model_files.CONFIG | {"max_position_embeddings": 16, "layer_norm_eps": 1e-12}).encode()


@functools.cache
def _hub_files() -> dict[str, bytes]:
    import model_files

    return model_files.tiny_model(room() / "hub")


def convert(config: Path, folder: Path) -> object:
    from dialeval.models.card import Card
    from dialeval.models.conversion import encoder_artefact

    (folder / "in").mkdir(parents=True)
    try:
        (folder / "in" / "model.safetensors").write_bytes(_hub_files()["model.safetensors"])
        (folder / "in" / "tokenizer.json").write_bytes(tokenizers()[0])
        shutil.copyfile(config, folder / "in" / "config.json")
        card = Card("A specimen", "For tests.", licence="mit", command="none")
        return encoder_artefact(folder / "in", folder / "out", name="tiny", card=card).sha
    finally:
        shutil.rmtree(folder)


@functools.cache
def _index() -> Path:
    from dialeval.models.index import Index

    folder = room() / "index"
    said = ["a cheap hotel", "a hotel in the centre", "a train at noon"]
    where = np.array([[3, 4], [4, 3], [0, 1]])
    documents = [json.dumps({"id": name, "messages": []}).encode() for name in ("d1", "d2", "d3")]
    Index.build(folder, ["d1", "d2", "d3"], {"words": said, "where": where}, documents=documents)
    return folder


def index_file(name: str) -> bytes:
    return (_index() / name).read_bytes()


def index_parts() -> list[bytes]:
    """Each file of the rows, its name in a line before it."""
    return [
        one.name.encode() + b"\n" + one.read_bytes()
        for one in sorted((_index() / "parts").rglob("*"))
        if one.is_file()
    ]


def open_index(path: Path, name: str | None, folder: Path) -> object:
    """Open an index that has another file in it, whose hash is right all the same, and search it."""
    from dialeval.models.index import Index

    shutil.copytree(_index(), folder)
    try:
        if name is not None:
            (folder / name).write_bytes(_signed(path.read_bytes()))
        else:
            called, _, content = path.read_bytes().partition(b"\n")
            (held,) = (folder / "parts").iterdir()
            if called.decode("latin-1") not in {one.name for one in held.iterdir()}:
                return None
            (held / called.decode()).write_bytes(content)
            config = json.loads((folder / "config.json").read_bytes())
            entry = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            config["segments"][0]["files"][called.decode()] = entry
            (folder / "config.json").write_bytes(_signed(json.dumps(config).encode()))
        index = Index.verify(folder)
        found: list[object] = [index.search(["a cheap room"], 2, column="words")]
        found.append(index.search(np.array([[0, 2]]), 2, column="where"))
        return [*found, index.documents(["d1", "d3"]), index.dialogues(["d2"])]
    finally:
        shutil.rmtree(folder)


def _signed(data: bytes) -> bytes:
    """Give the config of an index the hash it must have, if it is still a config at all."""
    import msgspec

    from dialeval.models.index.layout import Config

    try:
        config = msgspec.json.decode(data, type=Config).signed()
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return data
    return msgspec.json.encode(config)


# --- what other programs say --------------------------------------------------------------------------------


def an_explanation() -> bytes:
    from dialeval.metrics.explanation import Explanation, Side, align, to_json

    side = Side.of(_chat())
    pairs = align(side.labels, side.labels)
    made = Explanation("d", "flow", 0.5, {"acts": 0.25, "x": None}, side, side, pairs, "note", "overall")
    return to_json(made) + b"\n"


def annotated(folder: Path) -> Any:
    """Make a study that one person has answered a part of."""
    from dialeval.annotation import Study, create, read_scheme, submission
    from dialeval.annotation.answers import parse
    from dialeval.dialogues import dialogue

    chats = [dialogue(_CHAT[:2], f"d{number}", system="bot") for number in range(3)]
    create(folder, read_scheme("turn-quality"), chats, ["ann"]).close()
    study = Study(folder)
    place = submission.current(study, "ann")
    assert place is not None
    seat = submission.look(study, "ann", place)
    assert seat is not None
    given, _ = parse(study.scheme, {f"q{number}": ["1"] for number in range(6)}, [], 0)
    submission.answer(study, "ann", seat, given, "once", 1.0)
    return study


def answers(study: Any, tool: str) -> bytes:
    from dialeval.annotation.export import rendered
    from dialeval.annotation.snapshot import snapshot

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
    from dialeval.models import answers, endpoint
    from dialeval.models.echo import EchoModel

    class Server(endpoint.Endpoint):
        def post(self, *_: object, **__: object) -> bytes:
            return said

    asked = EchoModel.at("http://localhost:1/v1")
    object.__setattr__(asked, "endpoint", Server("http://localhost:1/v1"))
    ways: tuple[Callable[[], object], ...] = (
        lambda: answers._answered(said, "x"),
        lambda: endpoint._text(said, "x"),
        lambda: asked._ask("ab", "cd"),
    )
    found: list[object] = []
    for way in ways:
        try:
            found.append(way())
        except DialevalError as error:
            found.append(str(error))
    return found
