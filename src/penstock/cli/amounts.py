"""Sizes and times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime


def size(count: int) -> str:
    """
    >>> size(0), size(1023), size(1536), size(5 << 30)
    ('0 B', '1023 B', '1.5 KiB', '5.0 GiB')
    """
    if count < 1024:
        return f"{count} B"
    amount = float(count)
    for unit in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if amount < 1024:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1024:.1f} TiB"


def moment(microseconds: int | None) -> str:
    """
    >>> moment(1_700_000_000_000_000), moment(0)
    ('2023-11-14 22:13:20 UTC', 'never')
    """
    if not microseconds:
        return "never"
    return f"{datetime.fromtimestamp(microseconds // 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def plural(count: int, noun: str) -> str:
    """
    >>> plural(1, "file"), plural(2500, "row")
    ('1 file', '2,500 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
