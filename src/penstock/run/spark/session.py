"""Which Spark a flow uses, and starting one where there is none: lazily, or in the background."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.base.errors import InvalidOption, PenstockError, SparkUnavailable
from penstock.base.version import VERSION
from penstock.run.spark.connectors import PACKAGES, with_connectors
from penstock.run.spark.ready import make_ready

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# For a session that penstock starts itself. Progress bars would write over the user's terminal.
SETTINGS = {
    "spark.app.name": "penstock",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.worker.reuse": "true",
}

# Where tasks find the penstock that is installed here, the process that they are forked from has it loaded.
DAEMON = "penstock.run.spark.daemon"


class Spark:
    """An engine for `Flow(engine=...)`: a session (or what one is to be made with) and how to cut epochs.

    Without a session the one that is active is used, else one is started when it is first needed, at `master`
    (`local[*]` if that is not given) with these `config` settings and `connectors` ("kafka", "delta", "iceberg":
    Spark fetches their Java libraries from Maven Central then). `partitions` fixes the number of partitions
    of every epoch; without it small epochs have one and large ones as many as Spark has cores.
    """

    def __init__(
        self,
        session: SparkSession | None = None,
        *,
        partitions: int | None = None,
        master: str | None = None,
        config: Mapping[str, str] | None = None,
        connectors: Iterable[str] = (),
    ) -> None:
        names = [connectors] if isinstance(connectors, str) else list(connectors)
        if session is not None and (master is not None or config or names):
            raise InvalidOption(
                "master, config and connectors are for a session that penstock starts, and one was given",
                hint="Give the session those settings when it is built.",
            )
        if partitions is not None and (not isinstance(partitions, int) or partitions < 1):
            raise InvalidOption(f"partitions must be a whole number from 1 on, not {partitions!r}")
        self.partitions = partitions
        self._given = session
        self._master = master
        self._config = with_connectors(names, config or {})
        self._session: SparkSession | None = None
        self._started = False  # by us, so that we end it
        self._lock = threading.Lock()
        self._starting: threading.Thread | None = None
        self._failure: PenstockError | None = None

    def session(self) -> SparkSession:
        """The session, started if there is none yet."""
        with self._lock:
            if self._session is None:
                self._session = self._open()
                _send_penstock(self._session)
            return self._session

    @property
    def is_ready(self) -> bool:
        """Whether a session is there already."""
        return self._session is not None or self._given is not None or _active() is not None

    def start_in_background(self) -> None:
        """Have a session by the time that it is needed. What fails is said when it is needed."""
        if self._starting is None and not self.is_ready:
            self._starting = threading.Thread(target=self._try, name="penstock-spark", daemon=True)
            self._starting.start()

    def _try(self) -> None:
        try:
            self.session()
        except PenstockError as error:
            self._failure = error

    def close(self) -> None:
        """End the session if it was started here."""
        if self._starting is not None:
            self._starting.join()
        with self._lock:
            if self._started and self._session is not None:
                self._session.stop()
            self._session, self._started = None, False

    def _open(self) -> SparkSession:
        if self._given is not None:
            return self._given
        found = _active()
        if found is not None and self._master is None and not self._config:
            return found
        if found is not None:
            _check_libraries(found, self._config)
        make_ready()
        from pyspark.sql import SparkSession

        os.environ.setdefault("PYTHONHASHSEED", "0")
        master = self._master or "local[*]"
        builder = SparkSession.builder.master(master)
        here = {"spark.python.daemon.module": DAEMON} if master.startswith("local") else {}
        for name, value in {**SETTINGS, **here, **self._config}.items():
            builder = builder.config(name, value)
        try:
            session = builder.getOrCreate()
        except Exception as error:
            lines = str(error).strip().splitlines()
            libraries = self._config.get(PACKAGES)
            raise SparkUnavailable(
                f"Spark did not start: {lines[0] if lines else type(error).__name__}",
                hint="Its own messages are above. Everything but Spark works without it."
                if not libraries
                else f"Its own messages are above. It fetches {libraries} from Maven Central: is that within reach?",
            ) from error
        self._started = found is None
        return session


def _check_libraries(session: SparkSession, config: Mapping[str, str]) -> None:
    """A session takes other settings while it runs, but no libraries: those it would leave out without a word."""
    there = (session.sparkContext.getConf().get(PACKAGES) or "").split(",")
    missing = [p for p in config.get(PACKAGES, "").split(",") if p and p not in there]
    if missing:
        raise InvalidOption(
            f"the Spark session of this process runs already, without {', '.join(missing)}",
            hint="Libraries are chosen when Spark starts: stop the session first, or start it with them.",
        )


def _active() -> SparkSession | None:
    """The session of this process, without loading PySpark to ask."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    found = SparkSession.getActiveSession()
    return found if found is not None else SparkSession._instantiatedSession  # of another thread


def is_at_hand() -> bool:
    """Whether this process has a Spark session already."""
    return _active() is not None


def is_data_frame(value: object) -> bool:
    """Whether this is a DataFrame of Spark's, without loading PySpark to ask."""
    return any(
        c.__name__ == "DataFrame" and c.__module__.startswith("pyspark.sql") for c in type(value).__mro__
    )


def _send_penstock(session: SparkSession) -> None:
    """Have the same penstock in the tasks of a cluster. On this machine they find the one that is here."""
    context = session.sparkContext
    if (context.master or "").startswith("local"):
        return
    package = Path(__file__).parents[2]
    archive = Path(tempfile.mkdtemp(prefix="penstock-")) / f"penstock-{VERSION}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(package.rglob("*")):
            if path.suffix in (".py", ".typed"):
                file.write(path, str(Path("penstock") / path.relative_to(package)))
    context.addPyFile(str(archive))
