"""The compiled inner loops (the C files beside this one), where they could be built; `kernels` is None where not.

Nothing depends on them: whoever calls one has the same in numpy and Arrow beside it, and the tests run both.
PENSTOCK_NATIVE=0 leaves them out. docs/decisions/0018-compiled-kernels.md says why they are there.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

VERSION = 3  # as in _kernels.c


def _load() -> Any:
    if os.environ.get("PENSTOCK_NATIVE") == "0":
        return None
    try:
        found = importlib.import_module("penstock.native._kernels")
    except ImportError:  # no compiler when it was installed, or another Python since
        return None
    # What a checkout compiled before it was brought up to date would not be understood.
    return found if getattr(found, "VERSION", None) == VERSION else None


kernels: Any = _load()
