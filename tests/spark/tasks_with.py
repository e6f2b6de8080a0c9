"""Tasks with something done to them: small limits, or trouble. They travel to the workers by value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from penstock.kernels import hashing
from penstock.run.spark import engine
from penstock.run.spark.tasks import SourceTask, WaveTask
from spark.trouble import Trouble


def as_given(task: Any, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Nothing is done to the task."""
    return task(batches)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class TaskWith:
    """A task inside of what is done to it, with limits that are set in the worker while it runs."""

    task: WaveTask | SourceTask
    limits: Mapping[str, float] = field(default_factory=dict)
    trouble: Trouble = as_given

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        from penstock.base import limits as known
        from penstock.kernels import hashing

        def put(values: Mapping[str, float]) -> None:
            for name, module in list(sys.modules.items()):
                if name.startswith("penstock."):
                    for limit, value in values.items():
                        if hasattr(module, limit):
                            setattr(module, limit, value)

        before = {n: getattr(known, n, getattr(hashing, n, None)) for n in self.limits}
        put(self.limits)
        try:
            yield from self.trouble(self.task, batches)
        finally:
            put(before)  # type: ignore[arg-type]  # the worker goes on to other tasks


@contextmanager
def tasks_with(
    limits: Mapping[str, float] | None = None,
    trouble: Trouble = as_given,
) -> Iterator[None]:
    """All tasks that are sent meanwhile have these limits, and this trouble. A forced hash goes with them."""
    from pyspark import cloudpickle

    import spark.tasks_with as here
    import spark.trouble as troubles

    for module in (here, troubles):
        cloudpickle.register_pickle_by_value(module)
    values = {**(limits or {}), "COLLIDE_BITS": hashing.COLLIDE_BITS}
    with pytest.MonkeyPatch.context() as patch:
        for kind in (WaveTask, SourceTask):
            patch.setattr(engine, kind.__name__, lambda *a, kind=kind: TaskWith(kind(*a), values, trouble))
        yield
