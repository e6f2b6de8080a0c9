"""Settings that are a time: read and written as Postgres does, in milliseconds where no unit is given."""

from __future__ import annotations

import re

from penstock.base.errors import InvalidOption

_UNITS_MS = {"us": 0.001, "ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_FORM = re.compile(r"\s*(\d{1,12}(?:\.\d{1,6})?)\s*([a-z]*)\s*")
_MS_MAX = 2**31 - 1


def duration_ms(name: str, text: str) -> int:
    """
    >>> duration_ms("statement_timeout", "1.5s"), duration_ms("statement_timeout", "250")
    (1500, 250)
    """
    found = _FORM.fullmatch(text.strip("'"))
    if found is None or (found[2] and found[2] not in _UNITS_MS):
        raise InvalidOption(
            f'invalid value for parameter "{name}": "{text}"',
            hint='Valid units for this parameter are "us", "ms", "s", "min", "h", and "d".',
        )
    value = round(float(found[1]) * _UNITS_MS[found[2] or "ms"])
    if value > _MS_MAX:
        raise InvalidOption(
            f'{text} is outside the valid range for parameter "{name}" (0 ms .. {_MS_MAX} ms)'
        )
    return value


def duration_text(ms: int) -> str:
    """
    >>> [duration_text(ms) for ms in (0, 250, 1500, 60_000)]
    ['0', '250ms', '1500ms', '1min']
    """
    if not ms:
        return "0"
    for unit in ("d", "h", "min", "s"):
        if ms % int(_UNITS_MS[unit]) == 0:
            return f"{ms // int(_UNITS_MS[unit])}{unit}"
    return f"{ms}ms"
