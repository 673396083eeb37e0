"""Artefacts: what is damaged, hostile or something else is refused at once, and the file named (R13)."""

import json
import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dialeval.errors import DataError, UsageError
from dialeval.models import artefact, downloads
from dialeval.models.artefact import load, names, resolve, save, verify
from dialeval.models.card import Card
from dialeval.models.tensors import write_tensors

CARD = Card("Mine", "An example.", licence="apache-2.0", command="dialeval train it", figures={"dev F1": 0.5})
FIELDS: dict[str, Any] = {"width": 2, "weights_file": "weights.safetensors", "labels": ["no", "yes"]}
NAMES = ["README.md", "SHA256SUMS", "config.json", "tokenizer.json", "weights.safetensors"]


def weights(path: Path) -> None:
    write_tensors(path, {"w": np.arange(64, dtype="f4").reshape(8, 8), "b": np.zeros(8, "f4")})


def make(folder: Path, **fields: Any) -> artefact.Artefact:
    files = {"weights.safetensors": weights, "tokenizer.json": b'{"model": {}}'}
    return save(folder, "pair-scorer.v1", FIELDS | fields, files, CARD)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("original") / "mine").folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """A copy to damage: saving waits for the disk, copying does not."""
    return Path(shutil.copytree(original, tmp_path / "mine"))


def seal(folder: Path) -> None:
    """Write SHA256SUMS anew, as somebody would who wants a changed folder to be believed."""
    paths = [path for path in sorted(folder.iterdir()) if path.name != "SHA256SUMS"]
    lines = [f"{sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in paths]
    (folder / "SHA256SUMS").write_text("".join(lines))


def write_config(folder: Path, text: bytes) -> None:
    (folder / "config.json").write_bytes(text)
    seal(folder)


def test_what_was_saved_is_loaded(folder: Path) -> None:
    found = load(folder, "pair-scorer.v1")
    assert found.kind == "pair-scorer.v1"
    assert found.config == FIELDS | {"class": "pair-scorer.v1", "dialeval": artefact.__version__}
    assert found.path("tokenizer.json").read_bytes() == b'{"model": {}}'
    assert sorted(path.name for path in folder.iterdir()) == NAMES
    assert found == load(str(folder))
    assert len({found, load(str(folder))}) == 1


def test_sums_are_those_of_sha256sum(folder: Path) -> None:
    if shutil.which("sha256sum") is None:
        pytest.skip("sha256sum is not there")
    command = ["sha256sum", "--strict", "-c", "SHA256SUMS"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert ran.stdout.count(": OK\n") == 4


def test_same_arguments_give_the_same_bytes(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    make(one)
    files = {"tokenizer.json": b'{"model": {}}', "weights.safetensors": weights}
    save(other, "pair-scorer.v1", dict(reversed(FIELDS.items())), files, CARD)
    assert {path.name: path.read_bytes() for path in one.iterdir()} == {
        path.name: path.read_bytes() for path in other.iterdir()
    }


def test_identity_is_of_all_that_computes(tmp_path: Path) -> None:
    first = make(tmp_path / "a")
    worded = save(
        tmp_path / "b",
        "pair-scorer.v1",
        FIELDS,
        {"weights.safetensors": weights, "tokenizer.json": b'{"model": {}}'},
        Card("Other words", "", licence="mit", command=""),
    )
    assert worded.sha == first.sha
    assert make(tmp_path / "c", width=3).sha != first.sha
    lines = (tmp_path / "a" / "SHA256SUMS").read_text().splitlines(keepends=True)
    by_hand = "".join(sorted((line for line in lines if "README" not in line), key=lambda line: line[66:]))
    assert first.sha == sha256(by_hand.encode()).hexdigest()


@pytest.mark.parametrize("place", [0.0, 0.21, 0.5, 0.83, 1.0])
@pytest.mark.parametrize("flip", [0x01, 0x20, 0x80])
@pytest.mark.parametrize("name", NAMES)
def test_a_flipped_byte_is_found(name: str, flip: int, place: float, folder: Path) -> None:
    content = bytearray((folder / name).read_bytes())
    content[int(place * (len(content) - 1))] ^= flip
    (folder / name).write_bytes(content)
    with pytest.raises(DataError, match=name):
        verify(folder)


def test_every_byte_of_the_sums_counts(folder: Path) -> None:
    good = (folder / "SHA256SUMS").read_bytes()
    for place in range(len(good)):
        for flip in (0x01, 0x0A, 0x20):  # 0x0a turns the second blank into sha256sum's mark for binary files
            (folder / "SHA256SUMS").write_bytes(
                good[:place] + bytes([good[place] ^ flip]) + good[place + 1 :]
            )
            with pytest.raises(DataError, match="SHA256SUMS"):
                verify(folder)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("gone", ": is missing"),
        ("cut", ""),
        ("link", ": this is a link"),
        ("pipe", ": this is (a special file, )?not a plain file"),  # and nobody waits for it
    ],
)
def test_a_file_that_is_not_as_it_was_is_named(name: str, how: str, message: str, folder: Path) -> None:
    path, content = folder / name, (folder / name).read_bytes()
    path.unlink()
    if how == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif how == "link":
        (folder.parent / "elsewhere").write_bytes(content)
        path.symlink_to(folder.parent / "elsewhere")
    elif how == "pipe":
        os.mkfifo(path)
    with pytest.raises(DataError, match=name + message):
        verify(folder)


def test_an_extra_file_is_named(folder: Path) -> None:
    (folder / "evil.bin").write_bytes(b"x")
    with pytest.raises(DataError, match=r"evil\.bin: is not listed in SHA256SUMS"):
        verify(folder)


def test_hidden_files_are_not_minded(folder: Path) -> None:
    (folder / ".gitattributes").write_text("*.safetensors filter=lfs\n")
    (folder / ".cache" / "huggingface").mkdir(parents=True)
    (folder / ".link").symlink_to("/etc/passwd")
    assert ".gitattributes" not in verify(folder).files
    with pytest.raises(DataError, match="has no file"):
        verify(folder).path(".gitattributes")


def test_folders_and_linked_folders_inside_are_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "sub").mkdir()
    with pytest.raises(DataError, match="sub: this is a folder"):
        verify(folder)
    (folder / "sub").rmdir()
    (folder / "sub").symlink_to(tmp_path)
    with pytest.raises(DataError, match="sub: this is a link"):
        verify(folder)


def test_a_linked_artefact_as_a_whole_is_fine(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to(folder)
    assert verify(tmp_path / "current").sha == verify(folder).sha


@pytest.mark.parametrize(
    "name",
    [
        *("../evil", "/etc/passwd", "sub/w.bin", "..", ".", ".hidden", "C:\\w.bin", "..\\w.bin", "w.bin."),
        *("a\x1b[2Jb", "a\rb", "a b", "", "SHA256SUMS", "x" * 200, "caf\u00e9", "a\x85b"),
    ],
)
def test_hostile_names_in_the_sums(name: str, folder: Path) -> None:
    with (folder / "SHA256SUMS").open("a", newline="") as file:
        file.write(f"{'0' * 64}  {name}\n")
    with pytest.raises(DataError, match=r"SHA256SUMS:5: not a SHA-256") as caught:
        verify(folder)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cut off"),
        ("\n", ":1: not a SHA-256"),
        ("0" * 64 + "  config.json\n" + "1" * 64 + "  config.json\n", ":2: config.json stands there twice"),
        ("A" * 64 + "  config.json\n", ":1: not a SHA-256"),
        ("0" * 64 + "  config.json\n\n", ":2: not a SHA-256"),
        ("0" * 64 + " *config.json\n", ":1: not a SHA-256"),
        ("0" * 63 + "  config.json\n", ":1: not a SHA-256"),
        ("x" * 2_000_000, "too many"),
    ],
)
def test_malformed_sums(text: str, message: str, folder: Path) -> None:
    (folder / "SHA256SUMS").write_text(text)
    with pytest.raises(DataError, match="SHA256SUMS") as caught:
        verify(folder)
    assert message in str(caught.value)


def test_hostile_names_on_disk_are_shown_harmlessly(folder: Path) -> None:
    (folder / "a\x1b[2Jb\n").write_text("x")
    with pytest.raises(DataError, match=r"a\\x1b\[2Jb\\n") as caught:
        verify(folder)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"null",
        b'"class"',
        b"\xff\xfe",
        b'{"class": "pair-scorer.v1"',
        b'{"class": "pair-scorer.v1", "class": "gguf.v1"}',
        b'{"class": "pair-scorer.v1", "a": {"b": 1, "b": 2}}',
        b'{"class": "pair-scorer.v1", "w": NaN}',
        b'{"class": "pair-scorer.v1", "w": -Infinity}',
        b'{"class": "evil.v1"}',
        b'{"class": "__import__"}',
        b'{"class": ["pair-scorer.v1"]}',
        b'{"class": null}',
        b'{"class": {"a": {}}}',
        b'{"class": "pair-scorer.v1", "w": ' + b"9" * 10_000 + b"}",
        b'{"class": "pair-scorer.v1", "w": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"class": "pair-scorer.v1", "w": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
        b'{"class": "pair-scorer.v1"}' + b" " * 1_000_000,
    ],
    ids=range(19),
)
def test_hostile_configurations(text: bytes, folder: Path) -> None:
    write_config(folder, text)
    with pytest.raises(DataError, match=r"config\.json") as caught:
        verify(folder)
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"weights_file": "../w.bin"}, "weights_file"),
        ({"weights_file": "other.bin"}, "weights_file"),
        ({"weights_file": "SHA256SUMS"}, "weights_file"),
        ({"weights_file": 7}, "weights_file"),
        ({"weights_file": True}, "weights_file"),
        ({"file": "/etc/passwd"}, "file"),
        ({"file": ["config.json", "nope"]}, "file.1"),
        ({"deep": [{"a": {"tokenizer_file": "x"}}]}, "deep.0.a.tokenizer_file"),
        ({"deep": {"a": ["fine", "../../etc/passwd"]}}, "deep.a.1"),
        ({"path": "..\\windows"}, "path"),
        ({"path": "C:\\windows"}, "path"),
        ({"path": "c:/windows"}, "path"),
        ({"path": "\\\\host\\share"}, "path"),
        ({"path": "~/x"}, "path"),
        ({"path": "~root/x"}, "path"),
        ({"path": "a/../../b"}, "path"),
        ({"path": "a/.. /b"}, "path"),
        ({"path": "file:///etc/passwd"}, "path"),
        ({"path": "a\0b"}, "path"),
        ({"path": {"../evil": 1}}, "path"),
        ({"/etc": 1}, "etc"),
    ],
)
def test_configurations_that_lead_outside(fields: dict[str, Any], field: str, folder: Path) -> None:
    config = {"class": "pair-scorer.v1", **fields}
    write_config(folder, json.dumps(config).encode())
    with pytest.raises(DataError, match=r"config\.json") as caught:
        verify(folder)
    assert field in str(caught.value.field)
    with pytest.raises(UsageError, match="of an artefact"):  # and none of it can be saved
        save(folder.parent / "new", "pair-scorer.v1", fields, {}, CARD)


def test_settings_that_are_no_paths_are_left_alone(tmp_path: Path) -> None:
    fields = {
        "profile": "fast",
        "said": "and/or ... well",
        "home": "https://example.org/a",
        "tokenizer_file": None,
    }
    assert save(tmp_path / "a", "gguf.v1", fields, {}, CARD).config["profile"] == "fast"


def test_the_wrong_class_is_refused(folder: Path) -> None:
    with pytest.raises(DataError, match=r"config\.json: class: this is 'pair-scorer\.v1', not encoder\.v1"):
        verify(folder, "encoder.v1")


def test_enormous_files_are_refused_unread(folder: Path) -> None:
    with (folder / "weights.safetensors").open("r+b") as file:
        file.truncate(1 << 40)  # takes no room on disk, but a terabyte to read
    with pytest.raises(DataError, match=r"weights\.safetensors: 1099511627776 bytes"):
        verify(folder)


def test_a_model_of_the_hub_is_told_how_to_become_one(tmp_path: Path) -> None:
    folder = tmp_path / "bert base"
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "bert", "architectures": ["BertModel"]}')
    with pytest.raises(DataError, match=rf"dialeval models export '{folder}' -o DIR"):
        load(folder)
    (folder / "1_Pooling").rmdir()
    seal(folder)
    with pytest.raises(DataError, match="dialeval models export"):
        load(folder)


def test_what_is_no_artefact_at_all(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty: has no config\.json"):
        load(tmp_path / "empty")
    with pytest.raises(DataError, match="file: Not a directory"):
        verify(tmp_path / "file")
    with pytest.raises(DataError, match="nowhere: No such file"):
        verify(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("kind", "fields", "files", "message"),
    [
        ("evil.v1", {}, {}, "unknown class"),
        ("gguf.v1", {"class": "x"}, {}, "'class' is written by save"),
        ("gguf.v1", {"dialeval": "x"}, {}, "'dialeval' is written by save"),
        ("gguf.v1", {"x": float("nan")}, {}, "plain JSON"),
        ("gguf.v1", {"x": np.float32(1)}, {}, "plain JSON"),
        ("gguf.v1", {"x": b"bytes"}, {}, "plain JSON"),
        ("gguf.v1", {"x": "\ud800"}, {}, "plain JSON"),
        ("gguf.v1", {"x": {1: 2, "1": 3}}, {}, "plain JSON"),
        ("gguf.v1", {"x": "y" * 1_000_000}, {}, "larger than"),
        ("gguf.v1", {}, {"config.json": b""}, "already"),
        ("gguf.v1", {}, {"readme.MD": b""}, "already"),
        ("gguf.v1", {}, {"a.bin": b"", "A.bin": b""}, "already"),
        ("gguf.v1", {}, {"../a.bin": b""}, "cannot be the name"),
        ("gguf.v1", {}, {".hidden": b""}, "cannot be the name"),
        ("gguf.v1", {}, {"a.bin": lambda path: None}, "not every file"),
        ("gguf.v1", {}, {"a.bin": lambda path: path.with_name("b.bin").touch()}, "not every file"),
    ],
)
def test_save_refuses_what_could_not_be_loaded(
    kind: str, fields: dict[str, Any], files: dict[str, Any], message: str, folder: Path
) -> None:
    before = verify(folder)
    with pytest.raises(UsageError, match=message):
        save(folder, kind, fields, files, CARD)
    assert verify(folder) == before
    assert [entry.name for entry in folder.parent.iterdir()] == ["mine"]


def test_an_error_while_writing_keeps_the_old(folder: Path) -> None:
    def fail(path: Path) -> None:
        path.write_bytes(b"half")
        raise MemoryError

    before = verify(folder)
    with pytest.raises(MemoryError):
        save(folder, "gguf.v1", {}, {"a.bin": fail}, CARD)
    assert verify(folder) == before
    assert [entry.name for entry in folder.parent.iterdir()] == ["mine"]


def test_only_artefacts_and_empty_folders_are_replaced(folder: Path, tmp_path: Path) -> None:
    assert make(folder, width=9).config["width"] == 9
    (folder / "weights.safetensors").write_bytes(b"damaged")
    assert make(folder, width=8).config["width"] == 8
    (tmp_path / "empty").mkdir()
    assert make(tmp_path / "empty").kind == "pair-scorer.v1"
    for place, name in ((folder, "notes.txt"), (folder, ".git"), (tmp_path / "thesis", "chapter.tex")):
        place.mkdir(exist_ok=True)
        (place / name).write_text("years of work")
        with pytest.raises(DataError, match=f"holds '{name}'"):
            make(place)
        assert (place / name).read_text() == "years of work"
        (place / name).unlink()


@pytest.fixture
def house(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with two pulled artefacts, and a leftover of a kill."""
    monkeypatch.setenv("DIALEVAL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for name in ("zeta", "alpha", ".alpha.x1.part"):
        shutil.copytree(original, tmp_path / "home" / "models" / name)
    (tmp_path / "home" / "models" / "broken").mkdir()
    return tmp_path


def test_pulled_names(house: Path) -> None:
    pulled = [(name, path) for name, where, path in names() if where == "pulled"]
    assert pulled == [(name, house / "home" / "models" / name) for name in ("alpha", "zeta")]
    assert load("alpha").folder == house / "home" / "models" / "alpha"


def test_a_folder_goes_before_a_name_unless_it_is_no_model(house: Path) -> None:
    (house / "alpha").mkdir()
    assert resolve("alpha") == house / "home" / "models" / "alpha"
    make(house / "alpha")
    assert resolve("alpha") == Path("alpha")


def test_shipped_goes_before_pulled(house: Path) -> None:
    shipped = [name for name, where, _ in names() if where == "shipped"]
    make(house / "home" / "models" / shipped[0])
    assert "shipped" in resolve(shipped[0]).parts


def test_an_unknown_name_says_what_there_is(house: Path) -> None:
    with pytest.raises(UsageError, match=r"'omega'; shipped: .*; pulled: alpha, zeta; .*models pull NAME"):
        resolve("omega")


@pytest.mark.parametrize(
    "name", ["a/b/c", "../x", "/no/where", "./x", "a\0b", "x" * 5_000, "~nobody-here/x", "a/..", "a\x1bb", ""]
)
def test_strange_names_are_folders_that_are_not_there(name: str, house: Path) -> None:
    with pytest.raises(DataError) as caught:
        load(name)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("name", ["org/name", "org/name@v1"])
def test_hub_ids_are_downloaded(name: str, house: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def pull(wanted: str) -> artefact.Artefact:
        asked.append(wanted)
        return load(house / "home" / "models" / "zeta")

    monkeypatch.setattr(downloads, "pull", pull)
    assert load(name).folder.name == "zeta"
    assert asked == [f"hub:{name}"]


def test_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DIALEVAL_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    assert artefact.home() == Path("/home/me/.cache/dialeval")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the standard says: to be ignored
    assert artefact.home() == Path("/home/me/.cache/dialeval")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/me")
    assert artefact.home() == Path("/var/cache/me/dialeval")
    monkeypatch.setenv("DIALEVAL_HOME", "~/models")
    assert artefact.home() == Path("/home/me/models")


def test_importing_stays_light() -> None:
    heavy = ["safetensors", "onnxruntime", "tokenizers", "torch", "huggingface_hub", "pyarrow", "scipy"]
    code = "import sys, dialeval.models.artefact, dialeval.models.tensors; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {module.split(".")[0] for module in ran.stdout.split()} & set(heavy)
