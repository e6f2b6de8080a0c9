"""Errors and notices as clients get them."""

from __future__ import annotations

from dataclasses import dataclass

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
            "R": getattr(error, "routine", None),
        },
    )


@dataclass(frozen=True)
class Notice:
    """Something that a client is told and that is no error."""

    text: str
    sqlstate: str = "01000"
    severity: str = "WARNING"


def notice_report(notice: str | Notice) -> bytes:
    """NoticeResponse; a text is a warning."""
    n = Notice(notice) if isinstance(notice, str) else notice
    return b.report(b"N", {"S": n.severity, "V": n.severity, "C": n.sqlstate, "M": n.text})
