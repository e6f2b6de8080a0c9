"""Who may SUBSCRIBE and LISTEN: those who may SELECT, as long as they may."""

from __future__ import annotations

import json

import psycopg
import pytest
from psycopg import errors

from gateway.test_roles import as_role
from penstock import Flow


@pytest.fixture(autouse=True)
def shop(flow: Flow) -> None:
    flow.sql("CREATE TABLE open (a INT); CREATE TABLE secret (a INT); CREATE ROLE ann LOGIN")
    flow.sql("GRANT SELECT ON open TO ann")


def test_every_way_to_subscribe_needs_select(flow: Flow, url: str) -> None:
    with as_role(url, "ann") as ann:
        for sql in (
            "SUBSCRIBE secret",
            "SUBSCRIBE TO public.secret WITH (SNAPSHOT = false)",
            "COPY (SUBSCRIBE secret) TO STDOUT",
            "DECLARE c CURSOR WITH HOLD FOR SUBSCRIBE secret",
            "PREPARE p AS SUBSCRIBE secret; EXECUTE p",
        ):
            with pytest.raises(errors.InsufficientPrivilege):
                ann.execute(sql)  # type: ignore[call-overload]
        with pytest.raises(errors.InsufficientPrivilege):
            next(ann.cursor().stream("SUBSCRIBE secret"))
        assert flow._watches == {}
        ann.execute("DECLARE c CURSOR WITH HOLD FOR SUBSCRIBE open")
        flow.sql("INSERT INTO open VALUES (1)")
        assert ann.execute("FETCH ALL c").fetchall() == [(flow.epoch, 1, 1)]


def test_a_right_that_is_taken_away_ends_it(flow: Flow, url: str) -> None:
    with as_role(url, "ann") as ann:
        rows = ann.cursor().stream("SUBSCRIBE open WITH (PROGRESS)")
        next(rows)
        flow.sql("CREATE TABLE other (a INT)")  # the catalog changes, her rights do not
        flow.sql("INSERT INTO open VALUES (1)")
        while next(rows)[1]:
            pass
        flow.sql("REVOKE SELECT ON open FROM ann")
        flow.sql("INSERT INTO open VALUES (2)")
        with pytest.raises(errors.InsufficientPrivilege):
            for row in rows:
                assert row[3] != 2


def test_a_listener_hears_of_what_it_may_read(flow: Flow, url: str) -> None:
    with as_role(url, "ann") as ann:
        ann.execute("LISTEN secret")
        ann.execute("LISTEN open")
        flow.sql("INSERT INTO secret VALUES (1)")
        flow.sql("INSERT INTO open VALUES (1)")
        heard = [(n.channel, json.loads(n.payload)) for n in ann.notifies(timeout=60, stop_after=1)]
        assert heard == [("open", {"epoch": flow.epoch, "rows": 1})]
        flow.sql("GRANT SELECT ON secret TO ann")
        flow.sql("INSERT INTO secret VALUES (1)")
        heard = [(n.channel, json.loads(n.payload)) for n in ann.notifies(timeout=60, stop_after=1)]
        assert heard == [("secret", {"epoch": flow.epoch, "rows": 1})]


def test_the_program_s_own_sessions_may_everything(flow: Flow, connection: psycopg.Connection) -> None:
    flow.sql("INSERT INTO secret VALUES (1)")
    assert next(connection.cursor().stream("SUBSCRIBE secret"))[2] == 1
