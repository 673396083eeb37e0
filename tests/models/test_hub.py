"""The Hub, as a server on this machine that speaks the part of it that models need."""

import base64
import contextlib
import hashlib
import http.server
import importlib.util
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from model_files import GGUF, entries, left_over, models, sha, shelf, tiny_model

from dialeval.dialogues import dialogue
from dialeval.errors import DataError, DialevalError, UsageError
from dialeval.jobs.exporting import export
from dialeval.jobs.scoring import score_to
from dialeval.models import artefact, downloads
from dialeval.models.card import Card
from dialeval.scores import Scores

__all__ = ["models", "shelf"]  # fixtures

pytest.importorskip("huggingface_hub")


class Hub(http.server.ThreadingHTTPServer):
    """The small part of the Hub that models need: one branch, one commit at a time, files in memory."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.repos: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.large: set[str] = {"model.safetensors"}  # kept as the Hub keeps large files
        self.serve: dict[str, bytes] = {}  # what comes instead of a file's content
        self.asked: list[tuple[str, str]] = []
        self.endless: set[str] = set()  # files of which more and more comes
        self.unlisted = False  # whether sizes and hashes are left out, as some mirrors do
        self.sent = 0  # bytes of an endless file
        self.down = False

    def address(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{path}".rstrip("/")

    def commit(self, repo: str) -> str:
        return hashlib.sha1(repr(sorted(self.repos[repo].items())).encode()).hexdigest()


class Answer(http.server.BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def send(self, code: int, content: Any, **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_all(self) -> None:
        hub, path = self.server, self.path.partition("?")[0]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        hub.asked.append((self.command, path))
        if hub.down:
            return self.send(403, {"error": "closed today"})
        if path == "/api/validate-yaml":
            return self.send(200, {})
        if path == "/api/repos/create":
            return self.create(json.loads(body))
        if match := re.fullmatch(r"/api/(?:models|datasets)/([^/]+/[^/]+)(?:/(\w+)/(.+))?", path):
            repo, verb, revision = match.groups()
            if repo not in hub.repos:
                return self.send(404, {}, X_Error_Code="RepoNotFound")
            if verb and revision not in ("main", "v1", hub.commit(repo)):
                return self.send(404, {}, X_Error_Code="RevisionNotFound")
            return getattr(self, f"do_{verb or 'revision'}")(repo, body)
        if "/resolve/" not in path:
            return self.send(404, {})
        repo, _, rest = path.strip("/").partition("/resolve/")
        commit, _, name = rest.partition("/")
        content = hub.repos[repo][name]
        if name in hub.endless:
            return self.send_for_ever()
        etag = self.facts(name, content)["lfs"]["sha256"] if name in hub.large else self.git(content)
        return self.send(200, hub.serve.get(name, content), ETag=f'"{etag}"', X_Repo_Commit=commit)

    do_GET = do_HEAD = do_POST = handle_all

    def send_for_ever(self) -> None:
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        with contextlib.suppress(OSError):  # until the other side hangs up
            while self.server.sent < 1 << 30:
                self.server.sent += self.connection.send(b"x" * 65536)
        self.close_connection = True

    def git(self, content: bytes) -> str:
        return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()

    def facts(self, name: str, content: bytes) -> dict[str, Any]:
        if self.server.unlisted:
            return {}
        found: dict[str, Any] = {"size": len(content), "blobId": self.git(content), "oid": self.git(content)}
        if name in self.server.large:
            found["lfs"] = {
                "sha256": sha(content),
                "oid": sha(content),
                "size": len(content),
                "pointerSize": 9,
            }
        return found

    def create(self, wanted: dict[str, Any]) -> None:
        repo = f"{wanted['organization']}/{wanted['name']}"
        if repo in self.server.repos:
            return self.send(409, {"error": "it is there", "url": self.server.address(repo)})
        self.server.repos[repo] = {}
        self.server.private[repo] = wanted.get("visibility") == "private" or wanted.get("private") is True
        return self.send(200, {"url": self.server.address(repo), "name": repo})

    def do_revision(self, repo: str, _: bytes) -> None:
        listed = [{"rfilename": k, **self.facts(k, v)} for k, v in self.server.repos[repo].items()]
        private = self.server.private.get(repo, False)
        card = {"license": "mit"}
        facts = {
            "id": repo,
            "sha": self.server.commit(repo),
            "private": private,
            "cardData": card,
            "tags": [],
        }
        self.send(200, {**facts, "siblings": listed, "downloads": 0, "likes": 0})

    def do_tree(self, repo: str, _: bytes) -> None:
        files = self.server.repos[repo].items()
        self.send(200, [{"type": "file", "path": k, **self.facts(k, v)} for k, v in files])

    def do_preupload(self, repo: str, body: bytes) -> None:
        names = [file["path"] for file in json.loads(body)["files"]]
        answer = [
            {"path": name, "uploadMode": "regular", "shouldIgnore": False, "oid": None} for name in names
        ]
        self.send(200, {"files": answer})

    def do_commit(self, repo: str, body: bytes) -> None:
        for line in body.splitlines():
            entry = json.loads(line)
            if entry["key"] == "file":
                self.server.repos[repo][entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
        oid = self.server.commit(repo)
        self.send(200, {"commitUrl": self.server.address(f"{repo}/commit/{oid}"), "commitOid": oid})


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with Hub() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("HF_ENDPOINT", server.address(""))
        monkeypatch.setenv("HF_TOKEN", "nobodys")
        if importlib.util.find_spec("huggingface_hub.utils._detect_agent"):  # else it asks the Hub who calls
            known = {"standardEnvVars": [], "harnesses": {}}
            monkeypatch.setattr("huggingface_hub.utils._detect_agent._registry", known)
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def mine(tmp_path: Path) -> artefact.Artefact:
    card = Card("Mine", "An example.", licence="mit", command="make it")
    files = {"m.gguf": GGUF, "tokenizer.json": b"{}"}
    return artefact.save(tmp_path / "mine", "gguf.v1", {"model_file": "m.gguf"}, files, card)


def as_repo(found: artefact.Artefact) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in found.folder.iterdir() if path.is_file()}


def test_a_model_of_the_hub_is_converted(
    hub: Hub, models: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = {
        "pytorch_model.bin": b"x",
        "model.pt": b"x",
        "modeling.py": b"x",
        "onnx/model.onnx": b"x",
        ".gitattributes": b"",
    }
    hub.repos["org/tiny"] = {**tiny_model(tmp_path / "tiny"), **code, "README.md": b"# Tiny"}
    said: list[str] = []
    found = downloads.pull("org/tiny", on_progress=said.append)
    assert found == artefact.verify(models / "org--tiny", "encoder.v1")
    assert found.config["pooling"] == "first"
    card = found.path("README.md").read_text()
    assert f"hub:org/tiny@{hub.commit('org/tiny')}" in card
    assert 'license: "mit"' in card
    taken = {path.rpartition("/")[2] for _, path in hub.asked if "/resolve/" in path}
    assert taken == {"config.json", "model.safetensors", "tokenizer.json", "README.md"}
    assert said[1].startswith("downloading 5 files of org/tiny")
    assert capfd.readouterr() == ("", "")
    assert left_over(models) == []
    before = len(hub.asked)
    assert downloads.pull("hub:org/tiny").folder == found.folder
    assert artefact.load("org/tiny") == found
    assert len(hub.asked) == before
    small = downloads.pull("hub:org/tiny@v1", storage="int8")
    assert small.folder.name == "org--tiny--v1-int8"
    assert small.config["storage"] == "int8"
    assert downloads.pull("hub:org/tiny@v1").folder.name == "org--tiny--v1"


def test_files_are_real_and_nothing_of_the_hub_stays(
    hub: Hub, mine: artefact.Artefact, tmp_path: Path
) -> None:
    hub.repos["org/mine"] = {
        **as_repo(mine),
        ".gitattributes": b"*",
        "picture.png": b"x",
        "old.safetensors": b"x",
    }
    found = downloads.pull("org/mine", target=tmp_path / "out")
    assert found.sha == mine.sha
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(as_repo(mine))
    assert not any(path.is_symlink() for path in (tmp_path / "out").iterdir())
    with pytest.raises(UsageError, match="is an artefact and is stored unchanged"):
        downloads.pull("org/mine", storage="fp16")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_content_that_the_hub_does_not_stand_for(name: str, hub: Hub, models: Path, tmp_path: Path) -> None:
    parts = tiny_model(tmp_path / "tiny")
    hub.repos["org/tiny"] = parts
    hub.serve[name] = parts[name][:-1] + b" "
    for _ in range(2):
        with pytest.raises(DataError, match=rf"org/tiny: {name}: its hash differs from the Hub"):
            downloads.pull("hub:org/tiny")
        assert entries(models) == []
        assert left_over(models) == []
    hub.serve.clear()
    assert downloads.pull("hub:org/tiny").folder.is_dir()


@pytest.mark.parametrize("unlisted", [False, True])
def test_no_more_bytes_are_taken_than_there_can_be(
    unlisted: bool, hub: Hub, models: Path, tmp_path: Path
) -> None:
    hub.repos["org/tiny"] = tiny_model(tmp_path / "tiny")
    if unlisted:
        hub.unlisted, hub.large = True, set()
        assert downloads.pull("org/tiny", name="fine", max_bytes=100_000).kind == "encoder.v1"
    hub.endless = {"model.safetensors"}
    what = "more than 100000 bytes.*--max-bytes" if unlisted else r"more than the \d+ bytes that are listed"
    with pytest.raises(DataError, match=what):
        downloads.pull("org/tiny", max_bytes=100_000)
    assert 0 < hub.sent < 16 << 20  # what fits into the buffers of two sockets, not what the server has
    assert left_over(models) == []
    assert "org--tiny" not in entries(models)


def test_a_pinned_model_of_the_hub(hub: Hub, models: Path, tmp_path: Path) -> None:
    parts = hub.repos["org/tiny"] = tiny_model(tmp_path / "tiny")
    for _ in range(2):
        with pytest.raises(DataError, match=r"model.safetensors: SHA-256 is"):
            downloads.pull("org/tiny", sha256="0" * 64)
        assert entries(models) == []
    assert downloads.pull("org/tiny", sha256=sha(parts["model.safetensors"])).kind == "encoder.v1"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../../evil.safetensors", r"will not download '../../evil.safetensors'"),
        ("/etc/evil", "will not download"),
        ("model.py", "will not download"),
        ("pytorch_model.BIN", "will not download"),
        (".bashrc", "will not download"),
        ("gone.safetensors", "gone.safetensors is not in the repository"),
    ],
)
def test_an_artefact_that_lists_what_it_must_not(
    name: str, message: str, hub: Hub, mine: artefact.Artefact, tmp_path: Path
) -> None:
    repo = as_repo(mine)
    repo["SHA256SUMS"] += f"{sha(b'evil')}  {name}\n".encode()
    hub.repos["org/mine"] = repo if name.startswith("gone") else {**repo, name: b"evil"}
    before = entries(tmp_path)
    for _ in range(2):
        with pytest.raises(DataError, match=message):
            downloads.pull("hub:org/mine")
    assert entries(tmp_path) == sorted({*before, "home"})
    assert entries(tmp_path / "home" / "models") == []
    assert not any("evil" in path or "bashrc" in path for _, path in hub.asked)


def test_a_model_whose_names_lead_elsewhere(hub: Hub, tmp_path: Path) -> None:
    hub.repos["org/tiny"] = {
        **tiny_model(tmp_path / "tiny"),
        "../../evil.safetensors": b"x",
        "/a.safetensors": b"x",
    }
    downloads.pull("hub:org/tiny")
    assert not any("evil" in path for _, path in hub.asked)
    assert list(tmp_path.rglob("evil*")) == []


def test_a_damaged_artefact_on_the_hub(hub: Hub, mine: artefact.Artefact, models: Path) -> None:
    hub.repos["org/mine"] = {**as_repo(mine), "m.gguf": GGUF[::-1]}
    for _ in range(2):
        with pytest.raises(DataError, match=r"m.gguf: does not match SHA256SUMS"):
            downloads.pull("hub:org/mine")
        assert entries(models) == []


def test_the_hub_says_no(hub: Hub, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repos |= {"org/empty": {}, "org/code": {"model.py": b"x"}, "org/there": {"config.json": b"{}"}}
    for source, message in (
        ("org/gone", "org/gone: the request to the Hub failed: RepositoryNotFoundError"),
        ("hub:org/there@v9", "org/there: the request to the Hub failed: RevisionNotFoundError"),
        ("org/empty", "no files"),
        ("org/code", "nothing usable here"),
        ("org/there", "no .*safetensors"),
    ):
        with pytest.raises(DataError, match=message):
            downloads.pull(source)
    hub.down = True
    with pytest.raises(DataError, match="the request to the Hub failed"):
        downloads.pull("org/there")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    with pytest.raises(
        DataError, match=r"org/there: the request to the Hub failed: .*\(check the name, the connection"
    ):
        downloads.pull("org/there")
    assert entries(models) == []
    assert left_over(models) == []


def test_without_the_library(monkeypatch: pytest.MonkeyPatch, mine: artefact.Artefact) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for call in (
        lambda: downloads.pull("hub:org/tiny").folder,
        lambda: downloads.push(mine.folder, "org/tiny"),
    ):
        with pytest.raises(UsageError, match=r"pip install 'dialeval\[hub\]'"):
            call()


def test_push_and_pull_back(hub: Hub, mine: artefact.Artefact) -> None:
    (mine.folder / ".secret").write_text("mine alone")
    (mine.folder / ".git").mkdir()
    (mine.folder / ".git" / "config").write_text("mine alone")
    address = downloads.push(mine.folder, "org/new")
    assert address == hub.address(f"org/new/commit/{hub.commit('org/new')}")
    assert hub.private == {"org/new": True}
    assert set(hub.repos["org/new"]) == {"config.json", "README.md", "m.gguf", "tokenizer.json", "SHA256SUMS"}
    assert artefact.load("org/new").sha == mine.sha
    hub.repos["org/new"]["picture.png"] = b"x"
    downloads.push(mine.folder, "org/new")  # again, and what else is there stays
    assert "picture.png" in hub.repos["org/new"]
    downloads.push(mine.folder, "org/open", private=False)
    assert hub.private["org/open"] is False


def test_what_must_not_be_pushed(hub: Hub, mine: artefact.Artefact, tmp_path: Path) -> None:
    hub.repos["org/open"] = {}
    with pytest.raises(UsageError, match="org/open is public"):
        downloads.push(mine.folder, "org/open")
    assert hub.repos["org/open"] == {}
    hub.asked.clear()
    card = Card("Other", "An example.", licence="mit", command="make it")
    other = artefact.save(tmp_path / "other", "pair-scorer.v1", {}, {"w.bin": b"1"}, card)
    with pytest.raises(UsageError, match=r"w.bin has an extension that is never pulled"):
        downloads.push(other.folder, "org/new")
    (mine.folder / "m.gguf").write_bytes(b"damaged")
    for folder, repo, kind in (
        (mine.folder, "org/new", DataError),
        (tmp_path, "org/new", DataError),
        (mine.folder, "no-organisation", UsageError),
        (mine.folder, "../evil", UsageError),
    ):
        with pytest.raises(DialevalError) as caught:
            downloads.push(folder, repo)
        assert isinstance(caught.value, kind)
    assert hub.asked == []


def test_the_hub_refuses_a_push(hub: Hub, mine: artefact.Artefact) -> None:
    hub.down = True
    with pytest.raises(DataError, match=r"org/new: the request to the Hub failed: .*403"):
        downloads.push(mine.folder, "org/new")


def test_scores_of_a_run_are_a_private_data_set(hub: Hub, tmp_path: Path) -> None:
    chat = dialogue([("user", "Is it secret?"), ("assistant", "It is a secret that I keep.")], "d1")
    score_to([chat], ["length"], tmp_path / "run")
    assert export(tmp_path / "run", "hub", "org/scores").startswith(hub.address("org/scores/commit/"))
    held = hub.repos["org/scores"]
    assert set(held) == {"README.md", "scores.parquet"} and hub.private["org/scores"]
    assert ("POST", "/api/datasets/org/scores/commit/main") in hub.asked
    assert "| length/words/turn | 7 |" in held["README.md"].decode()
    (tmp_path / "pulled.parquet").write_bytes(held["scores.parquet"])
    assert [row.value for row in Scores.read(tmp_path / "pulled.parquet")] == [7.0]
    assert not any(b"secret" in content for content in held.values())
    with pytest.raises(UsageError, match="a name of two parts: --name organisation/name"):
        export(tmp_path / "run", "hub")


def test_the_library_of_the_hub_asks_nothing_of_its_own() -> None:
    asked = "from dialeval.models import hub; hub._library(); from huggingface_hub import constants; "
    asked += "print(constants.HF_HUB_DISABLE_TELEMETRY)"
    unset = {name: value for name, value in os.environ.items() if name != "HF_HUB_DISABLE_TELEMETRY"}
    done = subprocess.run(
        [sys.executable, "-c", asked], env=unset, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"
