"""Errors and notices as clients get them."""

from __future__ import annotations

from penstock.base.errors import PenstockError
from penstock.gateway import backend as b


def error_report(error: PenstockError, offset: int = 0, severity: str = "ERROR") -> bytes:
    """ErrorResponse; `offset` is where the statement begins in the text that the client sent."""
    position = None if error.position is None else str(error.position + offset + 1)
    return b.report(
        b"E",
        {
            "S": severity,
            "V": severity,
            "C": error.sqlstate,
            "M": error.message,
            "H": error.hint,
            "P": position,
        },
    )


def notice_report(text: str, severity: str = "WARNING", code: str = "01000") -> bytes:
    """NoticeResponse: a warning, unless it says otherwise."""
    return b.report(b"N", {"S": severity, "V": severity, "C": code, "M": text})
