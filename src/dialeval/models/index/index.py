"""`Index`: a searchable store of dialogues and their features."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from dialeval.dialogues import Dialogue
from dialeval.errors import DataError, UsageError
from dialeval.models.artefact import Model
from dialeval.models.encoder import Encoder
from dialeval.models.index import layout
from dialeval.models.index.approximate import MOST, Searcher
from dialeval.models.index.dense import VectorColumn
from dialeval.models.index.layout import (
    QUERIES,
    Approximate,
    Array,
    IndexConfig,
    Origin,
    check_encoder,
    origin_of,
)
from dialeval.models.index.ragged import TokenColumn
from dialeval.models.index.writing import (
    COLUMNS,
    DOCUMENTS,
    IDS,
    Block,
    Column,
    dialogue_blocks,
    extend,
    kinds_of,
    prepared,
    read_rows,
    row_blocks,
)
from dialeval.models.token_states import TokenStates

if TYPE_CHECKING:
    import pyarrow as pa

EXACT_UP_TO = 200_000


class Hit(NamedTuple):
    """A search result: the dialogue's id, and the cosine of its features with the query's."""

    id: str
    score: float


class Index:
    """Dialogues with named columns of features, in a memory-mapped folder.

    A column is dense (a vector per dialogue), sparse (words weighted by TF-IDF), or holds token states, which
    are read, not searched. Rows are in the order in which dialogues were added.

    >>> import tempfile
    >>> requests = ["a cheap hotel", "a hotel in the centre", "a train at noon"]
    >>> where = np.array([[3, 4], [4, 3], [0, 1]])
    >>> folder = Path(tempfile.mkdtemp()) / "mine"
    >>> index = Index.build(folder, ["d1", "d2", "d3"], {"words": requests, "where": where})
    >>> [(hit.id, round(hit.score, 3)) for hit in index.search(["A cheap room"], 2, column="words")[0]]
    [('d1', 0.837), ('d3', 0.164)]
    >>> [(hit.id, round(hit.score, 3)) for hit in index.search(np.array([[0, 2]]), 2, column="where")[0]]
    [('d3', 1.0), ('d1', 0.8)]
    """

    def __init__(self, folder: Path, config: IndexConfig) -> None:
        self.folder = folder
        self._take(config)

    def _take(self, config: IndexConfig) -> None:
        self._config, self._table = config, read_rows(self.folder, config, config.segments)
        self._columns: dict[str, Any] = {}
        self._searchers: dict[str, Searcher | None] = {}

    # --- opening --------------------------------------------------------------------------------------------

    @classmethod
    def open(cls, folder: str | Path, *, encoder: Model | None = None, trust: bool = False) -> "Index":
        """Open an index for reading; the hash of every file is checked once per process.

        Args:
            folder: The folder; while a writer is active, the old or the new state is opened.
            trust: Check sizes only, for an index that is too large to hash.

        Raises:
            DataError: The folder is not an index, is damaged, or has vectors of another encoder.
        """
        folder = Path(folder)
        while True:
            config = layout.read_config(folder)
            if encoder is not None:
                check_encoder(folder, config.encoder, encoder)
            try:
                for part in config.parts:
                    layout.checked_part(folder, part, trust=trust)
                return cls(folder, config)
            except DataError:
                if layout.read_config(folder) == config:  # else it was replaced meanwhile: try again
                    raise

    # --- writing --------------------------------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        folder: str | Path,
        ids: Sequence[str],
        columns: Mapping[str, Column],
        *,
        encoder: Model | None = None,
        documents: Sequence[bytes] | None = None,
        exact_up_to: int = EXACT_UP_TO,
    ) -> "Index":
        """Write an index; an existing one is replaced.

        Args:
            folder: An index, an empty folder, or a new folder.
            ids: A unique id for each dialogue.
            columns: By name: an array with a vector per dialogue, or a list with a string, a list of terms or
                `TokenStates` per dialogue.
            encoder: The encoder of the vectors; the index can be opened with this one only.
            documents: Bytes to store for each dialogue, such as its JSON.
            exact_up_to: With more dialogues than this, vectors are searched approximately.

        Raises:
            DataError: An id is not unique, a vector is not finite, or the folder holds something else.
        """
        blocks = row_blocks(ids, columns, documents)
        return cls.build_from(folder, blocks, encoder=encoder, exact_up_to=exact_up_to)

    @classmethod
    def build_from(
        cls,
        folder: str | Path,
        blocks: Iterable[Block],
        *,
        encoder: Model | None = None,
        exact_up_to: int = EXACT_UP_TO,
    ) -> "Index":
        """Write an index from a stream of `(ids, columns, documents)`, in constant memory."""
        folder, stream = Path(folder), iter(blocks)
        layout.check_replaceable(folder)
        origin = origin_of(encoder)
        if not isinstance(exact_up_to, int) or exact_up_to < 0:
            raise UsageError(f"exact_up_to is a number of dialogues, not {exact_up_to!r}")
        first = next(stream, None)
        if first is None or not len(first[0]):
            raise DataError("nothing to index: no dialogues", file=folder)
        config = layout.empty_config(origin, kinds_of(first[1]), first[2] is not None, exact_up_to)
        with layout.writing(folder):
            return cls(folder, extend(folder, config, prepared(itertools.chain([first], stream), config)))

    @classmethod
    def of_dialogues(
        cls,
        folder: str | Path,
        dialogues: Iterable[Dialogue],
        encoder: Encoder,
        *,
        progress: Callable[[int], None] | None = None,
    ) -> "Index":
        """Index a stream of dialogues, with the columns `text` and `words` (see `features`) and their JSON.

        Args:
            folder: An index to replace, an empty folder, or a new folder.
        """
        return cls.build_from(folder, dialogue_blocks(dialogues, encoder, progress), encoder=encoder)

    def add(
        self, ids: Sequence[str], columns: Mapping[str, Column], *, documents: Sequence[bytes] | None = None
    ) -> None:
        """Add dialogues with the same columns, and documents if the index has them.

        Additions of other processes are kept and become visible here.

        Raises:
            DataError: An id exists, or another process is writing; nothing was changed.
        """
        self.add_from(row_blocks(ids, columns, documents))

    def add_dialogues(
        self,
        dialogues: Iterable[Dialogue],
        encoder: Encoder,
        *,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Add dialogues to an index made by `of_dialogues`, with the same encoder."""
        check_encoder(self.folder, self.encoder, encoder)
        self.add_from(dialogue_blocks(dialogues, encoder, progress))

    def add_from(self, blocks: Iterable[Block]) -> None:
        """Add dialogues from a stream of `(ids, columns, documents)`."""
        stream = iter(blocks)
        first = next(stream, None)
        if first is None:
            return
        with layout.writing(self.folder):
            now = Index.open(self.folder)
            if (now.encoder, now._config.columns) != (self.encoder, self._config.columns):
                fix = "open it again"
                raise DataError(
                    "was rebuilt meanwhile with another encoder or other columns", file=self.folder, fix=fix
                )
            fresh = now._new_only(prepared(itertools.chain([first], stream), now._config))
            self._take(extend(self.folder, now._config, fresh))

    def _new_only(self, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Yield the batches; raises if an id exists already."""
        for batch in batches:
            for name, row in zip(batch.column(IDS), self._find(batch.column(IDS)), strict=True):
                if row is not None:
                    field = repr(name.as_py().decode())
                    raise DataError("is in the index already", file=self.folder, field=field)
            yield batch

    # --- reading --------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @property
    def columns(self) -> dict[str, str]:
        """The kind of each column, `dense`, `sparse` or `tokens`, by its name."""
        return {name: str(kind.__struct_config__.tag) for name, kind in self._config.columns.items()}

    @property
    def encoder(self) -> Origin | None:
        """Name and hash of the encoder of the vectors, if known."""
        return self._config.encoder

    @property
    def sha(self) -> str:
        """The identity of the content: 64 hex digits over columns, rows and settings.

        For dialogues that were indexed with an encoder it is the same on every machine.
        """
        return self._config.identity

    @property
    def approximate(self) -> dict[str, Approximate]:
        """By column that is too large for exact search: the method, its effort and its recall."""
        return dict(self._config.approximate)

    @property
    def ids(self) -> list[str]:
        """The ids of all dialogues in the order of their rows."""
        return [name.decode("utf-8", "replace") for name in self._table[IDS].to_pylist()]

    def rows(self, ids: Sequence[str]) -> list[int]:
        """Return the row of each id."""
        import pyarrow as pa

        if isinstance(ids, str | bytes):
            raise UsageError("ids are a list of strings")
        numbers = self._find(pa.array([name.encode() for name in ids], pa.large_binary()))
        if None in numbers:
            raise DataError("is not in the index", file=self.folder, field=repr(ids[numbers.index(None)]))
        return [row for row in numbers if row is not None]

    def _find(self, ids: "pa.Array") -> list[int | None]:
        """Return the row of each id; None for unknown ids."""
        import pyarrow.compute as pc

        return list(pc.index_in(ids, value_set=self._table[IDS]).to_pylist())

    def _chosen(self, which: Sequence[str] | Sequence[int] | Array) -> list[int]:
        """Return the rows of ids, or row numbers as they are; raises for unknown ones."""
        if isinstance(which, str | bytes) or all(isinstance(item, str) for item in which):
            return self.rows(which)  # type: ignore[arg-type]
        rows = np.asarray(which)
        if rows.ndim != 1 or rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= len(self):
            raise UsageError(f"rows are whole numbers from 0 to {len(self) - 1}, or ids")
        return [int(row) for row in rows]

    def vectors(self, column: str = "text", ids: Sequence[str] | None = None) -> Array:
        """Return the vectors of a dense column, of length 1.

        Without `ids` the result is a read-only view of the file if there is only one batch, else a copy.
        """
        vectors = self._column(column)
        if not isinstance(vectors, VectorColumn):
            raise UsageError(f"the column {column!r} has {vectors.content}, not vectors")
        if ids is not None:
            return vectors.take(np.array(self.rows(ids), np.int64))
        return vectors.arrays[0] if len(vectors.arrays) == 1 else np.concatenate(vectors.arrays)

    def states(
        self, which: Sequence[str] | Sequence[int] | Array, column: str = "states"
    ) -> list[TokenStates]:
        """Return the token states of dialogues, by id or row, as read-only views."""
        states = self._column(column)
        if not isinstance(states, TokenColumn):
            raise UsageError(f"the column {column!r} has {states.content}, not token states")
        return states.take(self._chosen(which))

    def documents(self, which: Sequence[str] | Sequence[int] | Array) -> list[bytes]:
        """Return the stored documents of dialogues, by id or row."""
        if not self._config.documents:
            raise UsageError(f"{self.folder}: this index was built without documents")
        stored = self._table[DOCUMENTS]
        return [stored[row].as_py() for row in self._chosen(which)]

    def dialogues(self, which: Sequence[str] | Sequence[int] | Array) -> list[Dialogue]:
        """Return dialogues by id or row, from documents that are their JSON."""
        try:
            return [msgspec.json.decode(text, type=Dialogue) for text in self.documents(which)]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise DataError(f"a document is not a dialogue: {error}", file=self.folder) from None

    # --- searching ------------------------------------------------------------------------------------------

    def search(
        self, query: Column, k: int = 50, *, column: str = "text", exact: bool = False
    ) -> list[list[Hit]]:
        """Return the k dialogues with the highest cosine for each query; ties are in row order.

        The result of a query does not depend on the other queries.

        Args:
            query: For a dense column an array with a vector per row, for a sparse one a list of strings.
            exact: Compare with every dialogue; a k above 100 does so as well.
        """
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise UsageError(f"k is how many dialogues to find, not {k!r}")
        compared, k = self._searched(column), min(int(k), len(self))
        near = not exact and k <= MOST and isinstance(compared, VectorColumn)
        beside, ids = self._searcher(column, compared.width) if near else None, self._table[IDS]
        return [
            [
                Hit(ids[row].as_py().decode("utf-8", "replace"), score)
                for row, score in zip(rows.tolist(), scores.tolist(), strict=True)
            ]
            for queries in _parts(compared.checked_query(query))
            for rows, scores in compared.nearest(queries, k, beside)
        ]

    def cosines(self, query: Column, *, column: str = "text") -> Array:
        """Return the exact cosine of each query (a row) with every dialogue (a column).

        Scores that combine several columns can be computed from these.
        """
        compared = self._searched(column)
        parts = [
            np.concatenate([block for _, block in compared.cosines(queries)], axis=1)
            for queries in _parts(compared.checked_query(query))
        ]
        return np.concatenate(parts) if parts else np.empty((0, len(self)))

    def _column(self, name: str) -> Any:
        """Return a column; its content is checked at first use."""
        if name not in self._config.columns:
            names = ", ".join(self._config.columns)
            raise UsageError(f"no column {name!r} in this index; it has {names}")
        if name not in self._columns:
            kind, batches = self._config.columns[name], self._table[name].chunks
            self._columns[name] = COLUMNS[type(kind)](batches, kind, name, self.folder)
        return self._columns[name]

    def _searched(self, name: str) -> Any:
        if isinstance(self._column(name), TokenColumn):
            raise UsageError(f"the column {name!r} has token states, which are not searched")
        return self._column(name)

    def _searcher(self, column: str, width: int) -> Searcher | None:
        """Return the faiss index; None without faiss, or if a writer has removed its file meanwhile."""
        entry = self._config.approximate.get(column)
        if entry is None or entry.part is None:
            return None
        if column not in self._searchers:
            searcher = None
            try:
                searcher = Searcher(self.folder, entry, entry.part, width)
            except ImportError:
                pass
            except DataError:
                if layout.read_config(self.folder) == self._config:
                    raise
            self._searchers[column] = searcher
        return self._searchers[column]


def _parts(queries: Any) -> Iterator[Any]:
    return (queries[start : start + QUERIES] for start in range(0, len(queries), QUERIES))
