"""What a flow measures of itself: epochs, how long changes waited to become visible, statements, errors.

A change is *accepted* when the flow is asked to make it (a tick, a statement, COMMIT), and *visible* when the epoch
that it belongs to can be read. Everything here is counted as it happens and costs a few microseconds an epoch;
nobody needs the flow's lock to look, so that a busy flow can still be asked how it is.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from penstock.base.errors import PenstockError
from penstock.base.limits import (
    EPOCHS_SHOWN_MAX,
    FRESHNESS_TARGET_SECONDS_MIN,
    FRESHNESS_WINDOW_SECONDS,
    LATE_CHANGES_MAX,
    LOAD_ROWS_MIN,
    UNCOUNTED_EPOCHS_MAX,
)
from penstock.commit.history import now_us

# The upper bounds of the histogram of an epoch's seconds, as Prometheus has it.
SECONDS_BUCKETS = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    10.0,
)
_SLOW_US = int(FRESHNESS_TARGET_SECONDS_MIN * 1_000_000)


class EpochNote(NamedTuple):  # a tuple: one is made for every epoch
    """One epoch."""

    epoch: int
    arrived_us: int  # when its changes were accepted
    visible_us: int
    rows_in: int
    rows_out: int  # rows of deltas of views
    engine: str


class Span(NamedTuple):
    """A time during which accepted changes were not visible, and why. `tables`: the changes'; None: any."""

    start_us: int
    end_us: int
    cause: str
    tables: frozenset[str] | None = None
    view: str | None = None  # only this one was not to be had


class Meter:
    """Counters and recent history. Safe to call from any thread."""

    def __init__(self, clock_us: Callable[[], int] = now_us) -> None:
        self.clock_us = clock_us
        self.opened_us = clock_us()
        self._lock = threading.Lock()
        self._uncounted: deque[tuple[int, int, int, int, int, str, frozenset[str], str]] = deque()
        self._epochs: deque[EpochNote] = deque(maxlen=EPOCHS_SHOWN_MAX)
        self._late: deque[Span] = deque(maxlen=LATE_CHANGES_MAX)
        self.waiting: set[Accepting] = set()  # accepted and not visible yet
        self.building: dict[
            str, tuple[Span, float | None]
        ] = {}  # views that are being filled, and their targets
        self.states: dict[str, int] = {}  # what holds the flow up just now, and since when
        self._lags: dict[int, dict[str, dict[int, int]]] = {}  # by second and table
        self.rows_in_total = self.rows_out_total = 0
        self.seconds_sum = 0.0
        self.seconds_counts = [0] * (len(SECONDS_BUCKETS) + 1)
        self.statements: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.engines: Counter[str] = Counter()

    # -- changes ---------------------------------------------------------------------------

    def accepting(self, tables: frozenset[str] | None = None) -> Accepting:
        """Around a change, from before it waits for its turn until it is visible or refused: when it came."""
        return Accepting(self, tables)

    def epoch(
        self, number: int, arrived_us: int, rows_in: int, rows_out: int, tables: frozenset[str],
        cause: str = "STRESSED", engine: str = "inline",
    ) -> None:  # fmt: skip
        """An epoch is visible now. `cause` is why it took its time, if it did."""
        visible_us = self.clock_us()
        self._uncounted.append((number, arrived_us, visible_us, rows_in, rows_out, engine, tables, cause))
        if len(self._uncounted) >= UNCOUNTED_EPOCHS_MAX:
            self.count()

    def count(self) -> Meter:
        """Bring the figures up to date. An epoch only leaves a note, and whoever looks counts what it says: most
        epochs are over before anybody does."""
        with self._lock:
            while self._uncounted:
                self._count(*self._uncounted.popleft())
        return self

    def _count(
        self, number: int, arrived_us: int, visible_us: int, rows_in: int, rows_out: int,
        engine: str, tables: frozenset[str], cause: str,
    ) -> None:  # fmt: skip
        lag_us = max(0, visible_us - arrived_us)
        if cause == "STRESSED" and rows_in >= LOAD_ROWS_MIN:
            cause = "BACKFILLING"
        self._epochs.append(EpochNote(number, arrived_us, visible_us, rows_in, rows_out, engine))
        self.rows_in_total += rows_in
        self.rows_out_total += rows_out
        self.engines[engine] += 1
        self._count_seconds(lag_us / 1_000_000)
        self._count_lag(visible_us // 1_000_000, lag_us, tables)
        if lag_us > _SLOW_US:
            self._late.append(Span(arrived_us, visible_us, cause, tables))

    @property
    def epochs(self) -> deque[EpochNote]:
        """The latest epochs."""
        return self.count()._epochs

    @property
    def late(self) -> deque[Span]:
        """Changes that took their time."""
        return self.count()._late

    def _count_seconds(self, seconds: float) -> None:
        self.seconds_sum += seconds
        self.seconds_counts[bisect_left(SECONDS_BUCKETS, seconds)] += 1

    def _count_lag(self, second: int, lag_us: int, tables: frozenset[str]) -> None:
        of_second = self._lags.get(second)
        if of_second is None:
            of_second = self._lags[second] = {}
            for old in [s for s in self._lags if s <= second - FRESHNESS_WINDOW_SECONDS]:
                del self._lags[old]
        place = lag_bucket(lag_us)
        for table in tables:
            counts = of_second.get(table)
            if counts is None:
                counts = of_second[table] = {}
            counts[place] = counts.get(place, 0) + 1

    def lags(self, tables: frozenset[str], now_us: int) -> Counter[int]:
        """How many changes of these tables became visible after how long, over the window."""
        first = now_us // 1_000_000 - FRESHNESS_WINDOW_SECONDS
        total: Counter[int] = Counter()
        self.count()
        with self._lock:
            for second, by_table in self._lags.items():
                if second > first:
                    for table in tables & by_table.keys():
                        total.update(by_table[table])
        return total

    # -- what holds it up --------------------------------------------------------------------

    @contextmanager
    def filling(self, view: str, target_s: float | None, replaces: bool) -> Iterator[None]:
        """Around the making of a view."""
        span = Span(self.clock_us(), 0, "REPLACING" if replaces else "BUILDING", None, view)
        self.building[view] = span, target_s
        try:
            yield
            self.span(span.start_us, span.cause, view=view)
        finally:
            del self.building[view]

    @contextmanager
    def state(self, name: str) -> Iterator[None]:
        """Around something that holds up all changes: a full queue, a recovery."""
        self.states[name] = self.clock_us()
        try:
            yield
        finally:
            self.states.pop(name, None)

    def span(
        self, start_us: int, cause: str, tables: frozenset[str] | None = None, view: str | None = None
    ) -> None:
        """Something that ends now has kept changes from being visible."""
        self.late.append(Span(start_us, self.clock_us(), cause, tables, view))

    # -- statements ------------------------------------------------------------------------

    def statement(self, kind: str) -> None:
        self.statements[kind] += 1

    def error(self, error: PenstockError) -> None:
        """An error that somebody was told of; those who pass it on may say so again."""
        if not error.counted:
            error.counted = True
            self.errors[error.sqlstate] += 1


class Accepting:
    """The context of one change: a class of its own, because a generator costs as much as all the rest."""

    __slots__ = ("_arrived_us", "_meter", "_tables")

    def __init__(self, meter: Meter, tables: frozenset[str] | None) -> None:
        self._meter = meter
        self._tables = tables

    def __enter__(self) -> int:
        meter = self._meter
        self._arrived_us = arrived_us = meter.clock_us()
        meter.waiting.add(self)
        return arrived_us

    def __exit__(self, *_: object) -> None:
        self._meter.waiting.discard(self)

    def span(self) -> Span:
        """The time since it came, which has no end yet."""
        return Span(self._arrived_us, 0, "STRESSED", self._tables)


def lag_bucket(lag_us: int) -> int:
    """The number of a bucket whose bounds are an eighth apart, at most.

    >>> [lag_bucket(n) for n in (0, 1, 7, 8, 9, 100, 101, 110)]
    [0, 1, 7, 8, 9, 36, 36, 37]
    """
    if lag_us < 8:
        return lag_us
    octave = lag_us.bit_length() - 4
    return 8 * octave + (lag_us >> octave)


def bucket_us(place: int) -> int:
    """The largest lag of a bucket.

    >>> all(bucket_us(lag_bucket(n)) >= n > bucket_us(lag_bucket(n) - 1) for n in (1, 8, 9, 100, 12_345, 10**9))
    True
    """
    if place < 8:
        return place
    octave = (place - 8) // 8
    return ((place - 8 * octave + 1) << octave) - 1
