"""python -m bench.spark_scale [--rows N] [--changed N]: what an epoch on Spark moves, by the number of partitions.

Storage is moto's S3 server, whose log of requests is counted. The figures stand in docs/scale.md; those that are
counts are the same on any machine.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from bench.measure import say
from bench.scale import SEED
from bench.spark_session import spark_engine
from penstock import Flow, Spark

PARTITIONS = (1, 2, 4, 8, 64)
EPOCHS = 5
WARM_UPS = 2

# It ends when its standard input does. Its log, a line for each request, is what is counted.
SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""
VIEW = """
    CREATE MATERIALIZED VIEW by_region AS
    SELECT region, COUNT(*) AS n, SUM(amount) AS total
    FROM orders o JOIN customers c ON o.customer = c.id GROUP BY region"""

_random = np.random.default_rng(SEED)


class Storage:
    """An S3 server that keeps a log of what it was asked."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "requests.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", SERVER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        self._endpoint = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        self._seen = 0
        urllib.request.urlopen(urllib.request.Request(f"{self._endpoint}/flows", method="PUT")).close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def options(self) -> dict[str, str]:
        return {
            "endpoint": self._endpoint,
            "region": "us-east-1",
            "access_key_id": "key",
            "secret_access_key": "secret",
            "allow_http": "true",
        }

    def asked(self) -> Counter[str]:
        """Requests since the last time, by method: those for batches, and those of the database (truth)."""
        text = self._log.read_text(errors="replace")
        found = re.findall(r'"(GET|PUT|POST|HEAD|DELETE) (\S*)', text[self._seen :])
        self._seen = len(text)
        return Counter(f"{method} {'batches' if '/batches' in path else 'truth'}" for method, path in found)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.spark_scale", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the table before")
    parser.add_argument("--changed", type=int, default=10_000, help="rows of each epoch")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-scale-") as folder, spark_engine() as engine:
        storage = Storage(Path(folder))
        try:
            print(HEADER)
            for partitions in PARTITIONS:
                print(
                    line(partitions, epochs(Path(folder), storage, engine, partitions, options)), flush=True
                )
        finally:
            storage.close()
    return 0


HEADER = (
    "partitions  tick ms  job ms  driver ms  CPU ms  tasks  task ms  packets  KB shuffled  files read  MB fetched  "
    "files written  requests of tasks  all requests"
)


def line(partitions: int, found: list[dict[str, Any]]) -> str:
    """The first epoch, and the median of the others."""
    first, *others = found
    every: Counter[str] = sum((one["asked"] for one in others), Counter())
    numbers = [
        f"{first[name]:.4g}/{median(one[name] for one in others):.4g}" for name in first if name != "asked"
    ]
    asked = f"{dict(first['asked'])}/{dict(every)} in {len(others)} epochs"
    return "  ".join([f"{partitions:10}", *numbers, asked])


def epochs(
    folder: Path, storage: Storage, engine: Spark, partitions: int, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Epochs of a flow that was loaded for it, with so many partitions from the load on."""
    cut = Spark(engine.session(), partitions=partitions)
    flow = Flow(
        f"s3://flows/p{partitions}", storage_options=storage.options, cache_dir=folder / "cache", engine=cut
    )
    timing = JobTime()
    found: list[dict[str, Any]] = []
    with flow, timing:
        load(flow, options.rows)
        for _ in range(WARM_UPS + EPOCHS):
            flow.flush()
            storage.asked()
            timing.seconds = 0.0
            changes = {
                "orders": orders(options.changed, options.rows),
                "customers": people(_random.integers(0, options.rows // 10, options.changed // 100)),
            }
            worked = cpu_seconds(storage.pid)
            began = time.perf_counter()
            summary = flow.tick(changes)
            took = time.perf_counter() - began
            tasks = summary.spark_tasks
            found.append(
                {
                    "tick": took * 1000,
                    "job": timing.seconds * 1000,
                    "driver": (took - timing.seconds) * 1000,
                    "cpu": (cpu_seconds(storage.pid) - worked) * 1000,
                    "tasks": len(tasks),
                    "task": sum(t.seconds for t in tasks) * 1000,
                    "packets": sum(t.packets for t in tasks),
                    "shuffled": sum(t.packet_bytes for t in tasks) / 1000,
                    "read": sum(t.files_read for t in tasks),
                    "fetched": sum(t.bytes_fetched for t in tasks) / 1e6,
                    "written": sum(t.files_written for t in tasks),
                    "requests": sum(t.requests for t in tasks),
                    "asked": storage.asked(),
                }
            )
    # The first epoch is kept apart: tasks have no file open yet.
    del found[1:WARM_UPS]
    say(f"scale: {partitions} partitions done")
    return found


def cpu_seconds(without: int) -> float:
    """What this process and all below it have worked, Java and tasks, but not this one: nothing of what others did."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
            parents[int(entry.name)] = int(fields[1])
            ticks[int(entry.name)] = int(fields[11]) + int(fields[12])
    parents.pop(without, None)
    ours = {os.getpid()}
    for _ in range(4):  # Java, its daemon, the tasks' processes
        ours |= {pid for pid, parent in parents.items() if parent in ours}
    return sum(ticks[pid] for pid in ours) / os.sysconf("SC_CLK_TCK")


class JobTime:
    """How long this process waits for Spark's job: the rest of a tick is the driver's own work."""

    seconds = 0.0

    def __enter__(self) -> None:
        from pyspark.sql.classic.dataframe import DataFrame

        self._plain = plain = DataFrame.toArrow

        def timed(frame: Any) -> Any:
            began = time.perf_counter()
            try:
                return plain(frame)
            finally:
                self.seconds += time.perf_counter() - began

        DataFrame.toArrow = timed  # type: ignore[assignment, method-assign]

    def __exit__(self, *error: object) -> None:
        from pyspark.sql.classic.dataframe import DataFrame

        DataFrame.toArrow = self._plain  # type: ignore[method-assign]


def load(flow: Flow, rows: int) -> None:
    customers = rows // 10
    flow.sql("CREATE TABLE orders (customer BIGINT, amount BIGINT)")
    flow.sql("CREATE TABLE customers (id BIGINT, region BIGINT)")
    flow.sql(VIEW)
    flow.tick("customers", people(np.arange(customers)))
    flow.tick("orders", orders(rows, rows))


def people(ids: np.ndarray) -> pa.Table:
    return pa.table({"id": ids, "region": _random.integers(0, 25, len(ids))})


def orders(rows: int, of: int) -> pa.Table:
    return pa.table(
        {"customer": _random.integers(0, of // 10, rows), "amount": _random.integers(1, 1_000, rows)}
    )


if __name__ == "__main__":
    sys.exit(main())
