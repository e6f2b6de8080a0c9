"""The command `penstock` as a process of its own."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, "-m", "penstock"]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=60)


def test_exit_codes_and_streams(folder: Path) -> None:
    fine = run("verify", folder)
    assert (fine.returncode, fine.stderr) == (0, "")
    assert fine.stdout.endswith("Everything is as it should be.\n")
    wrong = run("verify", folder, "--view", "nothing")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "Traceback" not in wrong.stderr
    file = max((folder / "batches").iterdir(), key=lambda f: f.stat().st_size)
    file.chmod(0o600)
    with file.open("r+b") as handle:
        handle.seek(file.stat().st_size // 2)
        handle.write(b"\xff\x00\xff")
    assert run("verify", folder).returncode == 1


def test_a_reader_that_went_away(folder: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "inspect", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    errors = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=60), errors) == (141, "")


def test_a_bar_only_on_a_terminal(folder: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    process = subprocess.Popen(
        [*COMMAND, "verify", str(folder)], stdout=subprocess.PIPE, stderr=theirs, env=environment
    )
    out, _ = process.communicate(timeout=60)
    os.close(theirs)
    drawn = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # what Linux gives at the end of a terminal
            break
        if not part:
            break
        drawn += part
    os.close(ours)
    assert process.returncode == 0
    assert b"verifying" in drawn
    assert b"verifying" not in out
    assert b"\x1b" not in out
