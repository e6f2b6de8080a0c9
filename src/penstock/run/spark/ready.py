"""Whether Spark can run here, and the environment that it is started in."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

from penstock.base.errors import SparkUnavailable
from penstock.run.spark.java import Java, find_java


def is_here(master: str) -> bool:
    """Whether the tasks of this master run on this machine.

    >>> is_here("local[*]"), is_here("spark://far:7077")
    (True, False)
    """
    return master.startswith("local")


def make_ready(master: str = "local[*]") -> Java:
    """Have PySpark start on a Java that will do, with tasks on this machine in this Python; raises SparkUnavailable.

    To be called before the first session is made: PySpark reads these when it starts its Java process. What
    the user has set for the Python of the tasks stays; the machines of a cluster need not have this one's paths.
    """
    if find_spec("pyspark") is None:
        raise SparkUnavailable(
            "Spark needs PySpark, which is not installed",
            hint="pip install 'penstock[spark]'. Everything but Spark works without it.",
        )
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    if is_here(master):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return java
