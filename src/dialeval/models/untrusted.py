"""Untrusted settings: strict JSON, and checks that no field names a file outside its folder."""

import hashlib
import json
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from dialeval.errors import DataError
from dialeval.manifests import open_regular

SMALL = 1_000_000  # bytes of files that are parsed or read by people
LARGE = 1 << 36  # bytes of a file of weights
_NAMES_A_FILE = re.compile(r"(.*[_.-])?file", re.DOTALL)
_OUTSIDE = re.compile(r"[/\\]|~\w*[/\\]|[A-Za-z]:[/\\]|file:/", re.IGNORECASE)


def read_small(path: Path, *, follow: bool = False) -> bytes:
    """Return the content of a file; more than `SMALL` bytes are refused."""
    with open_regular(path, follow=follow) as file:
        content = file.read(SMALL + 1)
    if len(content) > SMALL:
        raise DataError(f"more than {SMALL} bytes, too many for this file", file=path)
    return content


def parse_object(text: bytes, path: Path) -> dict[str, Any]:
    """Parse a JSON object strictly: UTF-8, unique keys, no NaN, bounded nesting.

    >>> parse_object(b'{"width": 384}', Path("config.json"))
    {'width': 384}
    >>> parse_object(b'{"width": 384, "width": 1}', Path("config.json"))
    Traceback (most recent call last):
    dialeval.errors.DataError: config.json: not the JSON expected: the key 'width' occurs twice
    """
    try:
        parsed = json.loads(text.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
        if b"\\ud" in text.lower():  # lone surrogates cannot be encoded
            json.dumps(parsed, ensure_ascii=False).encode()
    except RecursionError:
        raise DataError("not the JSON expected: nested too deeply", file=path) from None
    except ValueError as error:  # also invalid UTF-8 and numbers of thousands of digits
        raise DataError(f"not the JSON expected: {error}", file=path) from None
    if not isinstance(parsed, dict):
        raise DataError("not the JSON expected: not an object", file=path)
    return parsed


def read_setting(config: Mapping[str, Any], field: str, kind: Any, file: str | Path) -> Any:
    """Return a setting converted to a type; raises if it does not fit.

    >>> read_setting({"sizes": [3, 4]}, "sizes", list[int], "config.json")
    [3, 4]
    >>> read_setting({"sizes": [3, "4"]}, "sizes", list[int], "config.json")
    Traceback (most recent call last):
    dialeval.errors.DataError: config.json: sizes[1]: Expected `int`, got `str`
    """
    try:
        return msgspec.convert(config.get(field), kind)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$")
        raise DataError(message, file=file, field=field + place.removesuffix("`")) from None


def read_tables(name: str, shipped: Collection[str], package: str) -> dict[str, Any]:
    """Parse a TOML file: one of a package's own by name, or any by path."""
    if name in shipped:
        return tomllib.loads((resources.files(package) / f"{name}.toml").read_text(encoding="utf-8"))
    try:
        return tomllib.loads(read_small(Path(name).absolute(), follow=True).decode())
    except (ValueError, RecursionError) as error:
        raise DataError(f"not TOML: {error}", file=name) from None


def content_mark(name: str, shipped: Collection[str], content: Any) -> str:
    """Return the mark of a `read_tables` result in signatures: its content hash, with the name if shipped."""
    digest = hashlib.sha256(json.dumps(content, ensure_ascii=True).encode()).hexdigest()[:12]
    return f"{name}@{digest}" if name in shipped else digest


def find_fault(config: dict[str, Any], listed: Iterable[str]) -> tuple[str, str] | None:
    """Return field and problem of the first setting that names a forbidden file, or None.

    A setting called `file` or `…_file` must be one of the listed names; no string may be a path that leads
    out of the folder.

    >>> find_fault({"heads": [{"weights_file": "b.bin"}]}, ["a.bin"])
    ('heads.0.weights_file', "'b.bin' is not a file of this artefact")
    """
    listed = frozenset(listed)
    waiting: list[tuple[str, Any, bool]] = [("", config, False)]
    while waiting:
        place, value, is_file = waiting.pop()
        if isinstance(value, dict):
            for key, inner in value.items():
                if _leads_outside(key):
                    return _field(f"{place}{key}"), "a path that leads outside the artefact"
                waiting.append((f"{place}{key}.", inner, is_file or bool(_NAMES_A_FILE.fullmatch(key))))
        elif isinstance(value, list):
            waiting += [(f"{place}{number}.", inner, is_file) for number, inner in enumerate(value)]
        elif isinstance(value, str) and _leads_outside(value):
            return _field(place), f"{value[:80]!a} is a path that leads outside the artefact"
        elif is_file and value is not None and value not in listed:
            return _field(place), f"{str(value)[:80]!a} is not a file of this artefact"
    return None


def _leads_outside(text: str) -> bool:
    parts = re.split(r"[/\\]", text)
    return "\0" in text or _OUTSIDE.match(text) is not None or ".." in [part.strip() for part in parts]


def _field(place: str) -> str:
    return ascii(place.removesuffix(".")[:120])[1:-1]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"the key {key[:80]!a} occurs twice")
        result[key] = value
    return result


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")
