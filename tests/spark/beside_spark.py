"""A flow that goes to and fro between Spark and this process, beside one that is inline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import penstock
from beside import Beside, compare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = (2, 1, 3, None)


class BesideSpark(Beside):
    """Epochs run on Spark but for every `inline_every`-th call, in some number of partitions."""

    def __init__(self, folder: Path, session: SparkSession, seed: object = 0, inline_every: int = 5) -> None:
        self._folder = folder
        self._spark = session
        self._calls = 0
        self._inline_every = inline_every
        self.on_spark = 0  # epochs that ran there
        super().__init__(seed, url=folder / "flow", engine="inline", sync=False)

    def place(self) -> None:
        self._calls += 1
        if self._calls % self._inline_every == 0:
            self.use_engine("inline")
        else:
            self.use_engine(penstock.Spark(self._spark, partitions=self._chance.choice(PARTITIONS)))

    def close(self) -> None:
        """Closes it, and opens it again: what Spark left on storage is what an inline flow reads there."""
        twin = self.twin
        penstock.Flow.close(self)
        with penstock.Flow(self._folder / "flow", engine="inline") as opened:
            compare(opened, twin, "opened again")
            problems = [check for check in opened.verify() if not check.equal]
            assert not problems, problems
        twin.close()
