"""A process with a cluster of its own: a master, two workers and their executors on this machine.

One process can have one Spark, and the tests' own has no executors to kill. This one reads the names of scenarios
from its standard input and says of each what went wrong, or nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

from penstock.run.spark.ready import make_ready

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.sql.session.timeZone": "UTC",
    "spark.task.maxFailures": "4",
    # Executors that died have taken what they shuffled with them: that is to be found out soon.
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "200ms",
    "spark.excludeOnFailure.enabled": "false",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "200ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.4",
}


class Cluster:
    """The process, from outside."""

    def __init__(self, speculation: bool) -> None:
        tests = Path(__file__).parent.parent
        paths = [str(tests), str(tests.parent), *[p for p in sys.path if p]]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "spark.cluster", str(speculation).lower()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "SPARK_LOCAL_IP": "127.0.0.1"},
            text=True,
        )

    def run(self, scenario: str, folder: Path, **options: Any) -> str:
        """What went wrong in a scenario; empty if nothing did."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"scenario": scenario, "folder": str(folder), "options": options}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        return str(json.loads(answer)) if answer else "the cluster's driver is dead"

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()


def main() -> None:
    import pyspark

    from spark import scenarios

    make_ready()
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    builder = pyspark.sql.SparkSession.builder.master("local-cluster[2,1,512]").appName("penstock faults")
    for name, value in {**SETTINGS, "spark.speculation": sys.argv[1]}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    answers = os.fdopen(os.dup(1), "w")  # Spark may write to standard output
    os.dup2(2, 1)
    for line in sys.stdin:
        asked = json.loads(line)
        said = ""
        try:
            getattr(scenarios, asked["scenario"])(session, Path(asked["folder"]), **asked["options"])
        except BaseException:
            said = traceback.format_exc()
        answers.write(json.dumps(said) + "\n")
        answers.flush()
    session.stop()


if __name__ == "__main__":
    main()
