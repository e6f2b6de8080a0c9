"""What is done on a cluster, with trouble: epochs beside an inline flow, and what must be so afterwards."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import penstock
from beside import FEW, compare, few
from durable.victim import Case, check_no_rubbish
from penstock.base.errors import SparkFailed
from spark.tasks_with import tasks_with
from spark.trouble import trouble

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = "CREATE TABLE t (id BIGINT PRIMARY KEY, g INTEGER, v INTEGER); CREATE TABLE u (g INTEGER, w INTEGER)"
# Three waves: by the join's key, by the group, by the count.
VIEWS = {
    "grouped": "SELECT g, count(*) n, sum(v) s, max(v) m FROM t GROUP BY g",
    "joined": "SELECT t.id, u.w FROM t JOIN u ON t.g = u.g",
    "counts": "SELECT n, count(*) k FROM (SELECT w, count(*) n FROM t JOIN u ON t.g = u.g GROUP BY w) GROUP BY n",
}
WAVES = (1, 2, 3)


class Pair:
    """A flow on the cluster and one that is inline."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self.url = folder / "flow"
        self.flow = penstock.Flow(self.url, engine=penstock.Spark(session, partitions=2), sync=False)
        self.twin = penstock.Flow(engine="inline")
        self._chance = random.Random(5)
        self._next = 0
        for flow in (self.flow, self.twin):
            flow.use_engine("inline")
            flow.sql(TABLES)
            for name, query in VIEWS.items():
                flow.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        self.flow.use_engine(penstock.Spark(session, partitions=2))

    def delta(self) -> dict[str, list[dict[str, Any]]]:
        """Rows that every wave has something to do with, in both partitions."""
        first, self._next = self._next, self._next + 12
        chance = self._chance
        rows = [{"id": first + i, "g": chance.randrange(9), "v": chance.randrange(50)} for i in range(12)]
        return {"t": rows, "u": [{"g": chance.randrange(9), "w": chance.randrange(9)} for _ in range(6)]}

    def tick(self, delta: dict[str, list[dict[str, Any]]] | None = None) -> Any:
        delta = self.delta() if delta is None else delta
        summary = self.flow.tick(delta)
        self.twin.tick(delta)
        compare(self.flow, self.twin)
        return summary

    def end(self) -> None:
        """Opened again by a flow that is inline it is the same, and nothing is left that nothing names."""
        self.flow.close()
        with penstock.Flow(self.url, engine="inline") as opened:
            compare(opened, self.twin, "opened again")
            wrong = [check for check in opened.verify() if not check.equal]
            assert not wrong, wrong
        self.twin.close()
        check_no_rubbish(Case(str(self.url), 0))


@contextmanager
def pair(session: SparkSession, folder: Path) -> Iterator[Pair]:
    with few():
        made = Pair(session, folder)
        with tasks_with(FEW):
            made.tick()
            yield made
        made.end()


def survives(session: SparkSession, folder: Path, kind: str, waves: list[int]) -> None:
    """Trouble that Spark mends: the epochs are as if there had been none."""
    with pair(session, folder) as both:
        for wave in waves:
            with tasks_with(FEW, trouble(kind, folder, wave)):
                both.tick()
            assert any(str(wave) in path.name for path in folder.iterdir()), "there was no trouble"
        unnamed = written(both.flow) - named(both.flow)
        assert unnamed, "the attempts that failed had written nothing"
        both.tick()


def survives_with_frames(session: SparkSession, folder: Path, kind: str) -> None:
    """The same where the tasks that read a DataFrame run the first wave, and leave files."""
    with pair(session, folder) as both:
        for wave in (0, 1):
            rows = both.delta()["u"]
            with tasks_with(FEW, trouble(kind, folder, wave)):
                both.flow.tick({"u": session.createDataFrame(pa.Table.from_pylist(rows)).repartition(3)})
            assert any(str(wave) in path.name for path in folder.iterdir()), "there was no trouble"
            both.twin.tick({"u": rows})
            compare(both.flow, both.twin)
        assert written(both.flow) - named(both.flow), "the attempts that failed had written nothing"
        both.tick()


def is_refused(session: SparkSession, folder: Path) -> None:
    """Trouble that does not end: nothing of the epoch is applied, and the same tick can be tried again."""
    with pair(session, folder) as both:
        delta = both.delta()
        epoch = both.flow.epoch
        for wave in WAVES:
            with pytest.raises(SparkFailed, match="fails when its work is done"):
                with tasks_with(FEW, trouble("fails always", folder, wave)):
                    both.flow.tick(delta)
            assert both.flow.epoch == epoch
            compare(both.flow, both.twin)
        both.tick(delta)


def cannot_read(session: SparkSession, folder: Path, harm: str) -> None:
    """A state file that is gone or spoiled is named, nothing is applied, and all is well when it is back."""
    with pair(session, folder) as both:
        both.flow.flush()
        delta = both.delta()
        epoch = both.flow.epoch
        place = both.url
        kept = {name: (place / name).read_bytes() for name in named(both.flow)}
        for name, data in kept.items():
            (place / name).unlink()
            if harm == "spoiled":
                (place / name).write_bytes(
                    bytes(b ^ 255 for b in data[: len(data) // 2]) + data[len(data) // 2 :]
                )
        # Executors have mapped these already, by the tick before: only a new process has to read them.
        both.flow.use_engine(penstock.Spark(session, partitions=3))
        with pytest.raises(penstock.PenstockError) as refused:
            with tasks_with(FEW, trouble("reads anew", folder, 1)):
                both.flow.tick(delta)
        assert any(Path(name).name in refused.value.message for name in kept), refused.value
        assert both.flow.epoch == epoch
        for name, data in kept.items():
            (place / name).unlink(missing_ok=True)
            (place / name).write_bytes(data)
        with tasks_with(FEW, trouble("reads anew", folder, 1)):
            both.tick(delta)


def written(flow: penstock.Flow) -> set[str]:
    store: Any = flow._store
    return {entry.name for entry in store.files.objects.list("batches")}


def named(flow: penstock.Flow) -> set[str]:
    store: Any = flow._store
    found: set[str] = set(store.flusher.manifest.files()).union(*store.collector._of_log.values())
    return found
