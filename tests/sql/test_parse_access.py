"""Statements about roles and rights, taken apart; and what is refused."""

from __future__ import annotations

import pytest

from penstock.base.errors import PenstockError
from penstock.sql.access_statements import (
    AlterRole,
    CreateRole,
    DropRole,
    Membership,
    ReassignOwned,
    Rights,
)
from penstock.sql.parse import parse


def test_roles() -> None:
    (s,) = parse("CREATE ROLE Ann WITH LOGIN NOCREATEDB INHERIT ENCRYPTED PASSWORD 'it''s' IN ROLE a, \"B\"")
    assert isinstance(s, CreateRole)
    assert (s.name, s.options.login, s.options.superuser, s.options.password) == ("ann", True, None, "it's")
    assert s.member_of == ("a", "B")
    (s,) = parse("CREATE USER ann")
    assert isinstance(s, CreateRole)
    assert s.options.login
    (s,) = parse("ALTER USER ann NOSUPERUSER PASSWORD NULL")
    assert isinstance(s, AlterRole)
    assert (s.options.superuser, s.options.clears_password, s.options.login) == (False, True, None)
    (s,) = parse("DROP ROLE IF EXISTS a, b")
    assert isinstance(s, DropRole)
    assert (s.names, s.if_exists) == (("a", "b"), True)


def test_a_password_stands_in_no_text() -> None:
    for sql in (
        "CREATE ROLE ann PASSWORD 'sesame'",
        "ALTER ROLE ann PASSWORD 'sesame'",
        "CREATE USER a PASSWORD $$sesame$$",
    ):
        (s,) = parse(sql)
        assert "sesame" not in s.text.text
        assert "sesame" not in repr(s)


@pytest.mark.parametrize(
    ("sql", "gives", "privileges", "on", "names", "roles"),
    [
        ("GRANT SELECT ON t TO ann", True, ("select",), "relations", ("t",), ("ann",)),
        ("GRANT select, INSERT ON TABLE t, public.u TO a, PUBLIC", True, ("select", "insert"), "relations", ("t", "u"), ("a", "public")),
        ("REVOKE ALL PRIVILEGES ON ALL TABLES IN SCHEMA public FROM a CASCADE", False, None, "all relations", (), ("a",)),
        ("GRANT USAGE, CREATE ON SCHEMA public TO GROUP a", True, ("usage", "create"), "schema", (), ("a",)),
    ],
)  # fmt: skip
def test_rights(
    sql: str,
    gives: bool,
    privileges: tuple[str, ...] | None,
    on: str,
    names: tuple[str, ...],
    roles: tuple[str, ...],
) -> None:
    (s,) = parse(sql)
    assert isinstance(s, Rights)
    assert (s.gives, s.privileges, s.on, s.names, s.roles) == (gives, privileges, on, names, roles)


def test_memberships_and_owners() -> None:
    (s,) = parse("GRANT a, b TO c")
    assert isinstance(s, Membership)
    assert (s.gives, s.roles, s.members) == (True, ("a", "b"), ("c",))
    (s,) = parse("REVOKE a FROM c")
    assert isinstance(s, Membership)
    assert not s.gives
    (s,) = parse("REASSIGN OWNED BY a, b TO c")
    assert isinstance(s, ReassignOwned)
    assert (s.owners, s.to) == (("a", "b"), "c")


@pytest.mark.parametrize(
    ("sql", "sqlstate"),
    [
        ("CREATE ROLE", "42601"),
        ("CREATE ROLE public", "42601"),
        (f"CREATE ROLE {'x' * 64}", "42601"),
        ("CREATE ROLE a PASSWORD", "42601"),
        ("CREATE ROLE a PASSWORD sesame", "42601"),
        ("CREATE ROLE a REPLICATION", "0A000"),
        ("ALTER ROLE a", "42601"),
        ("ALTER ROLE a RENAME TO b", "0A000"),
        ("ALTER ROLE a SET x = 1", "0A000"),
        ("GRANT", "42601"),
        ("GRANT SELECT ON t", "42601"),
        ("GRANT SELECT ON t FROM a", "42601"),
        ("GRANT SELECT ON other.t TO a", "42601"),
        ("GRANT USAGE ON SCHEMA other TO a", "42601"),
        ("GRANT CONNECT ON DATABASE penstock TO a", "0A000"),
        ("GRANT EXECUTE ON FUNCTION f TO a", "0A000"),
        ("REVOKE GRANT OPTION FOR SELECT ON t FROM a", "0A000"),
        ("GRANT a TO b WITH ADMIN OPTION", "0A000"),
    ],
)
def test_refused(sql: str, sqlstate: str) -> None:
    with pytest.raises(PenstockError) as refused:
        parse(sql)
    assert refused.value.sqlstate == sqlstate
