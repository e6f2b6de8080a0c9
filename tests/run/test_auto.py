"""Auto: inline or Spark by what is expected to take less time, told and learned from."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.base.errors import PenstockError, SparkUnavailable
from penstock.base.limits import AUTO_ROWS_MIN
from penstock.run import auto
from penstock.run.auto import Auto
from penstock.run.inline import Epoch


class Place:
    """A Spark that only says how many cores it has."""

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self.failure: PenstockError | None = None

    def cores(self) -> int:
        return self._cores

    def run_frames(self, *_: Any) -> Epoch:
        if self.failure is not None:
            raise self.failure
        return Epoch({}, [], rows_read=1_000_000)


Told = list[tuple[str, str, str, dict[str, float]]]


class Session:
    def __init__(self, ready: bool) -> None:
        self.is_ready = ready
        self.started = 0
        self.failure: PenstockError | None = None
        self.will_fail: PenstockError | None = None
        self.has_cores: int | None = None

    def cores(self) -> int | None:
        return self.has_cores

    def session(self) -> None:
        self.failure = self.will_fail
        if self.failure is not None:
            raise self.failure

    def start_in_background(self) -> None:
        self.started += 1


def made(cores: int = 16, ready: bool = True) -> tuple[Auto, Session, Told]:
    session, told = Session(ready), Told()
    chooser = Auto(Place(cores), session, lambda *change: told.append(change))  # type: ignore[arg-type]
    return chooser, session, told


def test_small_epochs_run_here_and_large_ones_on_spark() -> None:
    chooser, _, told = made()
    assert [chooser.choose(rows) for rows in (1, 10_000_000, 20_000_000, 1)] == [
        "inline", "spark", "spark", "inline",
    ]  # fmt: skip
    # Only changes are told of, each with the figures that caused it.
    assert [(to, was) for to, was, _, _ in told] == [("spark", "inline"), ("inline", "spark")]
    figures = told[0][3]
    assert figures["rows"] == 10_000_000
    assert figures["spark_seconds"] < figures["inline_seconds"]


def test_where_spark_has_no_more_cores_it_is_not_asked() -> None:
    chooser, _, told = made(cores=1)
    assert chooser.choose(100_000_000) == "inline"
    assert told == []


def test_a_session_that_is_not_there_counts_and_is_started_beside() -> None:
    chooser, session, _ = made(ready=False)
    rows = int(2 * auto.SPARK_JOB_S / auto.INLINE_ROW_S)
    assert chooser.choose(rows) == "inline"  # the start would take longer than the work
    assert session.started == 1
    assert chooser.choose(100 * rows) == "spark"
    session.is_ready = True
    assert chooser.choose(rows) == "spark"


def test_what_epochs_took_decides_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    chooser, _, _ = made()
    rows = 2 * AUTO_ROWS_MIN
    clock = [0.0]
    monkeypatch.setattr(auto.time, "perf_counter", lambda: clock[0])

    def slow() -> Epoch:
        clock[0] += 10.0
        return Epoch({}, [])

    assert chooser.choose(rows) == "inline"
    chooser._timed(rows, slow, slow)  # inline, and it took ten seconds
    assert chooser.choose(rows) == "spark"
    for _ in range(20):
        chooser._timed(rows, lambda: Epoch({}, []), slow)  # now Spark is the slow one
    assert chooser.choose(rows) == "inline"


def test_a_data_frame_goes_to_spark_and_teaches(monkeypatch: pytest.MonkeyPatch) -> None:
    chooser, _, told = made(cores=1)
    assert chooser.choose(50_000_000) == "inline"
    for _ in range(40):
        chooser.run_frames(None, {}, {}, ())  # type: ignore[arg-type]
    assert told == [("spark", "inline", "tasks read a DataFrame", {})]
    assert chooser.choose(50_000_000) == "spark"  # it was seen to be quick


def test_the_cores_that_count_are_those_of_the_session() -> None:
    chooser, session, _ = made(cores=2)
    assert chooser.choose(10**10) == "inline"
    session.has_cores = 8
    assert chooser.choose(10**10) == "spark"


def test_where_spark_cannot_be_started_it_is_inline_and_told_once() -> None:
    chooser, session, told = made(ready=False)
    session.will_fail = SparkUnavailable("Spark needs Java")
    ran: list[str] = []

    def here() -> Epoch:
        ran.append("inline")
        return Epoch({}, [])

    for _ in range(3):
        chooser._timed(10**8, here, lambda: pytest.fail("it cannot run there"))
    assert ran == ["inline"] * 3
    assert told == [("inline", "inline", "Spark cannot be used: Spark needs Java", {})]


def test_a_start_in_the_background_that_failed_is_told_and_not_tried_again() -> None:
    chooser, session, told = made(ready=False)
    session.failure = SparkUnavailable("Spark needs Java")
    assert [chooser.choose(rows) for rows in (10**8, 10**8)] == ["inline", "inline"]
    assert session.started == 0
    assert [why for _, _, why, _ in told] == ["Spark cannot be used: Spark needs Java"]


def test_a_data_frame_where_there_is_no_spark_is_an_error_and_no_change_of_place() -> None:
    place, session, told = Place(2), Session(ready=False), Told()
    place.failure = SparkUnavailable("Spark needs Java")
    chooser = Auto(place, session, lambda *change: told.append(change))  # type: ignore[arg-type]
    with pytest.raises(SparkUnavailable):
        chooser.run_frames(None, {}, {}, ())  # type: ignore[arg-type]
    assert told == []
