"""`Index`: dialogues that can be found again by their features."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from dialeval.dialogues import Dialogue
from dialeval.errors import DataError, UsageError
from dialeval.models.index import layout
from dialeval.models.index.features import TextEncoder, given_dialogues
from dialeval.models.index.layout import Approximate, Config, Origin
from dialeval.models.index.origin import Named, check_encoder, origin_of
from dialeval.models.index.ragged import Array
from dialeval.models.index.rows import Ids, Rows
from dialeval.models.index.searching import Searches
from dialeval.models.index.writing import Column, Given, extend, in_blocks, kinds_of, prepared
from dialeval.models.states import TokenStates

EXACT_UP_TO = 200_000


class Hit(NamedTuple):
    """A dialogue that was found, and the cosine between its features and the query's."""

    id: str
    score: float


class Index:
    """Dialogues with named columns of features, in a folder, memory-mapped.

    A column is dense (a vector for each dialogue), sparse (the words of each dialogue, weighed by TF-IDF), or
    holds tokens (the states of every token, which are read, not searched). Rows are in the order in which
    dialogues were added.

    >>> import tempfile
    >>> said = ["a cheap hotel", "a hotel in the centre", "a train at noon"]
    >>> where = np.array([[3, 4], [4, 3], [0, 1]])
    >>> folder = Path(tempfile.mkdtemp()) / "mine"
    >>> index = Index.build(folder, ["d1", "d2", "d3"], {"words": said, "where": where})
    >>> [(hit.id, round(hit.score, 3)) for hit in index.search(["A cheap room"], 2, column="words")[0]]
    [('d1', 0.837), ('d3', 0.164)]
    >>> [(hit.id, round(hit.score, 3)) for hit in index.search(np.array([[0, 2]]), 2, column="where")[0]]
    [('d3', 1.0), ('d1', 0.8)]
    """

    def __init__(self, folder: Path, config: Config) -> None:
        self.folder = folder
        self._take(config)

    def _take(self, config: Config) -> None:
        self._rows = Rows(self.folder, config)
        self._config, self._searches = config, Searches(self.folder, config, self._rows.segments)

    # --- opening --------------------------------------------------------------------------------------------

    @classmethod
    def open(cls, folder: str | Path, *, encoder: Named | None = None) -> "Index":
        """Open an index for reading: names and sizes of its files are checked, not all of their bytes.

        Args:
            folder: Where it is. A writer may be at work there: what is opened is the old or the new.
            encoder: What queries will be encoded with, if they are.

        Raises:
            DataError: This is no index, it is damaged, or its vectors came from another encoder.
        """
        folder = Path(folder)
        while True:
            config = layout.read_config(folder)
            if encoder is not None:
                check_encoder(folder, config.encoder, encoder)
            try:
                return cls(folder, config)
            except DataError:
                if layout.read_config(folder) == config:  # else it has just given way to another: look again
                    raise

    @classmethod
    def verify(cls, folder: str | Path) -> "Index":
        """Open an index and check every byte of it.

        Raises:
            DataError: Names the file that is not as it was written.
        """
        index = cls.open(folder)
        for part in index._config.parts:
            layout.check_hashes(index.folder, part)
        return index

    # --- writing --------------------------------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        folder: str | Path,
        ids: Sequence[str],
        columns: Mapping[str, Column],
        *,
        encoder: Named | None = None,
        documents: Sequence[bytes] | None = None,
        exact_up_to: int = EXACT_UP_TO,
    ) -> "Index":
        """Write an index, in the place of the one that is there, if there is one.

        Args:
            folder: An index, an empty folder, or nothing yet.
            ids: One for each dialogue, each only once.
            columns: By name, for each dialogue: a numpy array with a vector a row, or a list with a string a
                dialogue, or a list of terms a dialogue, which are taken as they are, or its `TokenStates`.
            encoder: What made the vectors; the index opens only with this one from then on.
            documents: What to hand out by id, such as the JSON of each dialogue.
            exact_up_to: With more dialogues than these, vectors are searched approximately.

        Raises:
            DataError: An id comes twice, a vector is not finite, or the folder holds something else.
        """
        blocks = in_blocks(ids, columns, documents)
        return cls.build_from(folder, blocks, encoder=encoder, exact_up_to=exact_up_to)

    @classmethod
    def build_from(
        cls,
        folder: str | Path,
        blocks: Iterable[Given],
        *,
        encoder: Named | None = None,
        exact_up_to: int = EXACT_UP_TO,
    ) -> "Index":
        """Write an index from a stream of `(ids, columns, documents)`; memory does not grow with it."""
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
        encoder: TextEncoder,
        *,
        exact_up_to: int = EXACT_UP_TO,
        progress: Callable[[int], None] | None = None,
    ) -> "Index":
        """Index dialogues as a stream, with the columns `text` and `words` (see `features`) and their JSON.

        Args:
            folder: An index that is to be replaced, an empty folder, or nothing yet.
            dialogues: Any number of them.
            encoder: What makes the vectors.
            exact_up_to: With more dialogues than these, vectors are searched approximately.
            progress: Is told how many dialogues are done.
        """
        blocks = given_dialogues(dialogues, encoder, progress)
        return cls.build_from(folder, blocks, encoder=encoder, exact_up_to=exact_up_to)

    def add(
        self, ids: Sequence[str], columns: Mapping[str, Column], *, documents: Sequence[bytes] | None = None
    ) -> None:
        """Add dialogues: with the same columns, and with documents if the others have some.

        What another process has added meanwhile is kept, and seen from here on.

        Raises:
            DataError: An id is there already, or another process is writing; nothing was changed.
        """
        self.add_from(in_blocks(ids, columns, documents))

    def add_dialogues(
        self,
        dialogues: Iterable[Dialogue],
        encoder: TextEncoder,
        *,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Add dialogues to an index that `of_dialogues` made, with the same encoder."""
        check_encoder(self.folder, self.encoder, encoder)
        self.add_from(given_dialogues(dialogues, encoder, progress))

    def add_from(self, blocks: Iterable[Given]) -> None:
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
                    "was meanwhile built with another encoder or columns", file=self.folder, fix=fix
                )
            fresh = now._rows.new_only(prepared(itertools.chain([first], stream), now._config))
            self._take(extend(self.folder, now._config, fresh))

    # --- looking --------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def columns(self) -> dict[str, str]:
        """The kind of each column, `dense`, `sparse` or `tokens`, by its name."""
        return {name: type(kind).__name__.lower() for name, kind in self._config.columns.items()}

    @property
    def encoder(self) -> Origin | None:
        """Name and sha of what made the vectors, if that was said."""
        return self._config.encoder

    @property
    def sha(self) -> str:
        """The identity of what is searched: 64 hex digits over columns, rows and settings.

        Of dialogues that were indexed with an encoder it is the same on every machine.
        """
        return self._config.identity

    @property
    def approximate(self) -> dict[str, Approximate]:
        """For each column that is too large for exact search: the method, its effort and its recall."""
        return dict(self._config.approximate)

    @property
    def ids(self) -> Sequence[str]:
        """The ids of all dialogues in the order of their rows, read when they are asked for."""
        return Ids(self._rows)

    def rows(self, ids: Sequence[str]) -> list[int]:
        """Return the row of each id."""
        return self._rows.of(ids)

    def vectors(self, column: str = "text", ids: Sequence[str] | None = None) -> Array:
        """Return the vectors of a dense column as they are stored: with length 1.

        Without `ids` they are a read-only view of the file if there is only one, else a copy of all.
        """
        vectors = self._searches.vectors(column)
        if ids is not None:
            return vectors.take(np.array(self.rows(ids), np.int64))
        return vectors.arrays[0] if len(vectors.arrays) == 1 else np.concatenate(vectors.arrays)

    def states(
        self, which: Sequence[str] | Sequence[int] | Array, column: str = "states"
    ) -> list[TokenStates]:
        """Return the tokens of dialogues, named by their ids or rows: read-only views, not copies."""
        return self._searches.tokens(column).take(self._rows.chosen(which))

    def documents(self, ids: Sequence[str]) -> list[bytes]:
        """Return what was stored for each id, byte for byte."""
        return [self._rows.document(row) for row in self.rows(ids)]

    def dialogues(self, ids: Sequence[str]) -> list[Dialogue]:
        """Return the dialogue of each id, if documents are the JSON of dialogues."""
        try:
            return [msgspec.json.decode(text, type=Dialogue) for text in self.documents(ids)]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise DataError(f"a document is no dialogue: {error}", file=self.folder) from None

    def search(
        self, query: Column, k: int = 50, *, column: str = "text", exact: bool = False
    ) -> list[list[Hit]]:
        """Find the k dialogues with the highest cosine, for each query; of equals the earlier row.

        The answer to a query does not depend on the others that are asked with it.

        Args:
            query: For a dense column an array with a vector a row, for a sparse one a list of strings.
            k: How many; all of them, in order, if there are not so many.
            column: What to compare.
            exact: Look at every dialogue, however many there are. So does a k above 100.
        """
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise UsageError(f"k is how many dialogues to find, not {k!r}")
        found = self._searches.nearest(query, min(int(k), len(self)), column, exact)
        return [
            [
                Hit(self._rows.id(row), score)
                for row, score in zip(rows.tolist(), scores.tolist(), strict=True)
            ]
            for rows, scores in found
        ]

    def cosines(self, query: Column, *, column: str = "text") -> Array:
        """Return the cosine of each query (a row) with every dialogue (a column), exactly.

        For scores that combine columns: compute them from this, and sort.
        """
        found = list(self._searches.cosines(query, column))
        return np.concatenate(found) if found else np.empty((0, len(self)))
