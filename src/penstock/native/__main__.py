"""Says whether the compiled inner loops are there: `make setup` runs it."""

from __future__ import annotations

import sys

from penstock.native import kernels

if kernels is None:
    sys.stderr.write(
        "The inner loops could not be compiled, so ticks of some hundred rows will be slower. For them: a C compiler "
        "and Python's headers (Debian, Ubuntu: apt install gcc python3-dev), then make clean setup.\n"
    )
