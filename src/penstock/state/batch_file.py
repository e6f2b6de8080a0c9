"""A batch as an Arrow IPC file that is memory-mapped: opening it costs the same whatever its size.

The file has one record batch: `hash`, the columns `c0`, `c1`, ... as the engine holds them (a date
is a number of days, a decimal of at most 18 digits a scaled integer; the field's metadata names the
SQL type), masks of NULLs as `c0.valid`, and the measures `m0`, ... Every block of a mebibyte has a
checksum, kept beside the file's name: a column is checked when it is first used, so that a flipped
bit is an error and never an answer, and nothing has to read the whole file to open it.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from penstock.base.errors import CorruptState
from penstock.base.limits import CHECKSUM_BLOCK_BYTES
from penstock.kernels.floatsum import FloatSum
from penstock.state.batch import Batch
from penstock.state.measures import Measure
from penstock.zset.column import Column, TextBuffers
from penstock.zset.types import SqlType

VERSION = 1


@dataclass(frozen=True)
class FileRef:
    """A file's name with what is needed to trust it."""

    name: str
    bytes: int
    rows: int
    checksum: int  # of the whole
    checksums: str  # of each block, base64: to check a part of it
    span: tuple[int, int] | None = None  # the first and the last hash in it, where that is known

    def block_sums(self) -> np.ndarray:
        return np.frombuffer(base64.b64decode(self.checksums), np.uint64)

    def meets(self, first: int, last: int) -> bool:
        """Whether it may have rows whose hash h has first <= h < last."""
        return self.span is None or (self.span[0] < last and self.span[1] >= first)


def describe(name: str, data: pa.Buffer, rows: int, hashes: np.ndarray | None = None) -> FileRef:
    """The reference to a file with these bytes, and these hashes in order."""
    view = memoryview(data)
    span = None if hashes is None or not len(hashes) else (int(hashes[0]), int(hashes[-1]))
    return FileRef(name, data.size, rows, xxhash.xxh3_64_intdigest(view), _block_sums(view), span)


def _block_sums(view: memoryview) -> str:
    sums = [xxhash.xxh3_64_intdigest(view[i : i + CHECKSUM_BLOCK_BYTES]) for i in _block_starts(len(view))]
    return base64.b64encode(np.array(sums, np.uint64).tobytes()).decode()


def _block_starts(size: int) -> range:
    return range(0, size, CHECKSUM_BLOCK_BYTES)


# -- writing -----------------------------------------------------------------------------------


def serialise(hashes: np.ndarray | None, columns: Sequence[Column], measures: Sequence[Measure]) -> pa.Buffer:
    """The bytes of the file."""
    sink = pa.BufferOutputStream()
    write(sink, hashes, columns, measures)
    return sink.getvalue()


def write(
    sink: pa.NativeFile, hashes: np.ndarray | None, columns: Sequence[Column], measures: Sequence[Measure]
) -> None:
    """Write the file into a sink."""
    names: list[str] = []
    arrays: list[pa.Array] = []
    notes: list[dict[str, str]] = []

    def add(name: str, array: pa.Array, **note: str) -> None:
        names.append(name)
        arrays.append(array)
        notes.append(note)

    if hashes is not None:
        add("hash", pa.array(np.ascontiguousarray(hashes)))
    for i, column in enumerate(columns):
        add(f"c{i}", _column_array(column), sql=str(column.type))
        if column.type.kind != "arrow" and column.valid is not None:
            add(f"c{i}.valid", pa.array(column.valid.view(np.uint8)))
    for i, measure in enumerate(measures):
        if isinstance(measure, FloatSum):
            flat = pa.array(np.ascontiguousarray(measure.limbs).reshape(-1))
            limbs = pa.FixedSizeListArray.from_arrays(flat, max(1, len(measure.ids))) if measure.ids else flat
            add(f"m{i}", limbs if measure.ids else pa.nulls(len(measure)), limbs=json.dumps(measure.ids))
        else:
            add(f"m{i}", _numbers(measure))
    fields = [pa.field(n, a.type, metadata=m) for n, a, m in zip(names, arrays, notes, strict=True)]
    schema = pa.schema(fields, metadata={"penstock": json.dumps({"version": VERSION})})
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V5)
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        writer.write_batch(pa.record_batch(arrays, schema=schema))


def _column_array(column: Column) -> pa.Array:
    values = column.values
    if column.type.kind == "arrow":
        return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return _numbers(values)


def _numbers(values: np.ndarray) -> pa.Array:
    """Fixed-width numbers as they are; integers beyond 64 bits as text."""
    if values.dtype == object:
        return pa.array([str(v) for v in values.tolist()], pa.large_string())
    if values.dtype == np.bool_:
        values = values.view(np.uint8)
    return pa.array(np.ascontiguousarray(values))


# -- reading -----------------------------------------------------------------------------------


class MappedFile:
    """An open file: its arrays, each checked when it is first asked for."""

    def __init__(self, ref: FileRef, buffer: pa.Buffer) -> None:
        self.ref = ref
        self._buffer = buffer
        self._sums = ref.block_sums()
        self._checked = np.zeros(len(self._sums), np.bool_)
        if buffer.size != ref.bytes or len(self._sums) != len(_block_starts(ref.bytes)):
            raise CorruptState(
                f'the file "{ref.name}" has {buffer.size} bytes instead of {ref.bytes}', hint=_RESTORE
            )
        self._check_blocks(0, 1)
        self._check_blocks(len(self._sums) - 1, len(self._sums))
        try:
            with pa.ipc.open_file(pa.BufferReader(buffer)) as file:
                self._batch = file.get_batch(0)
        except (pa.ArrowException, OSError) as error:
            raise CorruptState(f'the file "{ref.name}" is not readable: {error}', hint=_RESTORE) from None
        schema = self._batch.schema
        version = json.loads((schema.metadata or {}).get(b"penstock", b"{}")).get("version")
        if version != VERSION:
            raise CorruptState(f'the file "{ref.name}" has the format {version}, not {VERSION}')
        self._places = {name: i for i, name in enumerate(schema.names)}

    @property
    def rows(self) -> int:
        return int(self._batch.num_rows)

    def has(self, name: str) -> bool:
        return name in self._places

    def array(self, name: str) -> pa.Array:
        """A column of the file, after checking the blocks that it lies in."""
        if name not in self._places:
            raise CorruptState(f'the file "{self.ref.name}" has no column {name}')
        array = self._batch.column(self._places[name])
        for part in array.buffers():
            if part is not None and part.size:
                first = part.address - self._buffer.address
                self._check_blocks(
                    first // CHECKSUM_BLOCK_BYTES, (first + part.size - 1) // CHECKSUM_BLOCK_BYTES + 1
                )
        return array

    def field_note(self, name: str, key: str) -> str | None:
        note = (self._batch.schema.field(self._places[name]).metadata or {}).get(key.encode())
        return None if note is None else note.decode()

    def measures(self) -> int:
        return sum(1 for name in self._places if name.startswith("m"))

    def check_all(self) -> None:
        """Check every block: for `penstock verify`."""
        self._check_blocks(0, len(self._sums))

    def _check_blocks(self, first: int, last: int) -> None:
        view = memoryview(self._buffer)
        for i in (np.flatnonzero(~self._checked[first:last]) + first).tolist():
            start = i * CHECKSUM_BLOCK_BYTES
            found = xxhash.xxh3_64_intdigest(view[start : start + CHECKSUM_BLOCK_BYTES])
            if found != int(self._sums[i]):
                raise CorruptState(
                    f'the file "{self.ref.name}" is corrupt: bytes {start} to '
                    f"{min(start + CHECKSUM_BLOCK_BYTES, self.ref.bytes)} do not have their checksum",
                    hint=_RESTORE,
                )
            self._checked[i] = True


_RESTORE = "Restore the flow from a checkpoint, or bring the file back from a copy."


class StoredColumn(Column):
    """A column of a file: mapped and checked when its values are first used."""

    __slots__ = ("_batch", "_cached", "_number")

    def __init__(self, type: SqlType, batch: StoredBatch, number: int) -> None:
        self.type = type
        self._batch = batch
        self._number = number
        self._cached: Column | None = None

    def _column(self) -> Column:
        found = self._cached
        if found is None:
            found = self._cached = _read_column(self._batch.file(), self._number, self.type)
        return found

    def release(self) -> None:
        self._cached = None

    def __len__(self) -> int:
        return self._batch.ref.rows

    @property
    def values(self) -> Any:
        return (self._cached or self._column()).values

    @property
    def valid(self) -> np.ndarray | None:  # type: ignore[override]
        return (self._cached or self._column()).valid

    @property
    def _text(self) -> TextBuffers:  # type: ignore[override]
        return (self._cached or self._column())._text  # which goes when the values do

    def text_buffers(self) -> TextBuffers:
        return self._column().text_buffers()

    def nbytes(self) -> int:
        return self._column().nbytes()


class StoredBatch(Batch):
    """A batch whose rows are in a file."""

    __slots__ = ("__weakref__", "_file", "_hashes", "_lock", "_measures", "_open")

    ref: FileRef

    def __init__(
        self, ref: FileRef, types: Sequence[SqlType], open: Callable[[StoredBatch], MappedFile]
    ) -> None:
        self.ref = ref
        self._open = open
        self._file: MappedFile | None = None
        self._lock = threading.Lock()
        self._hashes: np.ndarray | None = None
        self._measures: tuple[Measure, ...] | None = None
        self.columns = tuple([StoredColumn(type, self, i) for i, type in enumerate(types)])

    def file(self) -> MappedFile:
        if self._file is None:
            with self._lock:
                if self._file is None:
                    self._file = self._open(self)
                return self._file
        return self._file

    def release(self) -> None:
        """Forget the mapping: who uses an array of it keeps it, and the next use opens the file again."""
        with self._lock:
            self._file = None
            self._hashes = None
            self._measures = None
            for column in self.columns:
                assert isinstance(column, StoredColumn)
                column.release()

    def __len__(self) -> int:
        return self.ref.rows

    @property
    def hashes(self) -> np.ndarray:  # type: ignore[override]
        found = self._hashes
        if found is None:
            found = self._hashes = _as_numpy(self.file().array("hash"), np.dtype(np.uint64))
        return found

    @property
    def measures(self) -> tuple[Measure, ...]:  # type: ignore[override]
        found = self._measures
        if found is None:
            file = self.file()
            found = self._measures = tuple([_read_measure(file, i) for i in range(file.measures())])
        return found

    def nbytes(self) -> int:
        return self.ref.bytes


def _read_column(file: MappedFile, number: int, type: SqlType) -> Column:
    array = file.array(f"c{number}")
    if type.kind == "arrow":
        return Column(type, array)
    valid = None
    if file.has(f"c{number}.valid"):
        valid = _as_numpy(file.array(f"c{number}.valid"), np.dtype(np.uint8)).view(np.bool_)
    return Column(type, _read_numbers(array, type.numpy), valid)


def _read_measure(file: MappedFile, number: int) -> Measure:
    array = file.array(f"m{number}")
    ids = file.field_note(f"m{number}", "limbs")
    if ids is None:
        return _read_numbers(array, np.dtype(np.int64))
    limbs = tuple(json.loads(ids))
    if not limbs:
        return FloatSum((), np.zeros((len(array), 0), np.int64))
    flat = _as_numpy(array.flatten(), np.dtype(np.int64))
    return FloatSum(limbs, flat.reshape(len(array), len(limbs)))


def _read_numbers(array: pa.Array, dtype: np.dtype) -> np.ndarray:
    if pa.types.is_large_string(array.type):
        result = np.empty(len(array), object)
        result[:] = [int(v) for v in array.to_pylist()]
        return result
    return _as_numpy(array, dtype)


def _as_numpy(array: pa.Array, dtype: np.dtype) -> np.ndarray:
    """The values of an array of numbers without nulls, without a copy."""
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(0, dtype)
    return np.frombuffer(buffer, dtype, len(array), array.offset * dtype.itemsize)
