"""Whether Spark can run here, and the environment that it is started in."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

from penstock.base.errors import SparkUnavailable
from penstock.run.spark.java import Java, find_java


def make_ready() -> Java:
    """Have PySpark start on a Java that will do, with tasks in this Python; raises SparkUnavailable.

    To be called before the first session is made: PySpark reads these when it starts its Java process. What
    the user has set for the Python of the tasks stays, since on a cluster it is another machine's path.
    """
    if find_spec("pyspark") is None:
        raise SparkUnavailable(
            "Spark needs PySpark, which is not installed",
            hint="pip install 'penstock[spark]'. Everything but Spark works without it.",
        )
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return java
