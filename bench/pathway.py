"""Pathway as a peer: a process of its own, in an environment of its own, that answers in JSON."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

PROGRAM = Path(__file__).parent / "peers" / "pathway_degree.py"


def load_s(python: str, folder: Path, edges: int, threads: int) -> float:
    """Seconds that Pathway takes for the distribution of a file of edges, in its fastest way."""
    found = subprocess.run(
        [python, str(PROGRAM), "load", str(folder), str(edges)],
        check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_environment(threads), text=True,
    )  # fmt: skip
    return float(json.loads(found.stdout)["load_s"])


class PathwayChanges:
    """A running Pathway that holds the edges and makes one-edge changes when it is asked to."""

    def __init__(self, python: str, folder: Path, edges: int, nodes: int) -> None:
        self.process = subprocess.Popen(
            [python, str(PROGRAM), "change", str(folder), str(edges), str(nodes)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=_environment(threads=1), text=True,
        )  # fmt: skip
        self._answer()  # it has loaded

    def changes(self, count: int, pause_s: float) -> list[float]:
        """Seconds that each of `count` one-edge changes took until its result had come out."""
        self._tell(f"measure {count} {pause_s}")
        latencies: list[float] = self._answer()["latencies_s"]
        return latencies

    def __enter__(self) -> PathwayChanges:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._tell("quit")
            self.process.wait(timeout=60)
        else:
            self.process.kill()

    def _tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(
                "Pathway ended without an answer; run bench/peers/pathway_degree.py by hand to see why"
            )
        answer: dict[str, Any] = json.loads(line)
        return answer


def _environment(threads: int) -> dict[str, str]:
    return {**os.environ, "PATHWAY_THREADS": str(threads)}
