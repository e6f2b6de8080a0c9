"""Where an error lies in the statement: where PostgreSQL says it lies, or nowhere, but never elsewhere."""

from __future__ import annotations

import pytest

import penstock
from api.refusals import refused, refused_by_postgres
from penstock.base.errors import DivisionByZero
from postgres import Postgres

STATEMENTS = [
    "SELECT 'é', nosuchcol FROM one",
    "SELECT * FROM totals WHERE total > 3",
    "CREATE VIEW pv AS SELECT * FROM totals WHERE total > 3",
    "CREATE VIEW v2 AS SELECT nosuchcol FROM one",
    "CREATE OR REPLACE VIEW v2 (a) AS SELECT nosuchcol FROM one",
    "CREATE MATERIALIZED VIEW v2 AS SELECT nosuchcol FROM one",
    "CREATE TABLE b (y int, z nosuch)",
    "CREATE TABLE IF NOT EXISTS a_long_name ( y nosuch )",
    "CREATE TABLE b AS SELECT nosuchcol FROM one",
    "INSERT INTO one SELECT nosuchcol, 1, 'a' FROM one",
    "INSERT INTO one SELECT 1, 1, 'a' FROM totals",
    "WITH w AS (SELECT nosuchcol FROM one) INSERT INTO one SELECT 1, 1, 'a' FROM w",
    "INSERT INTO one VALUES (nosuchcol, 1, 'a')",
    "INSERT INTO one VALUES (1, 2, 'a'), (1, nosuchcol, DEFAULT)",
    "INSERT INTO one VALUES (1, 2, 'a') ON CONFLICT (x) DO UPDATE SET y = nosuchcol",
    "INSERT INTO one VALUES (9, 2, 'a') RETURNING x, nosuchcol",
    "UPDATE one SET x = nosuchcol",
    "UPDATE one SET y = 1, s = upper(nosuchcol) || 'x'",
    "UPDATE one SET x = y WHERE nosuchcol = 1",
    "UPDATE one SET x = nosuchcol WHERE nosuchcol = 1",
    "UPDATE one SET y = t.y FROM totals AS t",
    "DELETE FROM one WHERE x = 1 AND nosuchcol = 1",
    "DELETE FROM one USING totals WHERE true",
    "DELETE FROM one RETURNING nosuchcol",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_place_is_that_of_postgres(
    flow_with_one: penstock.Flow, postgres_with_one: Postgres, statement: str
) -> None:
    expected = refused_by_postgres(postgres_with_one, statement)
    place = expected.diag.statement_position
    assert place is not None
    error = refused(flow_with_one, statement)
    assert error.position == int(place) - 1, (str(error), statement[error.position or 0 :])
    assert error.sqlstate == expected.sqlstate


def test_the_place_is_in_the_whole_text(flow_with_one: penstock.Flow) -> None:
    script = "SELECT 1;\n-- nosuchcol\nUPDATE one SET y = 2 WHERE nosuchcol = 1"
    error = refused(flow_with_one, script)
    assert error.position == script.rindex("nosuchcol")


def test_a_place_in_one_of_two_equal_pieces_is_left_out(flow_with_one: penstock.Flow) -> None:
    assert refused(flow_with_one, "UPDATE one SET x = nosuchcol, y = nosuchcol").position is None


def test_an_error_in_a_view_has_no_place_in_the_statement_that_met_it(flow_with_one: penstock.Flow) -> None:
    flow_with_one.sql("CREATE MATERIALIZED VIEW v AS SELECT x, 10 / y AS q FROM one")
    error = refused(
        flow_with_one, "INSERT INTO one VALUES (2, 1 - 1, 'long enough for any place in the view')"
    )
    assert isinstance(error, DivisionByZero)
    assert error.position is None
