"""Lengths of time and sizes as people write them: "90 s", "1 hour 30 minutes", "2GB"."""

from __future__ import annotations

import re
from datetime import timedelta

from penstock.base.errors import InvalidOption

_UNITS = {
    "us": 1e-6, "microsecond": 1e-6, "ms": 1e-3, "millisecond": 1e-3, "s": 1, "sec": 1, "second": 1,
    "m": 60, "min": 60, "minute": 60, "h": 3600, "hr": 3600, "hour": 3600, "d": 86400, "day": 86400,
    "w": 604800, "week": 604800,
}  # fmt: skip
_TERM = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)


def seconds(value: object, name: str) -> float:
    """A length of time in seconds; `name` is what to call it in an error.

    >>> seconds("1 hour 30 minutes", "retain_history"), seconds(2, "x"), seconds("100ms", "x")
    (5400.0, 2.0, 0.1)
    """
    if isinstance(value, timedelta):
        return _not_negative(value.total_seconds(), name)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _not_negative(float(value), name)
    if isinstance(value, str):
        at, total = 0, 0.0
        while match := _TERM.match(value, at):
            unit = match[2].lower()
            scale = _UNITS.get(unit, _UNITS.get(unit.removesuffix("s")))
            if scale is None:
                break
            total += float(match[1]) * scale
            at = match.end()
        if at == len(value) and at:
            return total
    raise InvalidOption(
        f"{name} is {value!r}, which is not a length of time",
        hint="Write it as '90 seconds', '1 hour' or 0.1.",
    )


def _not_negative(value: float, name: str) -> float:
    if not 0 <= value < float("inf"):
        raise InvalidOption(f"{name} is {value!r}: it must not be negative, and must end")
    return value


def length_of_time(value_s: float) -> str:
    """Seconds for people.

    >>> length_of_time(3600), length_of_time(5400), length_of_time(90), length_of_time(0.5)
    ('1 hour', '90 minutes', '90 seconds', '0.5 seconds')
    """
    for unit, scale in (("day", 86400), ("hour", 3600), ("minute", 60)):
        count = value_s / scale
        if value_s and count == int(count):
            return f"{int(count)} {unit}{'' if count == 1 else 's'}"
    return f"{value_s:g} seconds"


_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def size_bytes(value: object, name: str) -> int:
    """A number of bytes.

    >>> size_bytes("2GB", "memory_limit"), size_bytes("1.5 MiB", "x"), size_bytes(4096, "x")
    (2147483648, 1572864, 4096)
    """
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if isinstance(value, str) and (match := _SIZE.fullmatch(value)):
        return int(float(match[1]) * 1024 ** _POWERS[match[2].lower()])
    raise InvalidOption(f"{name} is {value!r}, which is not a size", hint="Write it as '2GB' or '512MB'.")
