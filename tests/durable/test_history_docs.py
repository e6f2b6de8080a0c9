"""Every example of docs/history.md runs."""

from __future__ import annotations

import doctest
import uuid
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "history.md"


def test_examples() -> None:
    from decimal import Decimal

    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    globs = {"url": f"memory://{uuid.uuid4().hex}", "Decimal": Decimal}
    result = doctest.testfile(str(PAGE), module_relative=False, globs=globs, optionflags=flags)
    assert result.attempted > 20
    assert result.failed == 0
