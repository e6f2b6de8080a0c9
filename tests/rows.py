"""Rows as plain Python values, and the comparison of two multisets of them with a readable answer."""

from __future__ import annotations

import datetime
import math
from collections import Counter, defaultdict
from decimal import Decimal
from typing import Any

import pyarrow as pa

Row = tuple[Any, ...]

RELATIVE_TOLERANCE = 1e-9
SHOWN_ROWS_MAX = 8
_EPOCH = datetime.datetime(1970, 1, 1)


def rows_of(table: pa.Table) -> list[Row]:
    """The rows of an Arrow table, as values that compare and hash by meaning.

    >>> rows_of(pa.table({"a": [1, None], "b": [True, False]}))
    [(1, boolean true), (None, boolean false)]
    """
    if table.num_columns == 0:
        return [()] * table.num_rows
    return list(zip(*(_values(column) for column in table.columns), strict=True))


class Flag:
    """A boolean that is not equal to the integer 1."""

    def __init__(self, value: bool) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Flag) and other.value == self.value

    def __hash__(self) -> int:
        return hash(("flag", self.value))

    def __repr__(self) -> str:
        return f"boolean {str(self.value).lower()}"


def _values(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind):  # Python's datetime ends at the year 9999
        zone = "timestamptz" if kind.tz else "timestamp"
        micros = column.cast(pa.timestamp("us", tz=kind.tz)).cast(pa.int64()).to_pylist()
        return [None if m is None else (zone, m) for m in micros]
    if pa.types.is_date(kind):
        days = column.cast(pa.date32()).cast(pa.int32()).to_pylist()
        return [None if d is None else ("date", d) for d in days]
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_string(kind):
        return column.to_pylist()  # type: ignore[no-any-return]
    return [plain(value) for value in column.to_pylist()]


def plain(value: Any) -> Any:
    """One value, in the form that `rows_of` gives, whichever database it comes from."""
    if isinstance(value, bool):
        return Flag(value)
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0  # -0.0 equals 0.0 as a value
    if isinstance(value, datetime.datetime):
        zone = "timestamptz" if value.tzinfo else "timestamp"
        naive = value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
        return (zone, (naive - _EPOCH) // datetime.timedelta(microseconds=1))
    if isinstance(value, datetime.date):
        return ("date", value.toordinal() - _EPOCH.toordinal())
    if isinstance(value, dict):
        return tuple((k, plain(v)) for k, v in value.items())
    if isinstance(value, list):
        return tuple(plain(v) for v in value)
    return value


def difference(ours: list[Row], theirs: list[Row]) -> str:
    """Empty if both are the same multiset (floats within 1e-9), else what is missing and what is too much.

    >>> difference([(1, 2.0)], [(1, 2.0000000000001)])
    ''
    >>> print(difference([(1,), (1,)], [(1,), (2,)]))
    1 missing, 1 too many
      missing  x1 (2,)
      too many x1 (1,)
    """
    left, right = Counter(ours), Counter(theirs)
    missing, extra = right - left, left - right
    if missing and extra:
        _pair_off(missing, extra)
    if not missing and not extra:
        return ""
    lines = [f"{missing.total()} missing, {extra.total()} too many"]
    for title, part in (("missing ", missing), ("too many", extra)):
        shown = sorted(part.items(), key=repr)[:SHOWN_ROWS_MAX]
        lines += [f"  {title} x{count} {_shown(row)}" for row, count in shown]
        if len(part) > SHOWN_ROWS_MAX:
            lines.append(f"  ... and {len(part) - SHOWN_ROWS_MAX} more rows")
    return "\n".join(lines)


def _shown(row: Row) -> str:
    parts = [
        f"date {_date(v[1])}" if isinstance(v, tuple) and v[:1] == ("date",) else repr(v)[:200] for v in row
    ]
    return "(" + ", ".join(parts) + ("," if len(parts) == 1 else "") + ")"


def _date(days: int) -> str:
    day = days + _EPOCH.toordinal()
    return str(datetime.date.fromordinal(day)) if 0 < day < 3_652_059 else f"day {days}"


def _pair_off(missing: Counter[Row], extra: Counter[Row]) -> None:
    """Take out of both the rows that agree but for the last digits of floats."""
    width = len(next(iter(missing)))
    loose = [i for i in range(width) if any(isinstance(row[i], float) for row in (*missing, *extra))]
    if not loose:
        return
    groups: dict[Row, tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
    for side, rows in enumerate((missing, extra)):
        for row in rows.elements():
            groups[tuple(v for i, v in enumerate(row) if i not in loose)][side].append(row)

    def by_floats(row: Row) -> list[tuple[int, float]]:
        return [
            (0, float(row[i])) if _is_number(row[i]) else (1 if row[i] is None else 2, 0.0) for i in loose
        ]

    for left, right in groups.values():
        for a, b in zip(sorted(left, key=by_floats), sorted(right, key=by_floats), strict=False):
            if all(_close(a[i], b[i]) for i in loose):
                missing[a] -= 1
                extra[b] -= 1
    for counter in (missing, extra):
        for row in [row for row, count in counter.items() if count == 0]:
            del counter[row]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Decimal))


def _close(a: Any, b: Any) -> bool:
    """Equal, or both numbers of which at least one is a float and which agree to nine digits."""
    if a == b:
        return True
    if not (_is_number(a) and _is_number(b)):
        return False
    if not (isinstance(a, float) or isinstance(b, float)):
        return False
    return math.isclose(float(a), float(b), rel_tol=RELATIVE_TOLERANCE)
