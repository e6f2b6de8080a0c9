"""The process that Spark forks the Python processes of its tasks from: it has imported penstock already.

Spark starts it by `spark.python.daemon.module`, which a session that penstock starts on this machine is given.
On a cluster penstock may only come with the job, so there tasks import it themselves.
"""

from __future__ import annotations

from pyspark import daemon

import penstock.run.spark.tasks  # noqa: F401  what every task needs
from penstock.run.spark.worker import settle

if __name__ == "__main__":
    settle()
    daemon.manager()  # type: ignore[no-untyped-call]
