"""A task's process: archives of the path are read again only if they are others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# In a process of its own: what is set up lasts as long as the process.
PROGRAM = """
import importlib, os, sys, zipfile
from pathlib import Path
from penstock.run.spark import worker

def write(name, text, second):
    with zipfile.ZipFile(sys.argv[1], "a") as file:
        file.writestr(name, text)
    os.utime(sys.argv[1], (second, second))

write("one.py", "VALUE = 1", 1_000)
sys.path.insert(0, sys.argv[1])
import one
worker.settle()
read = []
worker._PLAIN, plain = (lambda a: (read.append(Path(a.archive).name), plain(a))), worker._PLAIN
importlib.invalidate_caches()
print(read)
write("two.py", "VALUE = 2", 2_000)
importlib.invalidate_caches()
import two
print(read, two.VALUE)
"""


def test_an_archive_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "modules.zip")],
        check=True,
        capture_output=True,
        text=True,
    )
    assert found.stdout.splitlines() == ["[]", "['modules.zip'] 2"]
