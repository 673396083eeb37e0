"""The table of scores: fixed columns, a signature per source, reading and writing."""

import io
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dialeval import files
from dialeval.errors import DataError, UsageError
from dialeval.parquet import Parquet
from dialeval.scores.signature import Signature, add_signature

Level = Literal["turn", "dialogue"]

SCHEMA = pa.schema(
    [
        pa.field("dialogue_id", pa.string(), nullable=False),
        pa.field("turn", pa.int32()),
        pa.field("system", pa.string()),
        pa.field("source", pa.string(), nullable=False),
        pa.field("dimension", pa.string(), nullable=False),
        pa.field("value", pa.float64()),
        pa.field("note", pa.string()),
    ]
)
_METADATA = b"dialeval"
UNSCORED = "unscored"
_MOST_SHOWN = 100  # rows of a summary in a notebook
FAULT_SOURCES = ("rules", "faults")  # metrics whose dimensions are faults of replies
_HEADER = ("source", "dimension", "level", "system", "mean", "n", "unscored")
_SUMMARIES = ("faultless", "faults", "overall")  # their dimensions that are not faults


class Score(NamedTuple):
    """One row: the score of a source for one dimension of a turn, or of a dialogue (turn None)."""

    dialogue_id: str
    turn: int | None
    system: str | None
    source: str
    dimension: str
    value: float | None
    note: str | None = None


def is_human(source: str) -> bool:
    """Return whether a source is a person: `human` or `human:<rater>`."""
    return source == "human" or source.startswith("human:")


def overall_first(dimensions: Sequence[str]) -> str | None:
    """Return the dimension that stands for all: `overall`, else `quality`, else the first; None if none.

    >>> overall_first(["fluent", "quality"]), overall_first(["fluent", "fun"]), overall_first([])
    ('quality', 'fluent', None)
    """
    return next((name for name in ("overall", "quality", *dimensions) if name in dimensions), None)


def is_fault(source: str, dimension: str) -> bool:
    """Return whether a column is a fault of replies: 1, 0 or a probability.

    >>> is_fault("rules", "empty"), is_fault("faults", "faultless"), is_fault("quality", "quality")
    (True, False, False)
    """
    return source in FAULT_SOURCES and dimension not in _SUMMARIES


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Scores:
    """An Arrow table of scores and the signature of each source.

    >>> scores = Scores.of([Score("d1", 1, "bot", "length", "words", 3.0), Score("d1", 3, "bot", "length",
    ...     "words", None, "empty turn")], {"length": Signature("length.v1")})
    >>> scores.summary()[0]["mean"], scores.summary()[0]["n"], scores.summary()[0]["n_unscored"]
    (3.0, 1, 1)
    """

    table: pa.Table
    signatures: Mapping[str, Signature] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Iterable[Score], signatures: Mapping[str, Signature] | None = None) -> "Scores":
        """Return a table of rows; values that are not finite become unscored."""
        columns: list[list[Any]] = [[] for _ in SCHEMA]
        appends = [column.append for column in columns]
        for row in rows:
            for append, item in zip(appends, row, strict=True):
                append(item)
        return cls.from_columns(columns, signatures)

    @classmethod
    def from_columns(
        cls, columns: Sequence[Any], signatures: Mapping[str, Signature] | None = None
    ) -> "Scores":
        """Return a table of columns in the order of the schema; non-finite values become unscored."""
        arrays = [pa.array(column, item.type) for column, item in zip(columns, SCHEMA, strict=True)]
        return cls(_checked(pa.Table.from_arrays(arrays, schema=SCHEMA)), dict(signatures or {}))

    @classmethod
    def concat(cls, parts: Iterable["Scores"]) -> "Scores":
        """Concatenate tables; a source may not have two different signatures.

        Signatures of a person who took part in several annotation projects are joined.
        """
        parts = list(parts)
        signatures: dict[str, Signature] = {}
        for part in parts:
            for source, signature in part.signatures.items():
                if not add_signature(signatures, source, signature):
                    raise DataError(
                        f"two signatures for the source {source!r}: {signatures[source]} and {signature}",
                        fix="give one of them another name: -m other=metric, or source=… in --map",
                    )
        tables = [part.table for part in parts] or [SCHEMA.empty_table()]
        return cls(pa.concat_tables(tables), signatures)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[Score]:
        for batch in self.table.to_batches(max_chunksize=65_536):
            yield from map(Score._make, zip(*(column.to_pylist() for column in batch.columns), strict=True))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Scores)
            and self.table.equals(other.table)
            and self.signatures == other.signatures
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def sources(self) -> list[str]:
        """Names of all sources, in order of first appearance."""
        return [str(name) for name in self.table["source"].unique().to_pylist()]

    @property
    def dimensions(self) -> list[str]:
        """Names of all dimensions, in order of first appearance."""
        return [str(name) for name in self.table["dimension"].unique().to_pylist()]

    def where(
        self,
        *,
        source: str | Callable[[str], bool] | None = None,
        dimension: str | None = None,
        level: Level | None = None,
        system: str | None = None,
    ) -> "Scores":
        """Return the rows that fulfil all given conditions."""
        masks = []
        if callable(source):
            chosen = [name for name in self.sources if source(name)]
            masks.append(pc.is_in(self.table["source"], pa.array(chosen, pa.string())))
        named = {"source": None if callable(source) else source, "dimension": dimension, "system": system}
        masks += [pc.equal(self.table[name], value) for name, value in named.items() if value is not None]
        if level is not None:
            masks.append((pc.is_valid if level == "turn" else pc.is_null)(self.table["turn"]))
        table = self.table.filter(reduce(pc.and_, masks)) if masks else self.table
        present = set(table["source"].unique().to_pylist())
        return Scores(table, {name: self.signatures[name] for name in self.signatures if name in present})

    def renamed(self, source: str) -> "Scores":
        """Return the rows under another source name, for a table with at most one source."""
        if len({*self.sources, *self.signatures}) > 1:
            raise DataError(f"more than one source to call {source!r}: {', '.join(self.sources)}")
        column = pa.array([source] * len(self), pa.string())
        table = self.table.set_column(3, SCHEMA.field("source"), column)
        return Scores(table, dict.fromkeys([source], *self.signatures.values()) if self.signatures else {})

    def summary(self) -> list[dict[str, Any]]:
        """Return means per system, source, dimension and level, each with n and n_unscored."""
        table = self.table.append_column(
            "level", pc.if_else(pc.is_null(self.table["turn"]), "dialogue", "turn")
        )
        table = table.append_column("unscored", pc.cast(pc.is_null(table["value"]), pa.int64()))
        keys = ["system", "source", "dimension", "level"]
        groups = table.group_by(keys, use_threads=False).aggregate(
            [("value", "mean"), ("value", "count"), ("unscored", "sum")]
        )
        return [
            {key: row[key] for key in keys}
            | {"mean": row["value_mean"], "n": row["value_count"], "n_unscored": row["unscored_sum"]}
            for row in groups.to_pylist()
        ]

    def __repr__(self) -> str:
        return f"<Scores: {len(self):,} of {', '.join(self.sources) or 'nothing'}>"

    def __str__(self) -> str:
        from dialeval.scores import display

        return display.to_text(_HEADER, self._rows())

    def _repr_html_(self) -> str:
        from dialeval.scores import display

        return display.to_html(f"{len(self):,} scores", _HEADER, self._rows())

    def _rows(self) -> list[list[str]]:
        """Return the means as text, under `_HEADER`."""
        return [
            [
                *(row[name] or "" for name in _HEADER[:4]),
                "" if row["mean"] is None else f"{row['mean']:.3g}",
                *(f"{row[name]:,}" for name in ("n", "n_unscored")),
            ]
            for row in self.summary()[:_MOST_SHOWN]
        ]

    def to_pandas(self) -> Any:
        """Return the rows as a pandas data frame with the signatures in its `attrs`."""
        frame = self.table.to_pandas()
        frame.attrs["signatures"] = {source: str(signature) for source, signature in self.signatures.items()}
        return frame

    def to_polars(self) -> Any:
        """Return the rows as a polars data frame."""
        return import_module("polars").from_arrow(self.table)

    @classmethod
    def from_pandas(cls, frame: Any, signatures: Mapping[str, Signature] | None = None) -> "Scores":
        """Return a table of a data frame of pandas, or of any library that exports Arrow.

        Args:
            frame: With the columns `dialogue_id`, `source` and `value`; `turn`, `system`, `dimension` (by
                default the name of the source) and `note` may be missing.
            signatures: The signatures of the sources; by default those in the frame's `attrs`.

        >>> frame = pa.table({"dialogue_id": ["d1"], "source": ["judge"], "value": [0.5]})
        >>> next(iter(Scores.from_pandas(frame)))[:6]
        ('d1', None, None, 'judge', 'judge', 0.5)
        """
        is_pandas = hasattr(frame, "attrs")
        table = pa.Table.from_pandas(frame, preserve_index=False) if is_pandas else pa.table(frame)
        refuse_twins("the data frame", table.column_names)
        for name in ("dialogue_id", "source", "value"):
            if name not in table.column_names:
                raise DataError(f"no column {name!r} in a table of scores", field=name, fix="rename a column")
        if "dimension" not in table.column_names:
            table = table.append_column("dimension", table["source"])
        nothing = pa.nulls(table.num_rows)
        columns = [table[name] if name in table.column_names else nothing for name in SCHEMA.names]
        try:
            arrays = [column.cast(item.type) for column, item in zip(columns, SCHEMA, strict=True)]
            built = pa.Table.from_arrays(arrays, schema=SCHEMA)
        except (pa.ArrowException, ValueError) as error:
            raise DataError(
                f"the data frame: {error}", fix="text for names, whole numbers for turns"
            ) from None
        if signatures is None and is_pandas:
            stored = frame.attrs.get("signatures", {})
            signatures = {source: Signature.parse(text) for source, text in stored.items()}
        return cls(_checked(built.combine_chunks()), dict(signatures or {}))

    def duplicates(self) -> list[tuple[str, int | None, str, str]]:
        """Return the units that one source scored more than once in one dimension.

        Answers of several systems to one context are different units.
        """
        keys = ["dialogue_id", "turn", "source", "dimension"]
        counts = self.table.group_by([*keys, "system"], use_threads=False).aggregate([([], "count_all")])
        twice = counts.filter(pc.greater(counts["count_all"], 1)).select(keys)
        return [tuple(row.values()) for row in twice.to_pylist()]

    def write(self, path: str | Path) -> None:
        """Write Parquet, JSONL or CSV, by the ending of the name; `-` writes JSONL to standard output."""
        from dialeval.scores import columns

        suffix = ".jsonl" if str(path) == "-" else Path(path).suffix.lower()
        if suffix == ".parquet":
            with files.replacing(path) as file:
                self.write_parquet(file)
        elif suffix in (".jsonl", ".csv"):
            files.write_text(path, columns.to_jsonl(self) if suffix == ".jsonl" else columns.to_csv(self))
        else:
            ending = suffix or "a file without an ending"
            raise UsageError(f"cannot write {path}: {ending}; use .parquet, .jsonl or .csv")

    def write_parquet(self, file: Any) -> None:
        """Write Parquet with the signatures in the file's metadata; equal scores give equal bytes."""
        import pyarrow.parquet as pq

        table = self.table.combine_chunks().replace_schema_metadata(metadata(self.signatures))
        pq.write_table(table, file, compression="zstd")

    def to_parquet(self) -> bytes:
        """Return the bytes of a Parquet file."""
        self.write_parquet(buffer := io.BytesIO())
        return buffer.getvalue()

    @classmethod
    def read(cls, path: str | Path, columns: str | None = None) -> "Scores":
        """Read a table of scores or ratings.

        Args:
            path: Parquet, JSONL or CSV. A folder of Parquet files, as written by a batch, is one table, in
                the order of file names.
            columns: Which columns hold what, if the table is not one of ours, as in `--map`:
                `id=conversation,value=stars,rater=annotator`.
        """
        from dialeval.scores import columns as tables

        if columns is not None:
            return tables.read_columns(*tables.ColumnMap.parse(f"{path}:{columns}"))
        if Path(path).is_dir() and (parts := sorted(Path(path).glob("*.parquet"))):
            return cls.concat(map(read_parquet, parts))
        if Path(path).suffix.lower() == ".parquet":
            return read_parquet(path)
        return tables.read_scores(path)


def metadata(signatures: Mapping[str, Signature]) -> dict[bytes, bytes]:
    """Return the metadata of a Parquet file with the signatures."""
    import json

    return {_METADATA: json.dumps({"signatures": {k: str(v) for k, v in signatures.items()}}).encode()}


def read_parquet(path: str | Path) -> Scores:
    """Read a Parquet file of scores; columns may be in any order."""
    table = open_parquet(path)
    missing = [name for name in SCHEMA.names if name not in table.column_names]
    if missing:
        raise DataError(
            f"no column {missing[0]!r} in a table of scores",
            file=path,
            field=missing[0],
            fix="use --map to name columns",
        )
    try:
        ours = table.select(SCHEMA.names).cast(SCHEMA)
    except (pa.ArrowException, ValueError) as error:
        raise DataError(str(error), file=path) from None
    return Scores(_checked(ours), _signatures_in(table, path))


def open_parquet(path: str | Path) -> pa.Table:
    """Read a Parquet file with any columns."""
    with files.open_binary(path) as file:
        try:
            # From memory and in this thread: a reader thread that outlives an error crashes the process.
            parquet = Parquet(io.BytesIO(file.read()), path)
            batches = list(parquet.batches())
            table = pa.Table.from_batches(batches) if batches else parquet.schema.empty_table()
            table.validate(full=True)  # finds invalid text
            names = table.column_names  # and this, invalid names
        except (pa.ArrowException, OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
            raise DataError(f"not a Parquet file: {error}", file=path) from None
    refuse_twins(path, names)
    return table


def refuse_twins(path: str | Path, header: Sequence[str], line: int | None = None) -> None:
    """Refuse a table with two columns of one name, because one of them would be lost silently."""
    for twice in header if len(set(header)) < len(header) else ():
        if header.count(twice) > 1:
            fix = "rename or remove one of them" if twice else "name or remove columns without a name"
            raise DataError("duplicate column", file=path, line=line, field=twice or "''", fix=fix)


def _signatures_in(table: pa.Table, path: str | Path) -> dict[str, Signature]:
    import json

    try:
        packed = json.loads((table.schema.metadata or {}).get(_METADATA, b"{}"))
        return {source: Signature.parse(text) for source, text in packed.get("signatures", {}).items()}
    except (ValueError, AttributeError, DataError) as error:
        raise DataError(f"the signatures in this file cannot be read: {error}", file=path) from None


def _checked(table: pa.Table) -> pa.Table:
    """Enforce the contract: NaN and infinities are unscored, unscored rows have a note, no note is empty."""
    value, note = table["value"], table["note"]
    bad = pc.fill_null(pc.invert(pc.is_finite(value)), False)
    note = pc.if_else(pc.fill_null(pc.equal(note, ""), False), pa.scalar(None, pa.string()), note)
    note = pc.if_else(bad, pc.coalesce(note, pa.scalar("not a finite number")), note)
    value = pc.if_else(bad, pa.scalar(None, pa.float64()), value)
    note = pc.if_else(pc.is_null(value), pc.coalesce(note, pa.scalar(UNSCORED)), note)
    return table.set_column(5, SCHEMA.field("value"), value).set_column(6, SCHEMA.field("note"), note)
