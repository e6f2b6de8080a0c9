"""What `make setup` runs: Java is found, or installed on Debian and Ubuntu, or asked for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

from penstock.base.errors import SparkUnavailable
from penstock.run.spark.java import find_java

# The default package comes last: on older releases it is a Java that is too old for Spark.
PACKAGES = (
    "openjdk-17-jre-headless",
    "openjdk-21-jre-headless",
    "openjdk-25-jre-headless",
    "default-jre-headless",
)

Run = Callable[[Sequence[str]], bool]


def set_up_java(run: Run, root: bool, have: Callable[[str], bool]) -> str:
    """One sentence on the Java of this machine, after an attempt to install one if there is none."""
    try:
        found = find_java()
    except SparkUnavailable as missing:
        if not install(run, root, have):
            return str(missing).replace("\nHINT:", ".")
        try:
            found = find_java()
        except SparkUnavailable as still_missing:
            return str(still_missing).replace("\nHINT:", ".")
        return f"Installed Java {found.version} for Spark."
    return f"Java {found.version} at {found.home} is there for Spark."


def install(run: Run, root: bool, have: Callable[[str], bool]) -> bool:
    """Install a Java with apt-get, if this machine has that and this user may; whether one was installed.

    >>> asked = []
    >>> def run(command):
    ...     asked.append(" ".join(command))
    ...     return "17" not in command[-1]
    >>> install(run, root=True, have=lambda program: True)
    True
    >>> asked[0], asked[-1]
    ('apt-get update -qq', 'apt-get install -qq -y --no-install-recommends openjdk-21-jre-headless')
    >>> install(run, root=False, have=lambda program: program != "sudo")
    False
    """
    if not have("apt-get"):
        return False
    if root:
        prefix: tuple[str, ...] = ()
    elif have("sudo") and run(("sudo", "-n", "true")):
        prefix = ("sudo", "-n")
    else:
        return False
    return any(run(command) for command in _commands(prefix, run))


def _commands(prefix: tuple[str, ...], run: Run) -> Iterator[tuple[str, ...]]:
    # A fresh machine has no lists of packages; one without a network may have the packages all the same.
    run((*prefix, "apt-get", "update", "-qq"))
    for package in PACKAGES:
        yield (*prefix, "apt-get", "install", "-qq", "-y", "--no-install-recommends", package)


def _run(command: Sequence[str]) -> bool:
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return done.returncode == 0


if __name__ == "__main__":
    said = set_up_java(_run, os.geteuid() == 0, lambda program: shutil.which(program) is not None)
    sys.stdout.write(said + "\n")
