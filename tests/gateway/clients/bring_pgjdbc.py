"""What `make setup` runs for the tests of JDBC: Debian's pgjdbc, taken out of its package into .venv.

    python tests/gateway/clients/bring_pgjdbc.py

Nothing is installed: the package is downloaded into a temporary folder, as any user may, and unpacked there. Where
this machine has no lists of packages, or old ones, newer lists are fetched into that folder as well.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

PACKAGE = "libpostgresql-jdbc-java"
IN_PACKAGE = Path("usr/share/java/postgresql.jar")
DRIVER = Path(sys.prefix) / "share" / "java" / "postgresql.jar"
COMMAND_S_MAX = 300  # of one command: a network that has not answered by then will not

Run = Callable[[Sequence[str], Path], str | None]  # a command and its folder; None, or what went wrong
SKIPPED = "The tests of JDBC will be skipped."


def bring_pgjdbc(target: Path, run: Run, have: Callable[[str], bool], root: Path = Path("/")) -> str:
    """One sentence on the driver, after an attempt to bring it to `target` if it is not there."""
    if target.exists():
        return f"pgjdbc is at {target}."
    if (root / IN_PACKAGE).exists():
        _keep(root / IN_PACKAGE, target)
        return f"Copied pgjdbc from {root / IN_PACKAGE}, for the tests."
    missing = [program for program in ("apt-get", "dpkg-deb") if not have(program)]
    if missing:
        return f"pgjdbc is not here: it comes from Debian's or Ubuntu's {PACKAGE}, and there is no {missing[0]}. {SKIPPED}"
    with tempfile.TemporaryDirectory(prefix="pgjdbc") as name:
        folder = Path(name)
        wrong = _unpacked(folder, run)
        if wrong is None:
            _keep(folder / "root" / IN_PACKAGE, target)
            return f"Brought pgjdbc, from the package {PACKAGE}, for the tests."
    return f"pgjdbc could not be brought from the package {PACKAGE}: {wrong}. {SKIPPED}"


def _unpacked(folder: Path, run: Run) -> str | None:
    """Download the package and unpack it into `root`; what went wrong, if something did."""
    lists = folder / "lists"
    (lists / "partial").mkdir(parents=True)
    (folder / "archives" / "partial").mkdir(parents=True)
    own = ("-o", f"Dir::State::lists={lists}", "-o", f"Dir::Cache={folder}")
    wrong = run(("apt-get", "-qq", "download", PACKAGE), folder)
    if wrong is not None:  # no lists, or so old that the package is not there any more
        run(("apt-get", "-qq", *own, "update"), folder)
        if run(("apt-get", "-qq", *own, "download", PACKAGE), folder) is not None:
            return f"{wrong} (and not with new lists of packages either)"
    (package,) = folder.glob("*.deb")
    wrong = run(("dpkg-deb", "-x", package.name, "root"), folder)
    return wrong or (None if (folder / "root" / IN_PACKAGE).exists() else f"it has no {IN_PACKAGE}")


def _keep(jar: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(f".{os.getpid()}")  # whoever finds the driver finds all of it
    shutil.copyfile(jar, part)
    part.replace(target)


def _run(command: Sequence[str], folder: Path) -> str | None:
    try:
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, "LC_ALL": "C"}, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=COMMAND_S_MAX,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"{command[0]} took longer than {COMMAND_S_MAX} s"
    errors = [line for line in done.stderr.splitlines() if line.startswith(("E:", "dpkg"))]
    return None if done.returncode == 0 else (errors or [f"{command[0]} failed"])[0].rstrip(".")


if __name__ == "__main__":
    sys.stdout.write(bring_pgjdbc(DRIVER, _run, lambda program: shutil.which(program) is not None) + "\n")
