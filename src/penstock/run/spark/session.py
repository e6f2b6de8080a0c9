"""Which Spark a flow uses, and starting one where there is none: lazily, or in the background."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import weakref
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.base.errors import InvalidOption, PenstockError, SparkUnavailable
from penstock.base.version import VERSION
from penstock.run.spark.connectors import PACKAGES, with_connectors
from penstock.run.spark.ready import is_here, make_ready

if TYPE_CHECKING:
    from pyspark import SparkContext
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

MASTER = "spark.master"


class _Started:
    """The Spark that penstock has started in this process, which can have one: it ends with the last who uses it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # held while one is started or ended, so that nobody finds half of one
        self._session: SparkSession | None = None
        self._users: weakref.WeakSet[Spark] = weakref.WeakSet()  # who is forgotten unclosed uses it no more

    def begin(self, session: SparkSession, user: Spark) -> None:
        self._session = session
        self._users = weakref.WeakSet([user])

    def join(self, session: SparkSession, user: Spark) -> None:
        """Does nothing where the session is another's: who started it ends it."""
        if self._session is not None and session.sparkContext is self._session.sparkContext:
            self._users.add(user)

    def leave(self, user: Spark) -> None:
        if user not in self._users:
            return
        self._users.discard(user)
        if not self._users and self._session is not None:
            ended, self._session = self._session, None
            if _runs(ended):
                ended.stop()


_STARTED = _Started()


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
        self._lock = threading.Lock()
        self._starting: threading.Thread | None = None
        self._flows = 0
        self.failure: PenstockError | None = None  # of the last attempt to have a session
        if session is not None:
            with _STARTED.lock:
                _STARTED.join(session, self)

    def session(self) -> SparkSession:
        """The session, started if there is none yet, or none any more."""
        with self._lock:
            if self._session is None or not _runs(self._session):
                try:
                    with _STARTED.lock:
                        self._session = self._open()
                        _STARTED.join(self._session, self)
                except PenstockError as error:
                    self.failure = error
                    raise
                _send_penstock(self._session)
                self.failure = None
            return self._session

    @property
    def is_ready(self) -> bool:
        """Whether a session is there already."""
        return self._there() is not None

    def cores(self) -> int | None:
        """How many tasks the session runs at the same time; None as long as there is no session."""
        found = self._there()
        return None if found is None else found.sparkContext.defaultParallelism

    def start_in_background(self) -> None:
        """Have a session by the time that it is needed. If that fails, `failure` says why."""
        if (self._starting is None or not self._starting.is_alive()) and not self.is_ready:
            self._starting = threading.Thread(target=self._try, name="penstock-spark", daemon=True)
            self._starting.start()

    def _try(self) -> None:
        with suppress(PenstockError):  # kept as `failure`
            self.session()

    def used_by_flow(self) -> None:
        """One more flow will call `close` when it needs this no longer."""
        with self._lock:
            self._flows += 1

    def close(self) -> None:
        """End the session if penstock started it and nobody else uses it."""
        with self._lock:
            self._flows = max(0, self._flows - 1)
            if self._flows:
                return
        if self._starting is not None:
            self._starting.join()
        with self._lock, _STARTED.lock:
            _STARTED.leave(self)
            self._session = None

    def _there(self) -> SparkSession | None:
        """The session that would be used now; without waiting for one that is being started."""
        if self._given is not None:
            return self._given if _runs(self._given) else None
        found = self._session
        return found if found is not None and _runs(found) else _active()

    def _open(self) -> SparkSession:
        if self._given is not None:
            if not _runs(self._given):
                raise SparkUnavailable(
                    "the Spark session that the flow was given has been stopped",
                    hint="Give it one that runs: flow.use_engine(penstock.Spark(session)).",
                )
            return self._given
        found = _active()
        if found is None:
            theirs = _context()  # one that has no session yet
            session = self._start()
            if theirs is None:
                _STARTED.begin(session, self)
            else:
                self._check_master(session)
            return session
        self._check_master(found)
        if not self._config:
            return found
        _check_libraries(found, self._config)
        return _built({n: v for n, v in self._config.items() if n != MASTER})

    def _start(self) -> SparkSession:
        master = self._wanted_master or "local[*]"
        make_ready(master)
        os.environ.setdefault("PYTHONHASHSEED", "0")
        here = {"spark.python.daemon.module": DAEMON} if is_here(master) else {}
        before = _context()
        try:
            return _built({**SETTINGS, **here, **self._config, MASTER: master})
        except Exception as error:
            left = _context()
            if left is not None and left is not before:
                left.stop()  # half of a Spark, that the next attempt would be given again
            libraries = self._config.get(PACKAGES)
            raise SparkUnavailable(
                f"Spark did not start: {_said(error)}",
                hint="Its own messages are above. Everything but Spark works without it."
                if not libraries
                else f"Its own messages are above. It fetches {libraries} from Maven Central: is that within reach?",
            ) from error

    @property
    def _wanted_master(self) -> str | None:
        return self._master or self._config.get(MASTER)

    def _check_master(self, session: SparkSession) -> None:
        """A process has one Spark: asked for another, PySpark would give the one that runs without a word."""
        wanted, there = self._wanted_master, session.sparkContext.master
        if wanted is not None and wanted != there:
            raise InvalidOption(
                f"the Spark session of this process runs already, on {there} and not on {wanted}",
                hint="Stop it first, or leave the master out to use the one that runs.",
            )


def _built(settings: Mapping[str, str]) -> SparkSession:
    """The session of this process with these settings, a new one if there is none."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _runs(session: SparkSession) -> bool:
    """Whether nobody has stopped it. PySpark takes its Java object away then, and has no other sign of it."""
    return session.sparkContext._jsc is not None


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
    if found is None:
        found = SparkSession._instantiatedSession  # of another thread
    return found if found is not None and _runs(found) else None


def _context() -> SparkContext | None:
    """The context of this process, with or without a session."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext

    return SparkContext._active_spark_context


def _said(error: Exception) -> str:
    """What Java said, without the call that it was said to.

    >>> _said(RuntimeError("An error occurred while calling None.org.X.\\n: java.lang.Y: no master\\n\\tat Z"))
    'java.lang.Y: no master'
    """
    lines = str(error).strip().splitlines() or [type(error).__name__]
    called = lines[0].startswith("An error occurred while calling") and len(lines) > 1
    return lines[1].lstrip(": ") if called else lines[0]


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
    name = f"penstock-{VERSION}.zip"
    # Spark refuses a second file of the same name: the flows of a context share the first.
    if is_here(context.master or "") or any(sent.endswith(f"/{name}") for sent in context.listFiles):
        return
    package = Path(__file__).parents[2]
    archive = Path(tempfile.mkdtemp(prefix="penstock-")) / name
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(package.rglob("*")):
            if path.suffix in (".py", ".typed"):
                file.write(path, str(Path("penstock") / path.relative_to(package)))
    context.addPyFile(str(archive))
