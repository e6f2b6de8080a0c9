"""/metrics, /health and /ready: the text that Prometheus reads, and what a supervisor is told."""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import psycopg
import pytest

from penstock import Flow, UniqueViolation
from penstock.base import limits
from penstock.engine.metrics import metrics
from penstock.gateway.background import serving
from penstock.gateway.observer import Observer, observing

_LINE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)')


def read(text: str) -> dict[tuple[str, str], float]:
    """Samples by name and labels; fails on a line that Prometheus would not read."""
    found: dict[tuple[str, str], float] = {}
    announced: set[str] = set()
    for line in text.splitlines():
        if line.startswith("# "):
            announced.add(line.split()[2])
            continue
        match = _LINE.fullmatch(line)
        assert match is not None, line
        name, labels, value = match.groups()
        assert name in announced or re.sub("_(bucket|sum|count)$", "", name) in announced, line
        key = name, labels or ""
        assert key not in found, line
        found[key] = float(value)
    return found


@pytest.fixture
def flow() -> Iterator[Flow]:
    with Flow() as flow:
        flow.sql('CREATE TABLE "a ""b\\" (id BIGINT PRIMARY KEY)')
        flow.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v TEXT)")
        flow.sql("CREATE MATERIALIZED VIEW n WITH (freshness = '1 s') AS SELECT count(*) AS n FROM t")
        yield flow


def get(where: tuple[str, int], path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{where[0]}:{where[1]}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_metrics_count_what_happens(flow: Flow) -> None:
    before = read(metrics(flow))
    flow.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    flow.tick("t", [{"id": 3}])
    with pytest.raises(UniqueViolation):
        flow.sql("INSERT INTO t VALUES (1, 'a')")
    after = read(metrics(flow))

    def grown(name: str, labels: str = "") -> float:
        return after[name, labels] - before.get((name, labels), 0)

    assert grown("penstock_epoch") == grown("penstock_epochs_total", 'engine="inline"') == 2
    assert grown("penstock_rows_in_total") == 3
    assert grown("penstock_rows_out_total") == 4
    assert grown("penstock_statements_total", 'kind="insert"') == 2
    assert grown("penstock_statements_total", 'kind="tick"') == 1
    assert grown("penstock_errors_total", 'sqlstate="23505"') == 1
    assert grown("penstock_tick_seconds_count") == grown("penstock_tick_seconds_bucket", 'le="+Inf"') == 2
    buckets = [v for (name, _), v in after.items() if name == "penstock_tick_seconds_bucket"]
    assert buckets == sorted(buckets)
    assert after["penstock_view_compliance", 'view="n"'] == 1
    states = {labels: v for (name, labels), v in after.items() if name == "penstock_view_state"}
    assert [labels for labels, value in states.items() if value] == ['view="n",reason="HEALTHY"']
    assert after["penstock_relation_stored_rows", 'name="t",kind="table"'] == 3
    assert after["process_resident_memory_bytes", ""] > 1_000_000
    assert ("penstock_durable_epoch", "") not in after
    assert ("penstock_relation_bytes", 'name="a \\"b\\\\",kind="table"') in after


def test_the_lag_of_storage_is_measured() -> None:
    with Flow("memory://metrics", commit="visible", commit_interval="1 hour") as flow:
        flow.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
        flow.tick("t", [{"id": 1}])
        flow.tick("t", [{"id": 2}])
        found = read(metrics(flow))
        assert found["penstock_durable_lag_epochs", ""] == 2
        assert found["penstock_durable_lag_seconds", ""] > 0
        flow.flush()
        found = read(metrics(flow))
        assert found["penstock_durable_lag_epochs", ""] == found["penstock_durable_lag_seconds", ""] == 0
        assert found["penstock_durable_epoch", ""] == 2


def test_errors_of_clients_are_counted_once(flow: Flow) -> None:
    with serving(flow) as url, psycopg.connect(url, autocommit=True) as connection:
        for statement in ("SELECT nope FROM t", "SELEKT 1", "SELECT * FROM penstock.nope"):
            with pytest.raises(psycopg.Error):
                connection.execute(statement)
        role = connection.execute("SELECT role FROM penstock.sessions WHERE id IS NOT NULL").fetchone()
        assert role == ("penstock",)
        found = read(metrics(flow))
    codes = {labels: value for (name, labels), value in found.items() if name == "penstock_errors_total"}
    assert codes == {'sqlstate="42703"': 1, 'sqlstate="42601"': 1, 'sqlstate="42P01"': 1}


def test_states_of_a_server(flow: Flow) -> None:
    with observing("127.0.0.1", 0) as (observer, *where):
        place = (where[0], where[1])
        assert get(place, "/ready") == (503, '{"state": "RECOVERING"}\n')
        assert get(place, "/health")[0] == 200
        assert get(place, "/metrics")[0] == 503
        observer.flow = flow
        assert get(place, "/ready") == (200, '{"state": "READY", "epoch": 0}\n')
        status, text = get(place, "/metrics?x=1")
        assert (status, read(text)["penstock_epoch", ""]) == (200, 0)
        assert get(place, "/")[0] == 404
        flow.sql("ALTER SYSTEM PAUSE")
        assert json.loads(get(place, "/ready")[1])["state"] == "PAUSED"
        flow.sql("ALTER SYSTEM RESUME")
        flow._core.failure = "a test"
        for path in ("/ready", "/health"):
            status, text = get(place, path)
            assert (status, json.loads(text)["error"]) == (503, "a test")
        flow._core.failure = None


def test_a_scrape_does_not_wait_for_the_flow(flow: Flow) -> None:
    with observing("127.0.0.1", 0) as (observer, *where):
        observer.flow = flow
        answers: list[int] = []
        with flow._lock:
            thread = threading.Thread(target=lambda: answers.append(get((where[0], where[1]), "/metrics")[0]))
            thread.start()
            thread.join(30)
            assert answers == [200]


def test_a_scrape_beside_definitions_and_changes(flow: Flow) -> None:
    """Nothing that a scrape reads is locked: whatever changes meanwhile, it is text that can be read."""
    ending = threading.Event()
    failures: list[BaseException] = []

    def change() -> None:
        try:
            number = 0
            while not ending.is_set():
                number += 1
                flow.sql(
                    "CREATE OR REPLACE MATERIALIZED VIEW w WITH (freshness = '1 s') AS SELECT max(id) AS m FROM t"
                )
                flow.tick("t", [{"id": number}])
                flow.session().close()
                flow.sql("DROP MATERIALIZED VIEW w")
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=change)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        for _ in range(100):
            assert read(metrics(flow))["penstock_view_compliance", 'view="n"'] <= 1
    finally:
        ending.set()
        thread.join()
        sys.setswitchinterval(before)
    assert failures == []


@pytest.mark.parametrize(
    ("request_bytes", "begins"),
    [
        (b"GET /health HTTP/1.0\r\n\r\n", b"HTTP/1.1 200 "),
        (b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 503 "),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"HTTP/1.1 405 "),
        (b"nonsense\r\n\r\n", b"HTTP/1.1 400 "),
        (b"\x00\xff \xfe x\r\n\r\n", b"HTTP/1.1 400 "),
        (b"GET /" + b"x" * 2 * limits.HTTP_HEAD_BYTES_MAX, b""),
        (b"", b""),
    ],
)
def test_any_bytes(request_bytes: bytes, begins: bytes) -> None:
    with observing("127.0.0.1", 0) as (_, host, port):
        with socket.create_connection((host, port), timeout=30) as client:
            client.sendall(request_bytes)
            client.shutdown(socket.SHUT_WR)
            answer = b""
            try:
                while piece := client.recv(65_536):
                    answer += piece
            except ConnectionResetError:
                pass  # it did not read all that was sent
        assert answer.startswith(begins)
        assert bool(answer) == bool(begins)
        assert get((host, port), "/health")[0] == 200


def test_clients_that_say_nothing_do_not_keep_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.gateway.observer.HTTP_CLIENTS_MAX", 3)
    monkeypatch.setattr("penstock.gateway.observer.HTTP_SECONDS_MAX", 0.2)
    with observing("127.0.0.1", 0) as (_, host, port):
        silent = [socket.create_connection((host, port), timeout=30) for _ in range(10)]
        for client in silent:
            assert client.recv(1) == b""  # ended by the server
            client.close()
        assert get((host, port), "/health")[0] == 200


def test_no_flow_and_a_port_that_is_taken() -> None:
    assert Observer().answer("GET", "/metrics")[0] == 503
    with observing("127.0.0.1", 0) as (_, host, port), pytest.raises(OSError):
        with observing(host, port):
            pass
