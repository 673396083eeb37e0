"""Artefacts of every class, an index and a model as the Hub has it: as small as they get."""

import functools
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from specimens import chat, ggufs, room

_WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefgh"]
_HEADS = [{"name": "quality", "kind": "regression", "classes": []}]


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
    from dialeval.models.shape import EncoderShape

    return EncoderShape(vocabulary=len(_WORDS), width=8, layers=1, heads=2, inner=8, positions=16, segments=2)


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
    "blend.v2": "dialeval-quality",
    "dialogue-scorer.v1": "dialeval-turn-quality",
    "outcome.v1": "dialeval-outcome",
    "reactions.v1": "dialeval-user-reaction",
    "segment-acts.v1": "dialeval-segment-act",
    "coherence.v2": "dialeval-coherence",
    "segmenter.v1": "dialeval-segmenter",
    "span-acts.v1": "dialeval-span-act",
    "baseline.v1": "dialeval-predictive-engagement",
    "fault-reader.v1": "dialeval-fault-reader",
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
        "encoder.v1": _save("encoder.v1", encoder, _random(shape.weights()), words=True),
        "pair-scorer.v1": _save("pair-scorer.v1", pairs, _random(shape.weights() | tops), words=True),
        "act-bert.v1": _save("act-bert.v1", {"acts": list(ACTS), "shape": acts}, _random(table)),
        "gguf.v1": _save_gguf(model),
    }


def _save_gguf(model: Path) -> Path:
    from dialeval.models import artefact
    from dialeval.models.card import Card

    card = Card("A specimen", "For tests.", licence="mit", command="none")
    files = {"m.gguf": model.read_bytes()}
    return artefact.save(room() / "gguf.v1", "gguf.v1", {"model_file": "m.gguf"}, files, card).folder


def _blend(folder: Path) -> object:
    from dialeval.models.blend import LEVELS, Blend

    found = Blend.load(folder)
    return [found.adds(level, {"coherence": 1e300, "tone": None}, {"chat": 1.0}) for level in LEVELS]


def _turns(folder: Path) -> object:
    from dialeval.models.dialogue_scorer import DialogueScorer

    return DialogueScorer.load(folder).score([chat()])


def _reactions(folder: Path) -> object:
    from dialeval.models.reactions import Exchange, Reactions

    return Reactions.load(folder).sentiments([Exchange("a", "b", "c")])


def _outcome(folder: Path) -> object:
    from dialeval.metrics.outcome import Outcome

    return [row.value for row in Outcome(model=str(folder)).score([chat()])]


def _segment_acts(folder: Path) -> object:
    from dialeval.models.segment_acts import SegmentActs

    return SegmentActs.load(folder).label([chat()])


def _segmenter(folder: Path) -> object:
    from dialeval.models.segment_acts import Segmenter

    return Segmenter.load(folder).cut(["yes I do what about you", "", "a b"])


def _span_acts(folder: Path) -> object:
    from dialeval.models.segment_acts import SpanActs

    return SpanActs.load(folder).label([chat()])


def _baseline(folder: Path) -> object:
    from dialeval.models.baselines import Baseline
    from dialeval.models.turn_vectors import turn_vectors

    found = Baseline.load(folder)
    return found.replies(turn_vectors(found.reader.encoder, [chat()])[0], [1])


def _coherence(folder: Path) -> object:
    from dialeval.models.coherence import CoherenceScorer

    return CoherenceScorer.load(folder).score([chat()])


def _faults(folder: Path) -> object:
    from dialeval.models.fault_features import reply_features
    from dialeval.models.fault_reader import FaultReader

    reader = FaultReader.load(folder)
    found = [one for _, replies in reply_features(reader, [chat()]) for one in replies]
    return [some.probability(one.values) for one in found for some in reader.weights.values()]


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
    "blend.v2": _blend,
    "dialogue-scorer.v1": _turns,
    "outcome.v1": _outcome,
    "reactions.v1": _reactions,
    "segment-acts.v1": _segment_acts,
    "segmenter.v1": _segmenter,
    "span-acts.v1": _span_acts,
    "baseline.v1": _baseline,
    "coherence.v2": _coherence,
    "fault-reader.v1": _faults,
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


def index_rows() -> bytes:
    (rows,) = (_index() / "parts").iterdir()
    return rows.read_bytes()


def open_index(path: Path, name: str | None, folder: Path) -> object:
    """Open an index that has another file in it, whose hash is right all the same, and search it."""
    from dialeval.models.index import Index

    shutil.copytree(_index(), folder)
    try:
        if name is not None:
            (folder / name).write_bytes(_signed(path.read_bytes()))
        else:
            content = path.read_bytes()
            (rows,) = (folder / "parts").iterdir()
            rows.write_bytes(content)
            config = json.loads((folder / "config.json").read_bytes())
            entry = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            config["segments"][0]["file"] = entry
            (folder / "config.json").write_bytes(_signed(json.dumps(config).encode()))
        index = Index.open(folder)
        found: list[object] = [index.search(["a cheap room"], 2, column="words")]
        found.append(index.search(np.array([[0, 2]]), 2, column="where"))
        return [*found, index.documents(["d1", "d3"]), index.dialogues(["d2"])]
    finally:
        shutil.rmtree(folder)


def _signed(data: bytes) -> bytes:
    """Give the config of an index the hash it must have, if it is still a config at all."""
    import msgspec

    from dialeval.models.index.layout import IndexConfig

    try:
        config = msgspec.json.decode(data, type=IndexConfig).signed()
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return data
    return msgspec.json.encode(config)
