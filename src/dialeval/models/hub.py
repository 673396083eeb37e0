"""The Hugging Face Hub: a model's files come down, an artefact goes up.

`huggingface_hub` has its home here, behind the extra `[hub]`. It brings tokens, mirrors (`HF_ENDPOINT`) and
proxies; which files are taken, where they land and whether they are what the Hub says is decided here.
"""

import contextlib
import glob
import hashlib
import importlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from dialeval import __version__, files
from dialeval.errors import DataError, DialevalError, UsageError
from dialeval.models import artefact
from dialeval.models.artefact import SUMS
from dialeval.models.untrusted import PLAIN_NAME, read_small

REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_MODEL = re.compile(
    r"[\w.-]+\.safetensors|(config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|modules"
    r"|sentence_bert_config|1_Pooling/config)\.json|README\.md",
    re.ASCII,
)
_CODE = (".bin", ".pt", ".pth", ".py", ".pkl", ".pickle", ".ckpt", ".h5", ".so", ".sh")


def snapshot(repo: str, revision: str | None, folder: Path, say: Callable[[str], None]) -> tuple[str, str]:
    """Download a model into a new folder and return its commit and its licence.

    Of an artefact, what its SHA256SUMS names is taken; of any other model, configuration, tokenizer and
    safetensors. Files that a library might execute are never taken. Every file is compared with the hash
    that the Hub has for it.
    """
    library = _library()
    with _reaching(repo), _quiet():
        api = library.HfApi(endpoint=_endpoint(), library_name="dialeval", library_version=__version__)
        say(f"looking for {repo}")
        info = api.model_info(repo, revision=revision, files_metadata=True)
        listed = {one.rfilename: one for one in info.siblings or ()}
        if not info.sha or not listed:
            raise DataError("the Hub says of no files that they belong to this model", file=repo)

        def take(names: Collection[str]) -> None:
            library.snapshot_download(
                repo,
                revision=info.sha,  # whatever happens to the branch meanwhile
                local_dir=folder,  # real files, no links into a cache
                cache_dir=folder / ".cache" / "shared",
                allow_patterns=[glob.escape(name) for name in names],
                endpoint=_endpoint(),
                library_name="dialeval",
                library_version=__version__,
            )
            _compare(repo, folder, {name: listed[name] for name in names})

        if SUMS in listed:
            take([SUMS])
            names = [SUMS, *_summed(repo, folder / SUMS, listed)]
        else:
            names = [name for name in listed if _MODEL.fullmatch(name)]
        if not names:
            raise DataError("no safetensors, no configuration: nothing here can be used", file=repo)
        say(f"downloading {len(names)} files of {repo}, {_megabytes(listed[name].size for name in names)}")
        take(names)
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    return str(info.sha), str(getattr(info.card_data, "license", None) or "unknown")


def push(
    folder: str | Path,
    repo: str,
    *,
    private: bool = True,
    on_progress: Callable[[str], None] | None = None,
) -> str:
    """Upload an artefact to the Hub and return the address of the commit.

    It is verified first. Exactly the files that it lists go up: nothing hidden, nothing that lies beside
    them. What the repository holds besides stays. A repository that is public already is not pushed to
    while `private` is asked for.
    """
    if not REPOSITORY.fullmatch(repo):
        raise UsageError(f"{repo!r} is not the id of a repository on the Hub: organisation/name")
    found = artefact.verify(Path(folder))
    names = [SUMS, *found.files]
    if refused := [name for name in names if name.lower().endswith(_CODE)]:
        raise UsageError(
            f"{refused[0]} has an ending that is never pulled: nobody could use this from the Hub"
        )
    library = _library()
    with _reaching(repo), _quiet():
        api = library.HfApi(endpoint=_endpoint(), library_name="dialeval", library_version=__version__)
        api.create_repo(repo, private=private, exist_ok=True)
        if private and not api.model_info(repo).private:
            raise UsageError(f"{repo} is public; say that this is what you want, or choose another name")
        if on_progress:
            on_progress(f"uploading {len(names)} files to {repo}")
        commit = api.upload_folder(
            repo_id=repo,
            folder_path=found.folder,
            commit_message=f"Upload {found.kind} {found.sha[:12]}",
            allow_patterns=[glob.escape(name) for name in names],
        )
    return str(commit.commit_url)


def _summed(repo: str, path: Path, listed: Mapping[str, Any]) -> list[str]:
    """Return the names in a SHA256SUMS, each of which must be a harmless file of the repository."""
    names = []
    for number, line in enumerate(read_small(path).decode("utf-8", "replace").splitlines(), 1):
        name = line[66:]
        if not PLAIN_NAME.fullmatch(name) or name.lower().endswith(_CODE):
            raise DataError(f"will not download {name[:200]!r}", file=f"{repo}/{SUMS}", line=number)
        if name not in listed:
            raise DataError(f"{name} is not in the repository", file=f"{repo}/{SUMS}", line=number)
        names.append(name)
    return names


def _compare(repo: str, folder: Path, wanted: Mapping[str, Any]) -> None:
    """Compare files with what the Hub knows: SHA-256 of large ones, git's own hash of the others."""
    for name, listed in wanted.items():
        path = folder / name
        if path.is_symlink() or not path.is_file():
            raise DataError("did not arrive", file=repo, field=name, fix="try again")
        if listed.lfs is not None:
            is_same = files.sha256(path) == listed.lfs.sha256
        elif listed.blob_id is not None:
            content = path.read_bytes()
            git = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
            is_same = git.hexdigest() == listed.blob_id
        else:  # a mirror that keeps no hashes
            is_same = True
        if not is_same:
            raise DataError(
                "is not what the Hub has: the hash differs; nothing was kept",
                file=repo,
                field=name,
                fix="try again",
            )


def _library() -> ModuleType:
    try:
        return importlib.import_module("huggingface_hub")
    except ImportError:
        raise UsageError("the Hub needs a library that is not here: pip install 'dialeval[hub]'") from None


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT") or None


@contextlib.contextmanager
def _reaching(repo: str) -> Iterator[None]:
    """Turn whatever goes wrong on the way to the Hub into one line: its library raises many kinds."""
    try:
        yield
    except DialevalError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:300] or "no reason given"
        raise DataError(
            f"the Hub did not do it: {type(error).__name__}: {said}",
            file=repo,
            fix="check the name, the connection and, if it is private, your token",
        ) from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the library's own progress bars to terminals, unless its setting says otherwise."""
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


def _megabytes(sizes: Iterator[int | None]) -> str:
    return f"{sum(size or 0 for size in sizes) / 1e6:.1f} MB"
