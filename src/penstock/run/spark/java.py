"""Which Java Spark is to run on: found without starting one, where that can be helped."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.base.errors import SparkUnavailable

JAVA_VERSION_MIN = 17  # what Spark 4 asks for
INSTALLED = Path("/usr/lib/jvm")  # where Debian, Ubuntu, Fedora and SUSE keep theirs
START_S_MAX = 30  # a Java that does not say its version by then is no Java to rely on

NO_JAVA_HINT = (
    "Install it (Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17) or name "
    "one with JAVA_HOME. Everything but Spark works without it."
)


@dataclass(frozen=True)
class Java:
    """A Java that can run Spark."""

    home: Path
    version: int


def find_java(environ: Mapping[str, str] = os.environ, installed: Path = INSTALLED) -> Java:
    """The Java to use: JAVA_HOME's, else the one on the PATH, else the oldest that is installed and new enough.

    The oldest, because Spark promises to run on the versions that are older than itself.
    """
    too_old: list[Java] = []
    for home in _named(environ):
        found = java_at(home)
        if found is not None and found.version >= JAVA_VERSION_MIN:
            return found
        too_old += [found] if found is not None else []
    others = [found for home in _installed(installed) if (found := java_at(home)) is not None]
    enough = [found for found in others if found.version >= JAVA_VERSION_MIN]
    if enough:
        return min(enough, key=lambda java: (java.version, str(java.home)))
    newest = max([*too_old, *others], key=lambda java: java.version, default=None)
    what = "there is none here" if newest is None else f"the newest here is Java {newest.version}"
    raise SparkUnavailable(f"Spark needs Java {JAVA_VERSION_MIN} or newer, and {what}", hint=NO_JAVA_HINT)


def java_at(home: Path) -> Java | None:
    """The Java whose home this is; None if it is none.

    >>> java_at(Path("/nowhere")) is None
    True
    """
    program = home / "bin" / "java"
    if not program.is_file():
        return None
    version = _released(home / "release") or _asked(program)
    return None if version is None else Java(home, version)


def major_version(text: str) -> int | None:
    """The number that a version of Java is called by.

    >>> major_version('openjdk version "17.0.15" 2025-04-15'), major_version('java version "1.8.0_412"')
    (17, 8)
    >>> major_version('JAVA_VERSION="25"')
    25
    """
    found = re.search(r'version[ =]+"(?:1\.)?(\d+)', text, re.IGNORECASE)
    return int(found[1]) if found else None


def _released(file: Path) -> int | None:
    try:
        return major_version(file.read_text())
    except (OSError, UnicodeDecodeError):
        return None


def _asked(program: Path) -> int | None:
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=START_S_MAX)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return major_version(done.stderr + done.stdout)


def _named(environ: Mapping[str, str]) -> Iterator[Path]:
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"])
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path is not None:
        yield Path(on_path).resolve().parent.parent


def _installed(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from sorted(folder.iterdir())
    if sys.platform == "darwin":
        for pattern in ("/Library/Java/JavaVirtualMachines/*/Contents/Home", "/opt/homebrew/opt/openjdk*"):
            yield from sorted(Path("/").glob(pattern.lstrip("/")))
