"""Which files a batch reads: what folders, globs and addresses stand for, in an order that stays."""

import fnmatch
import glob
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from dialeval import stores
from dialeval.dialogues.formats.reading import ending
from dialeval.errors import DataError
from dialeval.jobs import runs

_ENDINGS = (".jsonl", ".ndjson", ".json", ".parquet", ".csv", ".tsv")
_PATTERN = re.compile(r"[*?\[]")


def input_files(inputs: Sequence[str], without: str = "") -> list[str]:
    """List the files that inputs stand for, each once: absolute paths and addresses.

    A folder stands for every file below it with the ending of a format, hidden ones and those that begin with
    `_` left out; a run folder for the dialogues in it.

    Args:
        inputs: Files, folders, globs, or addresses (`s3://…`) of any of these.
        without: A folder whose files are not meant: where the scores go.
    """
    below = [
        one for given in inputs for one in (_stored(given) if stores.is_address(given) else _local(given))
    ]
    kept = [one for one in dict.fromkeys(below) if not without or not one.startswith(_as_folder(without))]
    if not kept:
        raise DataError(
            f"no dialogues in {', '.join(inputs)}", fix=f"files end in {', '.join(_ENDINGS)}, or .gz"
        )
    return kept


def absolute(place: str) -> str:
    """Name a place so that every process means the same; an address is one already."""
    return place if stores.is_address(place) else str(Path(place).absolute())


def _as_folder(place: str) -> str:
    return place.partition("?")[0].rstrip("/") + "/"


def _local(given: str) -> list[str]:
    path = Path(given)
    if runs.is_run(path) and (path / runs.DIALOGUES).is_file():
        return [absolute(str(path / runs.DIALOGUES))]
    if path.is_dir():
        found = [one for one in sorted(path.rglob("*")) if one.is_file()]
        return [absolute(str(one)) for one in found if _is_meant(one.relative_to(path).parts)]
    if not path.exists() and _PATTERN.search(given):
        return [absolute(one) for one in sorted(glob.glob(given, recursive=True)) if Path(one).is_file()]  # noqa: PTH207
    if not path.exists():
        raise DataError("no such file or folder", file=given, fix="check the path")
    return [absolute(given)]


def _stored(given: str) -> list[str]:
    path, mark, query = given.partition("?")
    if _PATTERN.search(path.partition("://")[2]):
        steps = path.split("/")
        fixed = next(place for place, step in enumerate(steps) if _PATTERN.search(step))
        folder, pattern = "/".join(steps[:fixed]) + mark + query, "/".join(steps[fixed:])
        names: Iterable[str] = fnmatch.filter(stores.sizes_below(folder), pattern)
    else:
        folder, names = given, stores.sizes_below(given)
        if "" in names:
            return [given]
        names = [name for name in names if _is_meant(name.split("/"))]
    return [stores.joined(folder, name) for name in names]


def _is_meant(parts: Sequence[str]) -> bool:
    return ending(parts[-1]) in _ENDINGS and not any(part.startswith((".", "_")) for part in parts)
