"""Artefacts: folders with trained weights, in the layout the Hugging Face Hub expects.

`config.json` has class and settings, `*.safetensors` the weights, `README.md` is the card, and `SHA256SUMS`
has the hash of every file. Hash, name and file type are checked before a file is used.
"""

import contextlib
import functools
import hashlib
import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import msgspec

from dialeval import __version__
from dialeval.errors import DataError, UsageError
from dialeval.files import replacing, replacing_folder
from dialeval.manifests import PLAIN_NAME, SUMS, check_sums, list_regular, read_sums, sums_text, write_sums
from dialeval.models.card import Card
from dialeval.models.untrusted import LARGE, SMALL, find_fault, parse_object, read_setting, read_small

CLASSES = frozenset(
    {
        "encoder.v1",
        "pair-scorer.v1",
        "dialogue-scorer.v1",
        "segment-acts.v1",
        "segmenter.v1",
        "span-acts.v1",
        "baseline.v1",
        "act-bert.v1",
        "fault-reader.v1",
        "outcome.v1",
        "reactions.v1",
        "blend.v2",
        "coherence.v2",
        "gguf.v1",
    }
)
CONFIG, CARD = "config.json", "README.md"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,150}")  # of a pulled artefact
_AFRESH = "download the artefact again"
_LICENCE = re.compile(r'^license: "?([^"\n]+)', re.MULTILINE)


@dataclass(frozen=True)
class Artefact:
    """A verified folder. `sha` covers all files but the card, whose wording may change."""

    folder: Path
    config: dict[str, Any] = field(compare=False, repr=False)
    sha: str
    files: Mapping[str, str] = field(compare=False, repr=False, default_factory=dict)
    """The SHA-256 of each file by name."""

    @property
    def kind(self) -> str:
        """The class and version, such as `encoder.v1`."""
        return str(self.config["class"])

    @property
    def licence(self) -> str:
        """The licence on its card, such as `cc-by-nc-sa-4.0`."""
        return stated_licence(self.folder)

    def path(self, name: str) -> Path:
        """Return the path of a verified file."""
        if name not in self.files:
            raise DataError(
                f"has no file {name[:80]!a}", file=self.folder, fix=f"it has: {', '.join(sorted(self.files))}"
            )
        return self.folder / name


def stated_licence(folder: Path) -> str:
    """Return the licence on the card in a folder."""
    try:
        match = _LICENCE.search((folder / CARD).read_text(encoding="utf-8", errors="replace"))
    except OSError:
        match = None
    return match[1] if match else "unknown"


def save(
    target: str | Path,
    kind: str,
    fields: Mapping[str, Any],
    files: Mapping[str, bytes | Callable[[Path], None]],
    card: Card,
) -> Artefact:
    """Write an artefact; the same arguments give the same bytes.

    Args:
        target: The folder; an existing artefact is replaced in one step, anything else is refused.
        kind: One of `CLASSES`.
        fields: The fields of `config.json` besides class and version.
        files: Contents by name, or functions that write a file to a path.
        card: The content of `README.md`.

    Raises:
        UsageError: A field could not be loaded again, such as a path or NaN.

    >>> import tempfile
    >>> saved = save(
    ...     Path(tempfile.mkdtemp()) / "mine", "pair-scorer.v1", {"width": 3, "weights_file": "w.bin"},
    ...     {"w.bin": b"123"}, Card("Mine", "An example.", licence="mit", command="make it"))
    >>> saved.kind, saved.config["width"], saved.path("w.bin").stat().st_size
    ('pair-scorer.v1', 3, 3)
    """
    target = Path(target)
    _check_names(files)
    generated = {CONFIG: _config_text(kind, fields, files), CARD: card.markdown(kind).encode()}
    if any(len(content) > SMALL for content in generated.values()):
        raise UsageError(f"{CONFIG} or {CARD} would be larger than {SMALL} bytes")
    _check_replaceable(target)
    with replacing_folder(target) as folder:
        for name, content in {**files, **generated}.items():
            if callable(content):
                content(folder / name)
            else:
                with replacing(folder / name) as file:
                    file.write(content)
        written = list_regular(folder)
        if (unlike := written.keys() ^ {*files, *generated}) or max(written.values()) > LARGE:
            raise UsageError(f"{target}: not every file was written as requested: {sorted(unlike)}")
        write_sums(folder)
    return verify(target, kind)


def verify(folder: str | Path, *kinds: str) -> Artefact:
    """Verify an artefact; a file is hashed once per process.

    Args:
        folder: The folder; hidden files, such as the Hub's own, are ignored.
        kinds: The allowed classes; by default all.

    Raises:
        DataError: A file is missing, unexpected, changed or not a plain file, or `config.json` is invalid;
            names the file.
    """
    folder = Path(folder)
    if SUMS not in _entries(folder):
        raise _no_artefact(folder)
    for name, size in list_regular(folder).items():
        if size > (SMALL if name in (CONFIG, CARD) else LARGE):
            raise DataError(f"{size} bytes, too many for this file", file=folder / name)
    sums = check_sums(folder, fix=_AFRESH)
    if CONFIG not in sums:
        raise DataError("is missing", file=folder / CONFIG, fix=_AFRESH)
    config = parse_object(read_small(folder / CONFIG), folder / CONFIG)
    if "class" not in config:
        raise _no_artefact(folder)
    if config["class"] not in list(kinds or CLASSES):
        expected = kinds[0] if len(kinds) == 1 else f"one of {', '.join(sorted(kinds or CLASSES))}"
        actual = ascii(str(config["class"])[:40])
        raise DataError(f"this is {actual}, not {expected}", file=folder / CONFIG, field="class")
    if wrong := find_fault(config, sums):
        raise DataError(wrong[1], file=folder / CONFIG, field=wrong[0])
    identity = sums_text({name: sum_ for name, sum_ in sums.items() if name != CARD})
    return Artefact(folder, config, hashlib.sha256(identity.encode()).hexdigest(), sums)


def load(name: str | Path, *kinds: str) -> Artefact:
    """Find an artefact by folder, shipped or pulled name or Hub id, and verify it."""
    return verify(resolve(name), *kinds)


def resolve(name: str | Path) -> Path:
    """Return the folder of an artefact, unverified; a Hub id is downloaded if necessary.

    A folder has precedence over a name if it has a `config.json`, so that a run folder with the name of a
    shipped artefact does not hide it.
    """
    text = str(name)
    try:
        folder = Path(name).expanduser()
        is_folder = folder.is_dir()
    except (OSError, RuntimeError, ValueError):  # too long a name, or an unknown user
        folder, is_folder = Path(name), False
    if is_folder and _has_config(folder):
        return folder
    for called, place in _shipped():
        if called == text:
            return place
    available = names()
    for called, _, place in available:
        if called == text:
            return place
    if is_folder:
        return folder
    parts = text.partition("@")[0].split("/")
    if len(parts) == 2 and all(PLAIN_NAME.fullmatch(part) for part in parts):
        from dialeval.models import downloads

        return downloads.pull(f"hub:{text}").folder
    if isinstance(name, Path) or not _NAME.fullmatch(text):
        raise DataError("no such folder", file=ascii(text[:300])[1:-1], fix="name the folder of an artefact")
    listed = "; ".join(
        f"{origin}: {', '.join(called for called, at, _ in available if at == origin) or 'none'}"
        for origin in ("shipped", "pulled")
    )
    raise UsageError(
        f"no artefact called {text!r}; {listed}; "
        "fetch one with `dialeval models pull NAME`, or name a folder or a Hub id such as org/name"
    )


def names() -> list[tuple[str, str, Path]]:
    """Return name, origin (`shipped` or `pulled`) and folder of all named artefacts.

    Shipped ones have precedence over pulled ones of the same name.
    """
    by_name = {name: (name, "shipped", folder) for name, folder in _shipped()}
    with contextlib.suppress(UsageError):  # no home folder
        for name, folder in _artefacts(home() / "models"):
            by_name.setdefault(name, (name, "pulled", folder))
    return list(by_name.values())


@functools.cache
def _shipped() -> list[tuple[str, Path]]:
    """Return the names and folders of the shipped artefacts."""
    return _artefacts(Path(__file__).parent / "shipped")


def _artefacts(place: Path) -> list[tuple[str, Path]]:
    with contextlib.suppress(OSError):  # missing or not readable
        folders = [
            folder
            for folder in sorted(place.iterdir())
            if _NAME.fullmatch(folder.name) and _has_config(folder)
        ]
        return [(folder.name, folder) for folder in folders]
    return []


class Model:
    """A model loaded from an artefact, one instance per artefact and process."""

    kinds: ClassVar[tuple[str, ...]]
    """The artefact classes that it can be loaded from."""
    default: ClassVar[str]
    """The default of `load`."""

    def __init__(self, artefact: Artefact) -> None:
        self.sha, self.name = artefact.sha, str(artefact.config.get("name", artefact.folder.name))

    @property
    def origin(self) -> dict[str, str]:
        """Its name and hash, for the configuration of models trained on it; see `recorded`."""
        return {"name": self.name, "sha": self.sha}

    @classmethod
    def load(cls, name: str | Path | None = None) -> Self:
        """Load it by folder, shipped name, pulled name or Hub id."""
        kind: Any = cls
        model: Self = models(kind, str(resolve(cls.default if name is None else name)))
        return model


Opened = TypeVar("Opened")


def opened_once(open_folder: Callable[[str], Opened]) -> Callable[[str | Path], Opened]:
    """Return a function that opens a folder, shipped name, pulled name or Hub id once in a process."""
    opened = functools.lru_cache(maxsize=32)(open_folder)
    if hasattr(os, "register_at_fork"):  # a runtime's threads do not survive a fork: the child opens its own
        os.register_at_fork(after_in_child=opened.cache_clear)
    return functools.wraps(open_folder)(lambda name: opened(str(resolve(name))))


@functools.lru_cache(maxsize=32)
def models(kind: type[Model], folder: str) -> Any:
    """Return the model of a folder, loaded once per process."""
    return kind(load(folder, *kind.kinds))


if hasattr(os, "register_at_fork"):  # a runtime's threads do not survive a fork: the child loads its own
    os.register_at_fork(after_in_child=models.cache_clear)


class _Origin(msgspec.Struct):
    name: str
    sha: str


Loaded = TypeVar("Loaded", bound=Model)


def recorded(config: Mapping[str, Any], field: str, file: Path, load: Callable[[str], Loaded]) -> Loaded:
    """Load the model that an artefact was trained on, by the name and hash in a field of its config."""
    origin: _Origin = read_setting(config, field, _Origin, file)
    if "/" in origin.name:  # a Hub id: a file must not cause a download
        fix = "train again on a shipped or pulled model"
        raise DataError(f"{origin.name[:80]!a} is not installed", file=file, field=field, fix=fix)
    model = load(origin.name)
    if model.sha != origin.sha:
        raise DataError(
            f"trained on another version of {origin.name}: {origin.sha[:12]}, installed is {model.sha[:12]}",
            file=file,
            field=field,
            fix="get the version that it was trained on, or train again",
        )
    return model


def home() -> Path:
    """Return the folder of pulled artefacts: `$DIALEVAL_HOME`, by default the user's cache folder."""
    try:
        if chosen := os.environ.get("DIALEVAL_HOME"):
            return Path(chosen).expanduser()
        cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
        return (cache if cache.is_absolute() else Path("~/.cache").expanduser()) / "dialeval"
    except RuntimeError:
        raise UsageError("this user has no home folder: set DIALEVAL_HOME to a folder") from None


def _has_config(folder: Path) -> bool:
    try:
        return (folder / CONFIG).is_file()
    except OSError:
        return False


def _check_names(files: Iterable[str]) -> None:
    seen = {name.casefold() for name in (CONFIG, CARD, SUMS)}
    for name in files:
        if not PLAIN_NAME.fullmatch(name):
            raise UsageError(f"{name[:80]!a} cannot be the name of a file in an artefact")
        if name.casefold() in seen:  # some file systems ignore case
            raise UsageError(f"{name!r}: an artefact has a file of this name already")
        seen.add(name.casefold())


def _config_text(kind: str, fields: Mapping[str, Any], files: Iterable[str]) -> bytes:
    """Return the text of `config.json`; refuses what `verify` would refuse."""
    if kind not in CLASSES:
        raise UsageError(f"unknown class {kind!r}; known: {', '.join(sorted(CLASSES))}")
    if reserved := fields.keys() & {"class", "dialeval"}:
        raise UsageError(f"the field {reserved.pop()!r} is written by save itself")
    config = {"class": kind, "dialeval": __version__, **fields}
    try:
        text = json.dumps(config, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False).encode()
        wrong = find_fault(parse_object(text, Path(CONFIG)), {*files, CARD})
    except (TypeError, ValueError, RecursionError, DataError) as error:
        raise UsageError(f"fields of an artefact must be plain JSON: {error}") from None
    if wrong:
        raise UsageError(f"the field {wrong[0]!r} of an artefact: {wrong[1]}")
    return text + b"\n"


def _check_replaceable(target: Path) -> None:
    """Raise if the target holds anything but an artefact, because it would be deleted."""
    entries = _entries(target) if target.is_dir() else set()
    expected = {SUMS, *read_sums(target / SUMS)} if {SUMS, CONFIG} <= entries else set()
    if unexpected := [name for name in entries - expected if name == ".git" or not name.startswith(".")]:
        raise DataError(
            f"this folder holds {min(unexpected)!a}, which is not part of an artefact",
            file=target,
            fix="choose another folder, or remove what is there",
        )


def _entries(folder: Path) -> set[str]:
    try:
        return {entry.name for entry in folder.iterdir()}
    except OSError as error:
        fix = "name the folder of an artefact"
        raise DataError(error.strerror or "cannot be read", file=folder, fix=fix) from None


def _no_artefact(folder: Path) -> DataError:
    """Return the error for a folder that is not an artefact; names a Hugging Face model as such."""
    if not _has_config(folder):
        return DataError(f"has no {CONFIG} and no {SUMS}: this is not an artefact", file=folder)
    if "class" in parse_object(read_small(folder / CONFIG, follow=True), folder / CONFIG):
        return DataError("is missing", file=folder / SUMS, fix=_AFRESH)
    return DataError(
        'no "class": this is a Hugging Face model, not a dialeval artefact',
        file=folder / CONFIG,
        fix=f"make an artefact of it with `dialeval models export {shlex.quote(str(folder))} -o DIR`",
    )
