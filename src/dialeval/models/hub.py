"""The Hugging Face Hub: downloads of models, uploads of artefacts.

The only module that uses `huggingface_hub` (extra `[hub]`), which handles tokens, mirrors (`HF_ENDPOINT`) and
proxies. Which files are downloaded, their size limits and hashes are checked here.
"""

import contextlib
import glob
import hashlib
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from dialeval import __version__, files
from dialeval.errors import DataError, DialevalError, UsageError
from dialeval.manifests import PLAIN_NAME, SUMS
from dialeval.models import artefact
from dialeval.models.untrusted import read_small

REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_MODEL = re.compile(
    r"[\w.-]+\.safetensors|(config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|modules"
    r"|sentence_bert_config|1_Pooling/config)\.json|README\.md",
    re.ASCII,
)
_CHUNK = 1 << 20
_CODE = (".bin", ".pt", ".pth", ".py", ".pkl", ".pickle", ".ckpt", ".h5", ".so", ".sh")


def snapshot(
    repo: str, revision: str | None, folder: Path, report: Callable[[str], None], limit: int
) -> tuple[str, str]:
    """Download a model into a new folder and return its commit and its licence.

    Of an artefact, the files in its SHA256SUMS are downloaded; of any other model, configuration, tokenizer
    and safetensors. Files that a library might execute are never downloaded. A file may have as many bytes as
    the Hub lists, or `limit` if it lists none, and must match the Hub's hash.
    """
    library = _library()
    with _reaching(repo):
        api = library.HfApi(endpoint=_endpoint(), library_name="dialeval", library_version=__version__)
        report(f"looking for {repo}")
        info = api.model_info(repo, revision=revision, files_metadata=True)
        listed = {sibling.rfilename: sibling for sibling in info.siblings or ()}
        if not info.sha or not listed:
            raise DataError("the Hub lists no files of this model", file=repo)

        def take(name: str) -> None:
            # By commit, whatever happens to the branch meanwhile.
            address = library.hf_hub_url(repo, name, revision=info.sha, endpoint=_endpoint())
            _fetch(library, address, folder / name, listed[name].size, limit)
            if not _is_same(folder / name, listed[name]):
                message = "its hash differs from the Hub's; nothing was kept"
                raise DataError(message, file=repo, field=name, fix="try again")

        names = [name for name in listed if _MODEL.fullmatch(name)]
        if SUMS in listed:
            take(SUMS)
            names = _summed(repo, folder / SUMS, listed)
        if not names:
            raise DataError("no safetensors and no configuration: nothing usable here", file=repo)
        size = sum(listed[name].size or 0 for name in names) / 1e6
        report(f"downloading {len(names)} files of {repo}, {size:.1f} MB")
        for name in names:
            take(name)
    return str(info.sha), str(getattr(info.card_data, "license", None) or "unknown")


def _fetch(library: Any, address: str, path: Path, listed: int | None, limit: int) -> None:
    """Download a file; aborts if the server sends more bytes than listed or allowed."""
    headers = library.utils.build_hf_headers(library_name="dialeval", library_version=__version__)
    most, size = limit if listed is None else listed, 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        library.get_session().stream("GET", address, headers=headers, follow_redirects=True) as answer,
        path.open("xb") as file,
    ):
        library.utils.hf_raise_for_status(answer)
        for chunk in answer.iter_bytes(_CHUNK):
            size += len(chunk)
            if size > most and listed is None:
                raise DataError(f"more than {most} bytes", file=address, fix="--max-bytes allows more")
            if size > most:
                raise DataError(f"more than the {most} bytes that are listed for it", file=address)
            file.write(chunk)


def _is_same(path: Path, listed: Any) -> bool:
    """Return whether a file matches the Hub's hash: SHA-256 of large files, git's of the others."""
    if listed.lfs is not None:
        return files.sha256(path) == str(listed.lfs.sha256)
    if listed.blob_id is None:  # a mirror that keeps no hashes
        return listed.size in (None, path.stat().st_size)
    content = path.read_bytes()
    git = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
    return git.hexdigest() == str(listed.blob_id)


def push(folder: str | Path, repo: str, *, private: bool = True) -> str:
    """Upload an artefact to the Hub and return the address of the commit.

    It is verified first. Exactly the files that it lists are uploaded; other files of the repository stay.
    With `private`, an existing public repository is refused.
    """
    _check_id(repo)
    verified = artefact.verify(Path(folder))
    names = [SUMS, *verified.files]
    if refused := [name for name in names if name.lower().endswith(_CODE)]:
        raise UsageError(
            f"{refused[0]} has an extension that is never pulled: it could not be loaded from the Hub"
        )
    return _upload(
        verified.folder, names, repo, "model", f"Upload {verified.kind} {verified.sha[:12]}", private
    )


def push_dataset(folder: str | Path, repo: str) -> str:
    """Upload the files of a folder as a private data set and return the address of the commit."""
    _check_id(repo)
    names = [path.name for path in Path(folder).iterdir()]
    return _upload(Path(folder), names, repo, "dataset", "Upload scores", private=True)


def _check_id(repo: str) -> None:
    if not REPOSITORY.fullmatch(repo):
        raise UsageError(f"{repo!r} is not the id of a repository on the Hub: organisation/name")


def _upload(folder: Path, names: list[str], repo: str, kind: str, message: str, private: bool) -> str:
    library = _library()
    with _reaching(repo), _quiet():
        api = library.HfApi(endpoint=_endpoint(), library_name="dialeval", library_version=__version__)
        api.create_repo(repo, private=private, exist_ok=True, repo_type=kind)
        if private and not api.repo_info(repo, repo_type=kind).private:
            raise UsageError(f"{repo} is public; confirm that this is intended, or choose another name")
        commit = api.upload_folder(
            repo_id=repo,
            repo_type=kind,
            folder_path=folder,
            commit_message=message,
            allow_patterns=[glob.escape(name) for name in names],
        )
    return str(commit.commit_url)


def _summed(repo: str, path: Path, listed: Mapping[str, Any]) -> list[str]:
    """Return the names in a SHA256SUMS; raises if one is unsafe or not in the repository."""
    names = []
    for number, line in enumerate(read_small(path).decode("utf-8", "replace").splitlines(), 1):
        name = line[66:]
        if not PLAIN_NAME.fullmatch(name) or name.lower().endswith(_CODE):
            raise DataError(f"will not download {name[:200]!r}", file=f"{repo}/{SUMS}", line=number)
        if name not in listed:
            raise DataError(f"{name} is not in the repository", file=f"{repo}/{SUMS}", line=number)
        names.append(name)
    return names


def _library() -> ModuleType:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # else it sends and fetches what nobody asked for
    try:
        return importlib.import_module("huggingface_hub")
    except ImportError:
        raise UsageError("the Hub needs the package huggingface_hub: pip install 'dialeval[hub]'") from None


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT") or None


@contextlib.contextmanager
def _reaching(repo: str) -> Iterator[None]:
    """Turn the library's exceptions into one DataError."""
    try:
        yield
    except DialevalError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or "no reason given"
        raise DataError(
            f"the request to the Hub failed: {type(error).__name__}: {reason}",
            file=repo,
            fix="check the name, the connection and, if it is private, your token",
        ) from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Show the library's progress bars on terminals only, unless its setting differs."""
    utils = importlib.import_module("huggingface_hub.utils")
    is_chosen = "HF_HUB_DISABLE_PROGRESS_BARS" in os.environ or utils.are_progress_bars_disabled()
    if is_chosen or files.is_terminal(sys.stderr):
        yield
        return
    utils.disable_progress_bars()
    try:
        yield
    finally:
        utils.enable_progress_bars()
