"""What users hand to tick(), as a Z-set of a table's columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.errors import InvalidDelta, PenstockError, TypeMismatch, UndefinedColumn
from penstock.base.limits import COMBINED_ROWS_MAX, FEW_ROWS_MAX, WEIGHT_MAX
from penstock.engine.frame_index import without_index
from penstock.engine.given_text import check_unicode
from penstock.engine.given_values import NO_FIT, of_array, of_values
from penstock.engine.plain_dicts import WEIGHT, PlainDicts
from penstock.engine.refused_value import refused_array, refused_values
from penstock.zset.column import Column, constant
from penstock.zset.few import Few, Row, is_plain, values_of
from penstock.zset.intake import Intake
from penstock.zset.types import BIGINT, Schema, SqlType
from penstock.zset.weights import constant as constant_weight
from penstock.zset.weights import is_constant
from penstock.zset.zset import ZSet

_INT_RANGE = {1: 2**7, 2: 2**15, 4: 2**31, 8: 2**63}
_NONE = type(None)
_FAILED_COLUMN = re.compile(r"Conversion failed for column (.+) with type")
_NOT_PLAIN = frozenset(("BOOLEAN", "DECIMAL"))  # fixed, but kept otherwise than in Arrow
_DIRECT = frozenset(
    ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "BOOLEAN")
)


class Matching:
    """Which column of a delta is which of a table's: worked out once for deltas of one Arrow schema."""

    def __init__(self, schema: Schema, table: str) -> None:
        self.schema = schema
        self.table = table
        self.takes_tuples = all(map(is_plain, schema.types))
        self._given: pa.Schema | None = None
        self._found: tuple[list[int | None], int | None] = ([], None)
        self.intake = Intake(pa.schema([]), ())
        self.dicts = PlainDicts(schema)
        self.direct: frozenset[int] = (
            frozenset()
        )  # columns whose values pyarrow gives as they stand in tuples

    def knows(self, data: Any) -> bool:
        """Whether it is known to be no change feed: dicts, which are taken as they are, or rows of the same Arrow
        schema as those before."""
        if data.__class__ is list:
            return True
        return (
            isinstance(data, pa.RecordBatch) and self._given is not None and data.schema.equals(self._given)
        )

    def places(self, given: pa.Schema) -> tuple[list[int | None], int | None]:
        """The place of each column (None: it is absent), and that of the weights. Raises InvalidDelta or
        UndefinedColumn."""
        if self._given is None or not given.equals(self._given):
            places, weight = self._found = self._match(given)
            wanted = [(p, t) for p, t in zip(places, self.schema.types, strict=True) if p is not None]
            self.intake = Intake(given, wanted if weight is None else [*wanted, (weight, BIGINT)])
            pairs = [(p, given.field(p).type, t) for p, t in wanted]
            self.direct = frozenset(p for p, arrow, type in pairs if _is_direct(arrow, type))
            self._given = given
        return self._found

    def _match(self, given: pa.Schema) -> tuple[list[int | None], int | None]:
        names = given.names
        if len(set(names)) != len(names):
            raise InvalidDelta(f'the delta for "{self.table}" names a column twice')
        lookup = _match_names(set(names), self.schema, self.table)
        places = [names.index(lookup[name]) if name in lookup else None for name in self.schema.names]
        return places, names.index(WEIGHT) if WEIGHT in names else None


def _is_direct(arrow: pa.DataType, type: SqlType) -> bool:
    if type.id == "VARCHAR":
        return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow))
    return type.id in _DIRECT and bool(arrow == type.arrow)


def to_zset(data: Any, matching: Matching, defaults: Sequence[Any]) -> ZSet:
    """Anything with rows as a Z-set; columns by name, absent ones filled with `defaults`.

    Rows of weight 0 are left out. Raises InvalidDelta, TypeMismatch or UndefinedColumn.
    """
    if data.__class__ is list and matching.takes_tuples and len(data) <= FEW_ROWS_MAX:
        plain = matching.dicts.take(data)
        return plain if plain is not None else _few_from_dicts(data, matching, defaults)
    if isinstance(data, ZSet):
        return data
    if isinstance(data, (pa.RecordBatch, pa.Table)):
        if matching.takes_tuples and data.num_rows <= FEW_ROWS_MAX:
            try:
                return _few_from_arrow(data, matching, defaults)
            except UnicodeDecodeError:  # a text that is none: refused below
                pass
        columns, weights = _from_arrow(data, matching, defaults)
    elif isinstance(data, (list, tuple)):
        if matching.takes_tuples and len(data) <= FEW_ROWS_MAX:
            return _few_from_dicts(data, matching, defaults)
        columns, weights = _from_dicts(data, matching.schema, defaults, matching.table)
    else:
        columns, weights = _from_arrow(_as_table(data, matching), matching, defaults)
    result = ZSet(columns, weights)
    if is_constant(weights) or not len(weights):  # as made here: those given are copied
        return result
    _check_weights(int(weights.min()), int(weights.max()))
    keep = weights != 0
    return result if keep.all() else result.filter(keep)


def _as_table(data: Any, matching: Matching) -> pa.Table | pa.RecordBatch:
    table = matching.table
    if hasattr(data, "toArrow"):  # a DataFrame of Spark's, in a flow that runs here
        data = data.toArrow()
    try:
        if isinstance(data, pa.RecordBatchReader) or hasattr(data, "__arrow_c_stream__"):
            return without_index(pa.table(data), (*matching.schema.names, WEIGHT))
        if hasattr(data, "__arrow_c_array__"):
            return pa.record_batch(data)
        if hasattr(data, "__dataframe__"):
            return pa.Table.from_pandas(data, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _unreadable(data, table, error) from None
    raise InvalidDelta(
        f'a delta for "{table}" cannot be made of {type(data).__name__}',
        hint="Give a pyarrow table, a pandas or polars frame, or a list of dicts.",
    )


def _unreadable(data: Any, table: str, error: Exception) -> PenstockError:
    """The error for a frame that does not become Arrow; pandas has told pyarrow which column it was."""
    if str(error).startswith("Duplicate column names"):
        return InvalidDelta(f'the delta for "{table}" names a column twice')
    column = _FAILED_COLUMN.search(str(error))
    if column is not None:
        return TypeMismatch(
            f'the column "{column[1]}" of the delta for "{table}" has values of several kinds, or of one that '
            "Arrow does not have",
            hint="Convert the column to one type first.",
        )
    return TypeMismatch(
        f'the delta for "{table}" is {type(data).__name__}, whose rows cannot be read as columns with names',
        hint="Give a pyarrow table, a pandas or polars frame, or a list of dicts.",
    )


def _from_dicts(
    rows: Sequence[Any], schema: Schema, defaults: Sequence[Any], table: str
) -> tuple[tuple[Column, ...], np.ndarray]:
    lookup = _names_in(rows, schema, table)
    columns = []
    for name, sql_type, default in zip(schema.names, schema.types, defaults, strict=True):
        key = lookup.get(name)
        if key is None:
            columns.append(constant(sql_type, default, len(rows)))
            continue
        columns.append(_column([row.get(key) for row in rows], sql_type, name, table))
    return tuple(columns), _weights_of(rows)


def _few_from_dicts(rows: Sequence[Any], matching: Matching, defaults: Sequence[Any]) -> Few:
    """The same for a few rows: as tuples."""
    schema, table = matching.schema, matching.table
    lookup = _names_in(rows, schema, table)
    columns = []
    for name, sql_type, default in zip(schema.names, schema.types, defaults, strict=True):
        key = lookup.get(name)
        if key is None:
            columns.append(values_of(constant(sql_type, default, len(rows))))
        else:
            columns.append(_values([row.get(key) for row in rows], sql_type, name, table))
    return _few(schema.types, list(zip(*columns, strict=True)), _weights_of(rows).tolist())


def _few(types: tuple[SqlType, ...], rows: list[Row], weights: list[int]) -> Few:
    _check_weights(min(weights, default=0), max(weights, default=0))
    if all(weights):
        return Few(types, rows, weights)
    kept = [(row, weight) for row, weight in zip(rows, weights, strict=True) if weight]
    return Few(types, [row for row, _ in kept], [weight for _, weight in kept])


def _names_in(rows: Sequence[Any], schema: Schema, table: str) -> dict[str, str]:
    present: set[str] = set()
    for row in rows:
        if not isinstance(row, Mapping):
            raise InvalidDelta(f'a row of the delta for "{table}" is {type(row).__name__}, not a dict')
        present.update(row)
    return _match_names(present, schema, table)


def _weights_of(rows: Sequence[Any]) -> np.ndarray:
    weights = [row.get(WEIGHT, 1) for row in rows]
    if not all(isinstance(w, (int, np.integer)) and not isinstance(w, bool) for w in weights):
        raise InvalidDelta(f"{WEIGHT} must be a whole number", hint="+1 adds a row, -1 removes one.")
    try:
        return np.array(weights, np.int64)
    except OverflowError:
        raise _too_large() from None


def _match_names(present: set[str], schema: Schema, table: str) -> dict[str, str]:
    """For each column of the table the name that the delta uses, which may differ in case."""
    present = present - {WEIGHT}
    known = {name.lower(): name for name in schema.names}
    found: dict[str, str] = {}
    for given in present:
        name = given if given in schema.names else known.get(str(given).lower())
        if name is None:
            raise UndefinedColumn(
                f'table "{table}" has no column "{given}"', hint=f"Its columns are {', '.join(schema.names)}."
            )
        if name in found:  # "a" and "A": each row would have only one of them
            raise InvalidDelta(
                f'the delta for "{table}" names the column "{name}" in two ways',
                hint="Write its name alike in all rows.",
            )
        found[name] = given
    return found


def _column(values: list[Any], type: SqlType, name: str, table: str) -> Column:
    """A column from Python values. The usual types take a short path: a tick of one row is in a hurry."""
    kinds = {v.__class__ for v in values}
    try:
        if _are_integers(values, kinds, type):
            return Column(type, np.array(values, type.numpy))
        if type.id == "DOUBLE" and kinds <= {float, int} and values:
            return Column(type, np.array(values, np.float64))
        elif type.id == "VARCHAR" and kinds <= {str, _NONE}:
            return Column(type, pa.array(values, pa.large_string()))
        return of_values(values, type)
    except NO_FIT as error:  # for example a number beyond any float, or half of a surrogate pair
        raise refused_values(values, type, name, table, error) from None


def _values(values: list[Any], type: SqlType, name: str, table: str) -> list[Any]:
    """The same as they stand in tuples: integers and texts are what they are."""
    kinds = {v.__class__ for v in values}
    if _are_integers(values, kinds, type):
        return values
    if type.id == "VARCHAR" and kinds == {str} and all(map(str.isascii, values)):  # others may be no Unicode
        return values
    return values_of(_column(values, type, name, table))


def _are_integers(values: list[Any], kinds: set[type], type: SqlType) -> bool:
    dtype = type.numpy
    if type.kind != "fixed" or dtype.kind != "i" or not type.is_integer or kinds != {int}:
        return False
    bound = _INT_RANGE[dtype.itemsize]
    return bool(min(values) >= -bound and max(values) < bound)


def _from_arrow(
    data: pa.Table | pa.RecordBatch, matching: Matching, defaults: Sequence[Any]
) -> tuple[tuple[Column, ...], np.ndarray]:
    places, weight = matching.places(data.schema)
    schema, count = matching.schema, data.num_rows
    taken = matching.intake.take(data) if 0 < count <= COMBINED_ROWS_MAX else {}
    if len(taken) < data.num_columns:
        several = isinstance(data, pa.Table) and data.num_columns and data.column(0).num_chunks > 1
        if several and 0 < count <= COMBINED_ROWS_MAX:
            data = data.combine_chunks()
    columns = []
    for i, place in enumerate(places):
        type = schema.types[i]
        if place is None:
            columns.append(constant(type, defaults[i], count))
            continue
        found = taken.get(place)
        if found is None:
            array = data.column(place)
            found = _plain_column(array, type) if array.type == type.arrow else None
            if found is None:
                found = arrow_column(array, type, schema.names[i], matching.table)
        if type.kind == "arrow":
            _check_unicode(found, schema.names[i], matching.table)
        columns.append(found)
    if weight is None:
        return tuple(columns), constant_weight(1, count)
    if weight in taken and taken[weight].valid is None:
        return tuple(columns), taken[weight].values
    return tuple(columns), _whole_numbers(data.column(weight)).to_numpy().copy()


def _few_from_arrow(data: pa.Table | pa.RecordBatch, matching: Matching, defaults: Sequence[Any]) -> Few:
    """The same for a few rows: as tuples."""
    places, weight = matching.places(data.schema)
    schema, arrays, count = matching.schema, data.columns, data.num_rows
    columns = []
    for i, place in enumerate(places):
        if place is None:
            columns.append(values_of(constant(schema.types[i], defaults[i], count)))
        elif place in matching.direct:
            columns.append(arrays[place].to_pylist())
        else:
            array, name = arrays[place], schema.names[i]
            columns.append(values_of(arrow_column(array, schema.types[i], name, matching.table)))
    rows = list(zip(*columns, strict=True)) if columns else [()] * count
    if weight is None:
        return Few(schema.types, rows, [1] * count)
    return _few(schema.types, rows, _whole_numbers(arrays[weight]).to_pylist())


def _whole_numbers(weights: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    if not pa.types.is_integer(weights.type) or weights.null_count:
        raise InvalidDelta(
            f"{WEIGHT} must be whole numbers, none NULL", hint="+1 adds a row, -1 removes one."
        )
    try:
        return weights.cast(pa.int64())
    except pa.ArrowInvalid:
        raise _too_large() from None


def _check_weights(least: int, most: int) -> None:
    if least < -WEIGHT_MAX or most > WEIGHT_MAX:
        raise _too_large()


def _too_large() -> InvalidDelta:
    return InvalidDelta(
        f"{WEIGHT} must be between {-WEIGHT_MAX:,} and {WEIGHT_MAX:,} (WEIGHT_MAX)",
        hint="+1 adds a row, -1 removes one.",
    )


def _plain_column(array: pa.Array | pa.ChunkedArray, type: SqlType) -> Column | None:
    """Numbers as numpy has them, none NULL: their bytes, copied. None for any others."""
    if type.kind != "fixed" or type.id in _NOT_PLAIN:
        return None
    if isinstance(array, pa.ChunkedArray):
        if array.num_chunks != 1:
            return None
        array = array.chunk(0)
    if not len(array) or array.null_count:
        return None
    offset = array.offset
    values = np.frombuffer(array.buffers()[1], type.numpy, len(array) + offset)
    return Column(type, values[offset:].copy())


def arrow_column(array: pa.Array | pa.ChunkedArray, type: SqlType, name: str, table: str) -> Column:
    """An Arrow column as a column of the table, refusing what only a lenient cast would take."""
    given = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    text = pa.types.is_string(given) or pa.types.is_large_string(given) or pa.types.is_string_view(given)
    lenient = (text and (type.is_numeric or type.id == "BOOLEAN")) or (
        type.id == "VARCHAR" and not (text or pa.types.is_null(given))
    )
    if lenient:
        raise refused_array(array, type, name, table)
    try:
        return _owned(of_array(array, type))
    except NO_FIT as error:
        raise refused_array(array, type, name, table, error) from None


def _check_unicode(column: Column, name: str, table: str) -> None:
    try:
        check_unicode(column)
    except pa.ArrowInvalid:
        raise TypeMismatch(
            f'column "{name}" of "{table}" is {column.type}: it has bytes that are not UTF8',
            hint="Decode them first, by the encoding that they have.",
        ) from None


def _owned(column: Column) -> Column:
    """The column in memory of our own: Arrow may have made it over an array that its owner writes to later."""
    values = column.values
    if column.type.kind == "arrow" or values.flags.owndata:
        return column
    return Column(column.type, values.copy(), column.valid)
