"""A process with a cluster of its own: a master, two workers and their executors on this machine.

One process can have one Spark, and the tests' own has no executors to kill. This one reads the names of scenarios
from its standard input and says of each what went wrong, or nothing.

Spark's `local-cluster` will do, but for copies of slow tasks (speculation): its workers have one host, and Spark starts
no copy where an attempt runs already. There the workers have hosts of their own, two addresses of the loopback.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.run.spark.ready import make_ready

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOSTS = ("127.0.0.1", "127.0.0.2")  # of a worker each; every address in 127/8 is this machine, on Linux

CORES = 1
MEMORY_MB = 512

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.driver.memory": "512m",
    "spark.executor.memory": f"{MEMORY_MB}m",
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


def start(folder: str) -> str:
    """A master and workers on hosts of their own, in this process's JVM; gives the address of the master."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(list(SETTINGS.items())))
    gateway: Any = SparkContext._gateway
    jvm = gateway.jvm
    conf = jvm.org.apache.spark.SparkConf()
    for name in ("spark.ui.enabled", "spark.master.rest.enabled", "spark.shuffle.service.enabled"):
        conf.set(name, "false")
    deploy = jvm.org.apache.spark.deploy
    master = deploy.master.Master.startRpcEnvAndEndpoint(HOSTS[0], 0, 0, conf)._1().address().toSparkURL()
    masters = gateway.new_array(jvm.java.lang.String, 1)
    masters[0] = master
    nothing = getattr(getattr(jvm.scala, "None$"), "MODULE$")
    for number, host in enumerate(HOSTS):
        deploy.worker.Worker.startRpcEnvAndEndpoint(
            host, 0, 0, CORES, MEMORY_MB, masters, folder, jvm.scala.Some(number), conf, nothing
        )
    return str(master)


def session_of(master: str, speculation: str) -> SparkSession:
    import pyspark

    builder = pyspark.sql.SparkSession.builder.master(master).appName("penstock faults")
    for name, value in {**SETTINGS, "spark.speculation": speculation}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main() -> None:
    import pyspark

    make_ready()
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    speculation = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        master = (
            start(folder) if speculation == "true" else f"local-cluster[{len(HOSTS)},{CORES},{MEMORY_MB}]"
        )
        session = session_of(master, speculation)
        answer(session)
        session.stop()


def answer(session: SparkSession) -> None:
    """Runs the scenarios that standard input names, until it ends."""
    from spark import scenarios

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


if __name__ == "__main__":
    main()
