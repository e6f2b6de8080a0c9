"""The process that is killed: it opens a flow, judges what it finds, works on, and says how far it came."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import penstock
from durable.judged import check_flow
from durable.on_files import on_files
from durable.small_limits import SMALL, set_limits
from durable.workload import steps
from penstock.base import faults

FLUSH_EVERY = 5  # in the mode "visible", steps between two calls of flush()


@dataclass(frozen=True)
class Case:
    """One life of a flow's process, from opening the flow to its end."""

    url: str
    seed: int
    mode: str = "durable"
    acknowledged: int = 0  # the last step known to be on storage when it begins
    started: int = 0  # the last step that may be
    point: str = ""  # where it dies ...
    count: int = 1  # ... when it comes there for this time
    kill_after_s: float | None = None  # or dies after this time, from the beginning or from the first step
    kill_opening: bool = False
    steps: int = 90  # it ends by itself after these
    retain: str = "10 minutes"
    close: bool = False  # whether it ends properly
    options: dict[str, str] = field(default_factory=dict)  # of the storage
    limits: dict[str, float] = field(default_factory=dict)
    engine: str = "inline"  # or "files" (two of three epochs in partitions that write files) or "spark"
    seconds_max: float = 60.0  # it is taken for stuck after these


def live(case: Case, report: int) -> None:
    """Do all of it, and end the process."""

    def say(*words: object) -> None:
        os.write(report, (" ".join(map(str, words)) + "\n").encode())

    status = 0
    try:
        _live(case, say)
    except BaseException:
        say("failed", traceback.format_exc().replace("\n", "\x1f"))
        status = 1
    os._exit(status)


def _live(case: Case, say: Any) -> None:
    set_limits({**SMALL, **case.limits})
    if case.point.startswith("open."):
        faults.arm(case.point, case.count)
    flow = penstock.Flow(
        case.url,
        commit=case.mode,
        commit_interval="20 ms",
        retain_history=case.retain,
        storage_options=case.options,
    )
    forgetful = case.retain != "10 minutes"
    at = check_flow(flow, case.seed, case.acknowledged, case.started, forgetful)
    say("at", at)
    if case.point and not case.point.startswith("open."):
        faults.arm(case.point, case.count)
    place = placing(flow, case)
    for step, model in steps(case.seed):
        if step.number <= at:
            continue
        if step.number > at + case.steps:
            break
        say("start", step.number)
        place(step.number)
        step.run(flow)
        assert flow.epoch == model.epoch, (flow.epoch, model.epoch)
        if case.mode == "durable" or step.is_definition:
            say("ack", step.number)
        elif step.number % FLUSH_EVERY == 0:
            flow.flush()
            say("ack", step.number)
    faults.disarm()
    if case.close:
        flow.close()
        say("ack", at + case.steps)
        check_no_rubbish(case)


def placing(flow: penstock.Flow, case: Case) -> Callable[[int], None]:
    """Says before a step where its epochs run."""
    if case.engine == "inline":
        return lambda step: None
    if case.engine == "files":
        return lambda step: on_files(flow, 1 + step % 3 if step % 3 else None)
    spark = penstock.Spark(partitions=2, master="local[2]", config=SPARK_SETTINGS)

    from spark.tasks_with import tasks_with

    tasks_with(case.limits).__enter__()  # for as long as this process lives

    def place(step: int) -> None:
        flow.use_engine("inline" if step % 4 == 0 else spark)

    return place


SPARK_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
}


def check_no_rubbish(case: Case) -> None:
    """Open it once more: every file that is there afterwards is one that something names."""
    flow = penstock.Flow(case.url, storage_options=case.options)
    store: Any = flow._store
    named = set(store.flusher.manifest.files()).union(*store.collector._of_log.values())
    there = {entry.name for entry in store.files.objects.list("batches")}
    flow.close()
    assert there == named, f"too many: {sorted(there - named)}, missing: {sorted(named - there)}"
