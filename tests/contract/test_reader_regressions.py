"""Files that once broke a reader, found by the fuzzers: each is refused by a message now."""

import gzip
import json
import struct
from pathlib import Path
from typing import Any

import pytest
import specimens
import tiny_artefacts
from reader import lines, parquet, parquet_of
from readers import READERS

from dialeval.dialogues import formats
from dialeval.errors import DialevalError
from dialeval.models.conversion import plain_tokenizer

DIGITS = b"9" * 5000
DEEP = b"[" * 5000
CHAT = {"id": "a", "messages": [{"role": "user", "content": "Hi"}]}
OURS = {"id": "a", "system": "s", "messages": [{"role": "user", "content": "Hi", "meta": "{}"}]}
FAR = 10**15  # seconds: a time that no calendar has


def at(seconds: int) -> Any:
    import pyarrow as pa

    return pa.scalar(seconds, pa.timestamp("s"))


def config(kind: str, **change: Any) -> bytes:
    found = json.loads((tiny_artefacts.artefacts()[kind] / "config.json").read_bytes())
    return json.dumps(found | change).encode()


def hub(**change: Any) -> bytes:
    return json.dumps(json.loads(tiny_artefacts.hub_config()) | change).encode()


def study(**change: Any) -> bytes:
    return json.dumps(json.loads(READERS["study.json"].seeds()[0]) | change).encode()


def gguf(**change: Any) -> bytes:
    return specimens.gguf({name.replace("__", "."): value for name, value in change.items()})


def unnamed(table: bytes, column: bytes) -> bytes:
    """Give a column of a Parquet file a name that is no text."""
    return table.replace(column, b"\x9f" + column[1:])


def broken_gzip(content: bytes) -> bytes:
    packed = bytearray(gzip.compress(content, mtime=0))
    packed[-8] ^= 1  # of the checksum
    return bytes(packed)


def index_config() -> bytes:
    found = json.loads(tiny_artefacts.index_file("config.json"))
    return json.dumps(found | {"dialeval": "\ud800"}).encode()


def plan(old: bytes, new: bytes) -> bytes:
    return READERS["batch: run.json"].seeds()[0].replace(old, new)


def unnamed_mark() -> bytes:
    found = json.loads(tiny_artefacts.tokenizers()[0])
    found["post_processor"]["special_tokens"] = {}
    return json.dumps(found).encode()


def no_text() -> bytes:
    """Return a table whose text column holds bytes that are none."""
    import pyarrow as pa

    row = dict.fromkeys(("system", "source", "dimension", "note"), "x")
    table = pa.Table.from_pylist([{**row, "turn": 1, "value": 0.5}])
    text = pa.array([b"\xe2("], pa.binary()).view(pa.string())
    return parquet_of(table.append_column("dialogue_id", text))


def more_rows() -> bytes:
    """Return a table that claims in one place to have more rows than in the others."""
    table = parquet([{"conversation": f"c{number}", "score": number} for number in range(77)])
    before, _, after = table.rpartition(b"\x9a\x01")  # 77, as the footer writes it
    return before + b"\xfe\x7f" + after


def other_disk() -> bytes:
    """Return a zip file that says it goes on on another disk."""
    return struct.pack("<4sLQL", b"PK\x06\x07", 1, 0, 2) + struct.pack("<4s4H2LH", b"PK\x05\x06", *[0] * 7)


def foreign_mark() -> bytes:
    found = json.loads(config("pair-scorer.v1"))
    found["layout"]["cls"] = found["shape"]["vocabulary"]
    return json.dumps(found).encode()


CASES: list[tuple[str, Any]] = [
    ("scores as Parquet", no_text),
    ("foreign columns, Parquet", more_rows),
    ("archives", other_disk),
    ("artefact pair-scorer.v1: config.json", foreign_mark),
    ("dialogues as JSON lines", lambda: b'{"messages": [{"role": "user", "content": ' + DIGITS + b"}]}"),
    ("dialogues as JSON lines", lambda: lines(CHAT) + b'{"id": "b", "messages": [], "meta": ' + DEEP),
    ("dialogues as JSON", lambda: b'[{"id": ' + DIGITS + b"}]"),
    ("dialogues as JSON", lambda: b'{"sng0073": [' + DIGITS + b"]}"),
    ("gzipped dialogues", lambda: broken_gzip(lines(CHAT))),
    ("votes", lambda: broken_gzip(READERS["votes"].seeds()[0])),
    ("rubrics", lambda: broken_gzip(READERS["rubrics"].seeds()[0])),
    ("dialogues as CSV", lambda: ",".join(formats.tables.OURS).encode() + b"\na,0,user,Hi,s,,[\n"),
    ("dialogues as CSV", lambda: ",".join(formats.tables.OURS).encode() + b"\na,0,user,Hi,s,,[1]\n"),
    (
        "dialogues as Parquet",
        lambda: parquet([{**OURS, "references": ["x"], "meta": ["x"]}], {b"dialeval": b"1"}),
    ),
    ("dialogues as Parquet", lambda: parquet([{"id": "a", "messages": None}], {b"dialeval": b"1"})),
    ("dialogues as Parquet", lambda: parquet([{**CHAT, "at": at(FAR)}])),
    ("foreign columns, Parquet", lambda: parquet([{"conversation": "a", "score": "4", "turn": at(FAR)}])),
    ("foreign columns, Parquet", lambda: unnamed(parquet([{"conversation": "a", "score": "4"}]), b"score")),
    ("scores as Parquet", lambda: unnamed(READERS["scores as Parquet"].seeds()[0], b"dialogue_id")),
    ("dialogues as Parquet", lambda: unnamed(parquet([CHAT]), b"messages")),
    ("task: task.toml", lambda: b"a = " + DEEP),
    ("scheme", lambda: b"a = " + DEEP),
    ("scheme", lambda: b"a = " + DIGITS),
    ("rubrics", lambda: b"a = " + DIGITS),
    ("rubrics", lambda: b'[a]\nquestion = "?"\n[a.anchors]\n' + DIGITS + b' = "x"\n'),
    ("sets of follow-ups", lambda: b"a = " + DIGITS),
    ("study.json", lambda: study(n_units="many", correlations=[{"source": "x"}])),
    ("study.json", lambda: study(n_dialogues=10**400, calibration=[7])),
    ("study.json", lambda: b'{"version": ' + DIGITS + b"}"),
    ("run.json", lambda: b"[]"),
    ("run.json", lambda: DEEP),
    ("batch: run.json", lambda: plan(b'"length"', b'"\xffength"')),
    ("batch: run.json", lambda: plan(b'"start": 0', b'"start": -1')),
    ("batch: run.json", lambda: plan(b'"start": 0', b'"start": 9223372036854775808')),
    ("batch: run.json", lambda: plan(b'"file": 0', b'"file": 3')),
    ("body of a request", lambda: b'{"dialogues": [{"messages": [], "\\ud800": 1}]}'),
    ("replies of an earlier run", lambda: DEEP + b"\n"),
    ("tokenizer", unnamed_mark),
    ("artefact dialogue-scorer.v1: config.json", lambda: config("dialogue-scorer.v1", features=[[]])),
    ("artefact dialogue-scorer.v1: config.json", lambda: config("dialogue-scorer.v1", activation={})),
    (  # nothing is fetched because a file says so
        "artefact dialogue-scorer.v1: config.json",
        lambda: config("dialogue-scorer.v1", encoder={"name": "org/name", "sha": "0" * 64}),
    ),
    (
        "artefact blend.v2: config.json",
        lambda: config("blend.v2", levels={"turn": [term(mean=10**400)], "dialogue": []}),
    ),
    ("artefact encoder.v1: config.json", lambda: config("encoder.v1", name="\ud800")),
    ("model as the Hub has it: config.json", lambda: hub(num_hidden_layers=1e308)),
    ("model as the Hub has it: config.json", lambda: DEEP),
    ("model as the Hub has it: config.json", lambda: hub(num_hidden_layers=10**12)),
    ("model as the Hub has it: config.json", lambda: hub(num_attention_heads=[None])),
    ("model as the Hub has it: config.json", lambda: hub(hidden_size="wide")),
    ("model as the Hub has it: config.json", lambda: hub(layer_norm_eps={})),
    ("index: config.json", index_config),
    ("GGUF", lambda: gguf(general__alignment="wide")),
    ("GGUF", lambda: gguf(general__alignment=0)),
    ("GGUF", lambda: gguf(llama__attention__head_count_kv="two")),
    ("GGUF", lambda: gguf(llama__attention__head_count_kv=0)),
    ("GGUF", lambda: gguf(llama__rope__freq_base=0.0)),
    ("GGUF", lambda: gguf(llama__rope__dimension_count="all")),
    ("GGUF", lambda: gguf(tokenizer__ggml__bos_token_id=100_000, tokenizer__ggml__add_bos_token=True)),
]


def term(**change: Any) -> dict[str, Any]:
    return {"part": "coherence", "mean": 0.0, "scale": 1.0, "weights": {}, **change}


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: f"{number}: {CASES[number][0]}")
def test_refused_by_a_message(number: int, tmp_path: Path) -> None:
    name, make = CASES[number]
    path = tmp_path / READERS[name].file
    path.write_bytes(make())
    with pytest.raises(DialevalError):
        READERS[name].read(path)


def test_half_a_character_in_meta_is_replaced_and_can_be_written(tmp_path: Path) -> None:
    said = {"role": "user", "content": "Hi", "seen\ud800": ["\udfff"]}
    for name, content in {
        "a.jsonl": lines({"id": "a", "messages": [said], "meta": {"k": "\ud800"}}, {"messages": [said]}),
        "a.json": json.dumps({"sng0073": [{"response": "yes", "state\ud800": {"a": "\ud800"}}]}).encode(),
    }.items():
        (tmp_path / name).write_bytes(content)
        found = list(formats.read(tmp_path / name))
        for ending in (".jsonl", ".parquet", ".csv"):
            formats.write(found, tmp_path / f"again{ending}")
        assert list(formats.read(tmp_path / "again.jsonl")) == found
        assert "\ufffd" in str(found) and "\\ud" not in str(found)


def test_absurd_weights_give_no_warning(tmp_path: Path) -> None:
    """Of a scale next to zero comes infinity, which the table of scores takes for no score."""
    from dialeval.models.tensors import read_tensors, write_tensors

    source = tiny_artefacts.artefacts()["dialogue-scorer.v1"]
    tensors = dict(read_tensors(source / "model.safetensors"))
    tensors["input.scale"] = tensors["input.scale"] * 0 + 1e-38
    write_tensors(tmp_path / "model.safetensors", tensors)
    READERS["artefact dialogue-scorer.v1: weights"].read(tmp_path / "model.safetensors")
    bad = {"token_embd.weight": float("inf"), "output_norm.weight": 3e38}
    (tmp_path / "m.gguf").write_bytes(specimens.gguf({}, bad))
    READERS["GGUF"].read(tmp_path / "m.gguf")


def test_a_server_that_says_absurd_numbers(tmp_path: Path) -> None:
    chat, echo = (json.loads(one) for one in specimens.server_answers())
    chat["choices"][0]["logprobs"]["content"][0]["top_logprobs"][0]["logprob"] = 10**400
    echo["choices"][0]["logprobs"]["token_logprobs"] = [None, 10**400, -1]
    for said in (chat, echo):
        specimens.hear(json.dumps(said).encode())


def test_a_length_beyond_the_file_in_a_gguf_head(tmp_path: Path) -> None:
    whole = specimens.ggufs()[0]
    (tmp_path / "m.gguf").write_bytes(whole[:24] + struct.pack("<Q", 1 << 63) + whole[32:])
    with pytest.raises(DialevalError, match="damaged"):
        READERS["GGUF"].read(tmp_path / "m.gguf")


@pytest.mark.parametrize("content", [b"[]", DEEP, b"7", b'"x"', b'{"a": ' + DIGITS + b"}"])
def test_a_tokenizer_as_the_hub_has_it(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(DialevalError, match=r"no readable tokenizer\.json"):
        plain_tokenizer(tmp_path / "tokenizer.json")
