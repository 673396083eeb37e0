"""Changes to files that look like a hostile or a careless hand: bytes, lines, and what JSON and tables hold.

All chance comes from the generator that is handed in, so that the same seed makes the same file again.
"""

import copy
import io
import json
import random
import struct
from collections.abc import Callable
from typing import Any

AWKWARD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**400, 0.5, -0.0, 1e308, 1e-320),
    *("", " ", "x", "0", "-1", "²", "9" * 5000, "\x00", "\ud800", "\u2028", "a\nb", "=1+1", "x" * 70_000),
    *("../../etc/passwd", "/etc/passwd", "C:\\x", "file:///x", "~root/x", "nan", "user", "a_b", "org/name"),
    *([], {}, [None], [[]], [{}], {"": None}, {"x": []}, [0, -1], ["a", 1], {"a": {"b": [1]}}),
)
TOKENS: tuple[bytes, ...] = (
    *(b"", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\x1f\x8b", b"\r", b"\n", b"\r\n", b"\t"),
    *(b'"', b'""', b"'", b"'''", b",", b",,", b":", b"=", b"[", b"]", b"{", b"}", b"[[", b"#", b"\\", b"\\u"),
    *(b"\\ud800", b"null", b"true", b"NaN", b"-Infinity", b"1e999", b"-1", b"0", b"9" * 5000, b"[" * 3000),
    *(b'{"a":' * 2000, b"a" * 5000, b"../", b"/etc/passwd", b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"PAR1"),
    *(
        b"2026-11-31",
        b"inf",
        b"0x1",
        b"1_000",
        b'"\\x"',
        b"a.b.c = 1\n",
        b"[a]\n[a]\n",
        b"GGUF",
        b"PK\x03\x04",
    ),
)
Mutate = Callable[[bytes, random.Random], bytes]


def any_bytes(data: bytes, chance: random.Random) -> bytes:
    """Cut, overwrite, double or put in a few bytes, or flip a bit."""
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        start = chance.randrange(len(made) + 1)
        end = min(len(made), start + chance.choice((0, 1, 2, 8, 64)))
        way = chance.randrange(6)
        if way == 0:
            del made[start:end]
        elif way == 1:
            made[start:end] = chance.choice(TOKENS)
        elif way == 2:
            made[start:end] = made[start:end] * chance.choice((2, 3))
        elif way == 3:
            del made[start:]
        elif way == 4 and start < len(made):
            made[start] ^= 1 << chance.randrange(8)
        else:
            made[start:end] = chance.randbytes(end - start)
    return bytes(made)


def any_line(data: bytes, chance: random.Random) -> bytes:
    """Drop, double, swap or join lines, or give one another value after its `=`, `:` or comma."""
    lines = data.split(b"\n")
    at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    way = chance.randrange(6)
    if way == 0:
        del lines[at]
    elif way == 1:
        lines.insert(other, lines[at])
    elif way == 2:
        lines[at], lines[other] = lines[other], lines[at]
    elif way == 3:
        lines[at] = lines[at] + lines[other]
    else:
        mark = chance.choice((b"=", b":", b",", b" "))
        parts = lines[at].split(mark)
        value = json.dumps(chance.choice(AWKWARD)).encode() if way == 4 else chance.choice(TOKENS)
        parts[chance.randrange(len(parts))] = value
        lines[at] = mark.join(parts)
    return b"\n".join(lines)


def any_value(found: Any, chance: random.Random) -> Any:
    """Exchange, drop or move one thing somewhere in a JSON value, or give a key another name."""
    holder = {"": copy.deepcopy(found)}
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        places = list(_places(holder))
        inside, key = chance.choice(places)
        way = chance.randrange(8)
        if way == 0 and inside is not holder:
            del inside[key]
        elif way == 1:
            there, name = chance.choice(places)
            inside[key] = copy.deepcopy(there[name])
        elif way == 2 and isinstance(inside, dict) and inside is not holder:
            name = str(chance.choice((*AWKWARD[14:25], *inside)))
            inside[name] = inside.pop(key)
        elif way == 3 and isinstance(inside, list):
            inside.insert(key, copy.deepcopy(chance.choice(AWKWARD)))
        else:
            inside[key] = copy.deepcopy(chance.choice(AWKWARD))
    return holder[""]


def _places(holder: Any) -> Any:
    items = holder.items() if isinstance(holder, dict) else enumerate(holder)
    for key, value in items:
        yield holder, key
        if isinstance(value, dict | list):
            yield from _places(value)


def any_json(data: bytes, chance: random.Random) -> bytes:
    """Change what JSON holds, a whole file or one of its lines; what is not JSON is changed by lines."""
    try:
        return _written(any_value(json.loads(data), chance))
    except (ValueError, RecursionError):
        lines = data.split(b"\n")
        at = chance.randrange(len(lines))
        try:
            lines[at] = _written(any_value(json.loads(lines[at]), chance))
        except (ValueError, RecursionError):
            return any_line(data, chance)
        return b"\n".join(lines)


def _written(found: Any) -> bytes:
    return json.dumps(found).encode()


def any_table(data: bytes, chance: random.Random) -> bytes:
    """Give a Parquet file other columns: of another type, name, length of name, or none at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(pa.BufferReader(data), use_threads=False, pre_buffer=False)
        names = table.column_names  # which may be no text
    except (pa.ArrowException, OSError, ValueError):
        return any_bytes(data, chance)
    at, rows = chance.randrange(max(1, table.num_columns)), table.num_rows
    way = chance.randrange(6)
    if way == 0 and table.num_columns > 1:
        table = table.remove_column(at)
    elif way == 1 and names:
        names[at] = chance.choice((*names, "", "\u2028", "meta", "messages"))
        table = table.rename_columns(names)
    elif way == 2:
        table = table.replace_schema_metadata(
            {chance.choice((b"dialeval", b"x")): chance.choice(TOKENS)[:200]}
        )
    elif names:
        table = table.set_column(at, names[at], _column(rows, chance))
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def _column(rows: int, chance: random.Random) -> Any:
    import pyarrow as pa

    kinds: tuple[Any, ...] = (
        pa.array([None] * rows),
        pa.array([-1] * rows),
        pa.array([2**63] * rows, pa.uint64()),
        pa.array([float("nan")] * rows),
        pa.array([chance.choice(TOKENS)] * rows, pa.binary()),
        pa.array(["\u2028"] * rows),
        pa.array([[]] * rows, pa.list_(pa.string())),
        pa.array([{"role": None, "content": 1}] * rows),
        pa.array([[{"role": "user", "content": [1], "meta": "["}]] * rows),
        pa.array([True] * rows),
        pa.array([2**62] * rows, pa.timestamp("ns")),
        pa.array([10**15] * rows, pa.timestamp("s")),
        pa.array(["x"] * rows).dictionary_encode(),
    )
    return chance.choice(kinds)


def any_weights(data: bytes, chance: random.Random) -> bytes:
    """Change the header of a safetensors file and keep its length honest, more often than not."""
    size = int.from_bytes(data[:8], "little")
    try:
        header = _written(any_value(json.loads(data[8 : 8 + size]), chance))
    except (ValueError, RecursionError):
        return any_bytes(data, chance)
    length = len(header) if chance.random() < 0.9 else chance.choice((0, 1, 2**31, 2**60))
    return struct.pack("<Q", length) + header + data[8 + size :]


def one_of(*ways: Mutate) -> Mutate:
    """Take any of these ways, and bytes now and then."""

    def mutate(data: bytes, chance: random.Random) -> bytes:
        return chance.choice((*ways, *ways, any_bytes))(data, chance)

    return mutate
