"""Forks victims from a process that has everything imported and nothing opened, and kills them.

Handles of DuckDB and SlateDB do not survive a fork, and a test process has threads of its own: so a
process beside it, which opens nothing itself, does the forking. It reads cases as lines of JSON.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas  # noqa: F401  pyarrow imports it when it first sees a Python object: once, not in every victim

from durable.victim import Case, live


@dataclass(frozen=True)
class Death:
    """How a victim ended."""

    killed: bool
    acknowledged: int  # the last step that it acknowledged, or what was known before
    started: int
    verified: bool  # whether it got as far as judging what it found
    failure: str = ""  # what went wrong, if anything did


class Executioner:
    """A process that forks victims."""

    def __init__(self) -> None:
        tests = Path(__file__).parent.parent
        paths = [str(tests), *[p for p in sys.path if p]]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "durable.executioner"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            text=True,
        )

    def run(self, case: Case) -> Death:
        """Let a victim live, and learn how it ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(case)) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the executioner is dead itself")
        return Death(**json.loads(answer))

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=10)
        self._process.stdout.close()


def execute(case: Case) -> Death:
    """Fork a victim, kill it if it is time, and read what it said."""
    reader, writer = os.pipe()
    victim = os.fork()
    if victim == 0:
        os.close(reader)
        live(case, writer)
    os.close(writer)
    began = time.monotonic()
    deadline = began + case.seconds_max
    kill_at = began + case.kill_after_s if case.kill_after_s is not None and case.kill_opening else None
    said = b""
    late = False
    while True:
        until = deadline if kill_at is None else min(kill_at, deadline)
        ready, _, _ = select.select([reader], [], [], max(0.0, until - time.monotonic()))
        if ready:
            piece = os.read(reader, 65_536)
            if not piece:
                break
            said += piece
            if kill_at is None and case.kill_after_s is not None and b"at " in said:
                kill_at = time.monotonic() + case.kill_after_s
            continue
        late = time.monotonic() >= deadline
        os.kill(victim, signal.SIGKILL)
        kill_at = None
        deadline = time.monotonic() + case.seconds_max
    os.close(reader)
    _, status = os.waitpid(victim, 0)
    return _death(case, said.decode(), status, late)


def _death(case: Case, said: str, status: int, late: bool) -> Death:
    acknowledged, started, verified, failure = case.acknowledged, case.started, False, ""
    for line in said.splitlines():
        word, _, rest = line.partition(" ")
        if word == "at":
            # What was found durable once is durable: the next must find it again.
            acknowledged = started = int(rest)
            verified = True
        elif word == "start":
            started = int(rest)
        elif word == "ack":
            acknowledged = int(rest)
        else:
            failure = rest.replace("\x1f", "\n")
    killed = os.WIFSIGNALED(status)
    if late:
        failure = f"it had not ended after {case.seconds_max} seconds"
    elif not failure and killed and os.WTERMSIG(status) != signal.SIGKILL:
        failure = f"it died of signal {os.WTERMSIG(status)}"
    elif not failure and not killed and os.WEXITSTATUS(status):
        failure = f"it ended with status {os.WEXITSTATUS(status)}"
    return Death(killed, acknowledged, started, verified, failure)


def main() -> None:
    for line in sys.stdin:
        values: dict[str, Any] = json.loads(line)
        print(json.dumps(asdict(execute(Case(**values)))), flush=True)


if __name__ == "__main__":
    main()
