"""A value for a message: short, and never an error of its own."""

from __future__ import annotations

from typing import Any

from penstock.base.limits import ERROR_VALUE_LENGTH_MAX

_BITS_SHOWN_MAX = 8 * ERROR_VALUE_LENGTH_MAX  # Python refuses to write very long integers


def shorten(value: Any) -> str:
    """A value for a message.

    >>> shorten(None), shorten("it's"), shorten(1.5), shorten(10**5000)
    ('NULL', '"it\\'s"', '1.5', 'an integer of 16610 bits')
    """
    if value is None:
        return "NULL"
    if isinstance(value, int) and value.bit_length() > _BITS_SHOWN_MAX:
        return f"an integer of {value.bit_length()} bits"
    try:
        text = repr(value) if isinstance(value, (str, bytes)) else str(value)
    except Exception:  # a class of the user's, or an integer deep inside
        text = f"a value of {type(value).__name__}"
    return text if len(text) <= ERROR_VALUE_LENGTH_MAX else text[:ERROR_VALUE_LENGTH_MAX] + "..."
