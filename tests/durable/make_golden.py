"""python -m durable.make_golden: write the archive of the golden flow in the format of today.

To be called once for each format, when it is final: an archive that is there is not overwritten.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path

from durable.golden import FOLDER, make
from penstock.commit.manifest import FORMAT


def main() -> int:
    target = FOLDER / f"format-{FORMAT}.tar.gz"
    if target.exists():
        print(f"{target} is there already: remove it if its format was never released")
        return 1
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder) / "flow")
        with tarfile.open(target, "w:gz") as archive:
            archive.add(Path(folder) / "flow", "flow")
    print(f"{target}: {target.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
