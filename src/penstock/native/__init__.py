"""The compiled inner loops (_kernels.c), where they could be built; `kernels` is None where not.

Nothing depends on them: whoever calls one has the same in numpy and Arrow beside it, and the tests run both.
PENSTOCK_NATIVE=0 leaves them out. docs/decisions/0018-compiled-kernels.md says why they are there.
"""

from __future__ import annotations

import importlib
import os
from typing import Any


def _load() -> Any:
    if os.environ.get("PENSTOCK_NATIVE") == "0":
        return None
    try:
        return importlib.import_module("penstock.native._kernels")
    except ImportError:  # no compiler when it was installed, or another Python since
        return None


kernels: Any = _load()
