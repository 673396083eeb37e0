"""Parquet and Arrow files, read in bounded memory whatever they claim and whatever is repeated in them.

A text that many values share is stored once, so a few kilobytes can hold a row of gigabytes. Texts are
therefore read as dictionaries, and unpacked a few rows at a time, once it is known how large they become.
"""

import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from dialeval.errors import DataError
from dialeval.files import check_expansion, max_record, too_large

_FEW_ROWS, _ROWS_A_BYTE = 1 << 20, 256  # more rows than that take more bytes: ids alone do
_BATCH_ROWS, _BATCH_BYTES = 1 << 14, 1 << 24  # decoded at once, as stored
_FEWER = 256  # times fewer rows, where the size of texts is not known before they are unpacked
_PIECE_BYTES = 1 << 22  # unpacked at once, unless one row is larger
_TEXTS = ("NONE", "STRING", "ENUM", "JSON", "BSON")


class Parquet:
    """A Parquet file that is open for reading.

    Args:
        file: What `files.open_binary` returned.
        path: What to call it in an error.

    Raises:
        DataError: It claims more rows than its bytes can hold, or unpacks to too many bytes.
    """

    def __init__(self, file: BinaryIO, path: str | Path) -> None:
        import pyarrow.parquet as pq

        self.path, self.size = path, file.seek(0, os.SEEK_END)
        self._plain = pq.ParquetFile(file, pre_buffer=False)
        self.schema, self.metadata = self._plain.schema_arrow, self._plain.metadata
        columns = [self.metadata.schema.column(place) for place in range(self.metadata.num_columns)]
        self._nested = [place for place, one in enumerate(columns) if one.max_repetition_level]
        self._widths = [max(8, one.length) for one in columns]
        texts = [one for one in columns if one.physical_type == "BYTE_ARRAY"]
        texts = [one for one in texts if one.logical_type.type in _TEXTS]
        names = [one.path for one in texts]
        self._reader = pq.ParquetFile(file, metadata=self.metadata, read_dictionary=names, pre_buffer=False)
        rows = [one.num_rows for one in self._groups()]
        most = max(_FEW_ROWS, _ROWS_A_BYTE * self.size)
        if min(rows, default=0) < 0 or not sum(rows) == self.metadata.num_rows <= most:
            raise DataError("not a Parquet file: it claims other rows than it has", file=path)
        check_expansion(path, self.size, self._stored())

    def batches(self, first: int = 0) -> Iterator[Any]:
        """Yield record batches of few bytes, from a row on, without reading the row groups before its own."""
        if not first:  # who begins later has read it before
            self._check_values()
        groups, row = list(range(self.metadata.num_row_groups)), 0
        while groups and row + self.metadata.row_group(groups[0]).num_rows <= first:
            row += self.metadata.row_group(groups.pop(0)).num_rows
        rows = _BATCH_BYTES * self.metadata.num_rows // max(1, self._stored())
        rows = max(1, min(rows, _BATCH_BYTES // max(1, sum(self._widths)), _BATCH_ROWS))
        unpacked = 0
        for batch in chain.from_iterable(self._of_group(group, rows) for group in groups):
            skipped = min(len(batch), max(0, first - row))
            for size, piece in pieces(batch.slice(skipped), self.path, row + skipped + 1):
                unpacked += size
                check_expansion(self.path, self.size, unpacked)
                yield _plain(piece, self.schema)
            row += len(batch)

    def _of_group(self, group: int, rows: int) -> Iterator[Any]:
        """Yield the batches of a row group; texts in lists as texts, where some pages are no dictionaries."""
        import pyarrow as pa

        done = 0
        try:
            for batch in self._reader.iter_batches(rows, row_groups=[group], use_threads=False):
                yield batch
                done += len(batch)
        except pa.ArrowNotImplementedError:
            few = max(1, rows // _FEWER)
            for batch in self._plain.iter_batches(few, row_groups=[group], use_threads=False):
                if len(batch) > done:
                    yield batch.slice(done)
                done = max(0, done - len(batch))

    def _check_values(self) -> None:
        """Refuse a file whose rows hold more values than its bytes can: a row is decoded at once.

        Asking for a column that makes no sense ends the process, so all are read once before, in flat memory.
        """
        if self._nested:
            self._reader.scan_contents()
            values = [
                (one.column(place).num_values, self._widths[place])
                for one in self._groups()
                for place in self._nested
            ]
            check_expansion(self.path, self.size, sum(count * width for count, width in values))

    def _groups(self) -> list[Any]:
        return [self.metadata.row_group(number) for number in range(self.metadata.num_row_groups)]

    def _stored(self) -> int:
        return sum(max(0, one.total_byte_size) for one in self._groups())


def is_compressed(messages: Any) -> bool:
    """Return whether any batch of an Arrow stream is compressed: unlike others it is decoded as a whole.

    Args:
        messages: A `pyarrow.ipc.MessageReader`, which has checked their layout.
    """
    for message in messages:
        data, at = message.metadata.to_pybytes(), 0
        path = {"record batch": (2, 3), "dictionary": (2, 1, 3)}.get(message.type, ())
        for number in path:  # fields of nested flatbuffer tables; the last is the codec
            at += int.from_bytes(data[at : at + 4], "little")
            fields = at - int.from_bytes(data[at : at + 4], "little", signed=True)
            size = int.from_bytes(data[fields : fields + 2], "little")
            place = fields + 4 + 2 * number if 4 + 2 * number < size else 0
            offset = int.from_bytes(data[place : place + 2], "little") if place else 0
            at = at + offset if offset else 0
        if path and at:
            return True
    return False


def pieces(batch: Any, path: str | Path, row: int) -> Iterator[tuple[int, Any]]:
    """Yield parts of a record batch that unpack to few bytes, with how many.

    Args:
        batch: The record batch.
        path: What to call its file in an error.
        row: The number of its first row, from 1.

    Raises:
        DataError: A row unpacks to more bytes than a record may have.
    """
    size, half = sum(map(_unpacked_size, batch.columns)), len(batch) // 2
    if size <= min(_PIECE_BYTES, max_record()) or (half == 0 and size <= max_record()):
        yield size, batch
    elif half == 0:
        raise too_large(path, row)
    else:
        yield from pieces(batch.slice(0, half), path, row)
        yield from pieces(batch.slice(half), path, row + half)


def _unpacked_size(array: Any) -> int:
    """Return how many bytes an array has once every value has a text of its own."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    if pa.types.is_dictionary(kind) and kind.value_type in (pa.string(), pa.binary(), pa.large_string()):
        lengths = pc.binary_length(array.dictionary).cast(pa.int64())
        return int(pc.sum(lengths.take(array.indices)).as_py() or 0) + int(array.indices.nbytes)
    if pa.types.is_map(kind):  # it cannot be flattened
        begin, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        return _unpacked_size(array.values.slice(begin, end - begin)) + int(array.offsets.nbytes)
    if pa.types.is_struct(kind):
        return sum(map(_unpacked_size, array.flatten()))
    if kind in (pa.string_view(), pa.binary_view()):
        return int(pc.sum(pc.binary_length(array)).as_py() or 0) + 16 * len(array)
    if pa.types.is_nested(kind):
        return _unpacked_size(array.flatten()) + 4 * len(array)
    return max(int(array.nbytes), len(array))


def _plain(batch: Any, schema: Any) -> Any:
    """Return a batch with texts in place of dictionaries, where pyarrow can convert them."""
    import pyarrow as pa

    try:
        return batch.cast(schema)
    except pa.ArrowNotImplementedError:  # lists as views; as Python objects both are the same
        return batch
