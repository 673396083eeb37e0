"""Files in object stores: `s3://`, `gs://`, `hdfs://` and other addresses, through pyarrow's filesystems.

What an address needs beside its path stands in its query (`?endpoint_override=…&scheme=http&region=…`) or in
the environment (`AWS_ENDPOINT_URL`, `AWS_REGION`, keys), as pyarrow and the tools of the store read them.
"""

import contextlib
import io
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from dialeval.errors import DataError

_ADDRESS = re.compile(r"(s3|gs|gcs|hdfs|viewfs|abfss?|file)://")
_BUFFER = 1 << 20


def is_address(path: object) -> bool:
    """Return whether a path is an address of a store rather than a local path.

    >>> is_address("s3://logs/may.jsonl"), is_address("logs/may.jsonl")
    (True, False)
    """
    return _ADDRESS.match(str(path)) is not None


def joined(address: str, name: str) -> str:
    """Return an address below another one; the query stays at the end.

    >>> joined("s3://logs/out/?scheme=http", "scores/part.parquet")
    's3://logs/out/scores/part.parquet?scheme=http'
    """
    path, mark, query = address.partition("?")
    return f"{path.rstrip('/')}/{name}{mark}{query}"


def open_address(address: str) -> BinaryIO:
    """Open a file of a store for reading with seeking."""
    with _readable_errors(address):
        system, path = _located(address)
        return cast(BinaryIO, io.BufferedReader(system.open_input_file(path), _BUFFER))


def read_bytes(address: str) -> bytes | None:
    """Return the content of a file, or None if it does not exist."""
    with _readable_errors(address):
        system, path = _located(address)
        try:
            with system.open_input_stream(path) as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None


def write_bytes(address: str, data: bytes) -> None:
    """Write a file of a store, which becomes visible when it is complete."""
    with _readable_errors(address):
        system, path = _located(address)
        if system.type_name in ("local", "hdfs"):  # other stores have no folders to make
            system.create_dir(path.rpartition("/")[0], recursive=True)
        with system.open_output_stream(path) as file:
            file.write(data)


def remove(address: str) -> None:
    """Remove a file if it exists."""
    with _readable_errors(address):
        system, path = _located(address)
        with contextlib.suppress(FileNotFoundError):
            system.delete_file(path)


def sizes_below(address: str) -> dict[str, int]:
    """Return the sizes of the files below a folder, by relative path; a file itself is `""`."""
    from pyarrow import fs

    with _readable_errors(address):
        system, path = _located(address)
        path = path.rstrip("/")
        info = system.get_file_info(path)
        if info.type == fs.FileType.File:
            return {"": info.size}
        below = system.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
        files = [entry for entry in below if entry.type == fs.FileType.File]
        return {
            entry.path[len(path) + 1 :]: entry.size for entry in sorted(files, key=lambda entry: entry.path)
        }


def _located(address: str) -> tuple[Any, str]:
    from pyarrow import fs

    system, path = fs.FileSystem.from_uri(address)
    return system, str(path)


@contextlib.contextmanager
def _readable_errors(address: str) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError:
        raise DataError("no such file", file=address, fix="check the address") from None
    except (OSError, pa.ArrowException, ValueError) as error:
        raise DataError(f"the store says: {str(error)[:300]}", file=address) from None
