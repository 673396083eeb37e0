"""Readers of weights, tokenizers, artefacts, indexes, archives, and of what servers answer."""

import contextlib
import functools
import hashlib
import io
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import specimens
import tiny_artefacts
from mutation import any_json, any_line, any_weights, one_of
from reader import fresh, lines, reader

# --- models -------------------------------------------------------------------------------------------------


@reader("safetensors", "w.safetensors", specimens.weights, one_of(any_weights))
def _tensors(path: Path) -> object:
    from dialeval.models.tensors import expand, read_tensors

    return [value.sum() for value in expand(read_tensors(path), file=path).values()]


@reader("GGUF", "m.gguf", specimens.ggufs, specimens.any_gguf)
def _gguf(path: Path) -> object:
    return specimens.ask(path)


@reader("tokenizer", "tokenizer.json", tiny_artefacts.tokenizers, one_of(any_json))
def _tokenizer(path: Path) -> object:
    from dialeval.models.tokenization import Tokenizer

    found = Tokenizer(path, 16)
    return found.special(), found.encode(["a b c" * 10, ""]), found.bare(["a \ud800"])


def signed_copy(source: Path, name: str, path: Path) -> Path:
    """Copy an artefact with one of its files exchanged, and make its list of hashes fit."""
    folder = fresh()
    shutil.copytree(source, folder, copy_function=os.link)
    (folder / name).unlink(missing_ok=True)
    shutil.copyfile(path, folder / name)
    listed = {
        one.name: hashlib.sha256(one.read_bytes()).hexdigest()
        for one in folder.iterdir()
        if one.name != "SHA256SUMS"
    }
    (folder / "SHA256SUMS").unlink()
    (folder / "SHA256SUMS").write_text("".join(f"{sha}  {name}\n" for name, sha in sorted(listed.items())))
    return folder


def _artefact_reader(kind: str, name: str) -> Callable[[Path], object]:
    def read(path: Path) -> object:
        folder = signed_copy(tiny_artefacts.artefacts()[kind], name, path)
        try:
            return tiny_artefacts.use(kind, folder)
        finally:
            shutil.rmtree(folder)

    return read


for _kind in tiny_artefacts.USES:
    reader(
        f"artefact {_kind}: config.json",
        "config.json",
        functools.partial(
            lambda kind: [(tiny_artefacts.artefacts()[kind] / "config.json").read_bytes()], _kind
        ),
        one_of(any_json),
    )(_artefact_reader(_kind, "config.json"))
for _kind in ("dialogue-scorer.v1", "encoder.v1"):
    reader(
        f"artefact {_kind}: weights",
        "model.safetensors",
        functools.partial(
            lambda kind: [(tiny_artefacts.artefacts()[kind] / "model.safetensors").read_bytes()], _kind
        ),
        one_of(any_weights),
    )(_artefact_reader(_kind, "model.safetensors"))


@reader(
    "SHA256SUMS",
    "SHA256SUMS",
    lambda: [(tiny_artefacts.artefacts()["blend.v2"] / "SHA256SUMS").read_bytes()],
    one_of(any_line),
)
def _sums(path: Path) -> object:
    from dialeval.manifests import read_sums

    return read_sums(path)


@reader(
    "model as the Hub has it: config.json",
    "config.json",
    lambda: [tiny_artefacts.hub_config()],
    one_of(any_json),
)
def _hub(path: Path) -> object:
    return tiny_artefacts.convert(path, fresh())


@reader(
    "index: config.json", "config.json", lambda: [tiny_artefacts.index_file("config.json")], one_of(any_json)
)
def _index_config(path: Path) -> object:
    return tiny_artefacts.open_index(path, "config.json", fresh())


@reader("index: rows", "rows.arrow", lambda: [tiny_artefacts.index_rows()], one_of(any_line))
def _index_rows(path: Path) -> object:
    return tiny_artefacts.open_index(path, None, fresh())


def _archives() -> list[bytes]:
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("m/a.json", b'{"a": 1}' * 20)
        file.writestr("m/b/c.bin", b"x")
    return [zipped.getvalue()]


@reader("archives", "a.whl", _archives, specimens.any_archive)
def _archive(path: Path) -> object:
    from dialeval.models.archives import extract_members

    target = fresh() / "deep" / "out"
    outside = target.parent.parent
    try:
        names: list[str] = []
        with contextlib.suppress(Exception), zipfile.ZipFile(path) as file:  # what is asked for is no matter
            names = file.namelist()[:100]
        found = extract_members(path, [], target, optional=names, limit_bytes=1 << 16, limit_members=20)
        assert all(target in one.parents for one in found)
        return found
    finally:
        left = {one.name for one in outside.iterdir()} if outside.exists() else set()
        shutil.rmtree(outside, ignore_errors=True)
        assert left <= {"deep"}, left


@reader("answers of a server", "answer.json", specimens.server_answers)
def _server(path: Path) -> object:
    return specimens.hear(path.read_bytes())


@reader(
    "replies of an earlier run",
    "replies.jsonl",
    lambda: [lines({"id": "a", "messages": [{"role": "user", "content": "Hi"}]})],
)
def _replies(path: Path) -> object:
    from dialeval.jobs.responding import _lines

    return list(_lines(path))
