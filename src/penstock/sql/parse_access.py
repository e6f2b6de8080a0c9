"""CREATE, ALTER and DROP ROLE, GRANT, REVOKE, REASSIGN OWNED."""

from __future__ import annotations

from penstock.base.errors import SqlSyntaxError, Unsupported
from penstock.sql.access_statements import (
    AlterRole,
    CreateRole,
    DropRole,
    Membership,
    ReassignOwned,
    Rights,
    RoleOptions,
)
from penstock.sql.cursor import SCHEMAS, Cursor
from penstock.sql.statements import Slice, Statement
from penstock.sql.tokens import fold, string_value

RELATION_PRIVILEGES = ("select", "insert", "update", "delete", "truncate")
SCHEMA_PRIVILEGES = ("usage", "create")

# What a role has or has not, here as everywhere, so that it may be said; its opposite may not.
_HOLDS = ("NOCREATEDB", "NOCREATEROLE", "NOREPLICATION", "NOBYPASSRLS", "INHERIT")
_MISSING = (
    "CREATEDB",
    "CREATEROLE",
    "REPLICATION",
    "BYPASSRLS",
    "NOINHERIT",
    "CONNECTION",
    "VALID",
    "SYSID",
    "ADMIN",
)
_NAME_BYTES_MAX = 63  # as in Postgres, where roles are shown
_RESERVED = ("public", "none", "current_user", "session_user", "current_role")


def parse_create_role(c: Cursor, text: Slice) -> Statement:
    c.expect("CREATE")
    is_user = c.take("USER")
    if not is_user:
        c.expect("ROLE")
    name = role_name(c)
    offset = c.tokens[c.position - 1].offset
    if name in _RESERVED or name.startswith("pg_"):
        raise SqlSyntaxError(f'the role name "{name}" is reserved', position=offset)
    if len(name.encode()) > _NAME_BYTES_MAX:
        raise SqlSyntaxError(f"the name of a role has at most {_NAME_BYTES_MAX} bytes", position=offset)
    options, member_of = _role_options(c, is_user)
    return CreateRole(_hidden(c, text), (), name, options, member_of)


def parse_alter_role(c: Cursor, text: Slice) -> Statement:
    c.expect("ALTER")
    if not c.take("USER"):
        c.expect("ROLE")
    name = role_name(c)
    if c.at("SET") or c.at("RESET") or c.at("RENAME") or c.at("IN"):
        raise Unsupported(f"ALTER ROLE ... {c.keyword()}", position=c.offset)
    if c.at_end:
        c.fail("an option, such as PASSWORD")
    options, member_of = _role_options(c, False)
    if member_of:
        raise SqlSyntaxError("ALTER ROLE has no IN ROLE", hint="GRANT role TO role.")
    return AlterRole(_hidden(c, text), (), name, options)


def parse_drop_role(c: Cursor, text: Slice) -> Statement:
    c.expect("DROP")
    if not c.take("USER"):
        c.expect("ROLE")
    if_exists = c.take("IF", "EXISTS")
    return DropRole(text, (), _role_names(c), if_exists)


def parse_grant(c: Cursor, text: Slice) -> Statement:
    gives = c.take("GRANT")
    if not gives:
        c.expect("REVOKE")
        if c.at("GRANT", "OPTION") or c.at("ADMIN", "OPTION"):
            raise Unsupported("GRANT OPTION and ADMIN OPTION", position=c.offset)
    if c.find("ON") < c.find("TO", "FROM"):
        return _rights(c, text, gives)
    roles = _role_names(c)
    c.expect("TO" if gives else "FROM")
    members = _role_names(c)
    _no_options(c)
    return Membership(text, (), gives, roles, members)


def parse_reassign(c: Cursor, text: Slice) -> Statement:
    c.expect("REASSIGN", "OWNED", "BY")
    owners = _role_names(c)
    c.expect("TO")
    return ReassignOwned(text, (), owners, role_name(c))


def _rights(c: Cursor, text: Slice, gives: bool) -> Rights:
    offset = c.offset
    privileges = _privileges(c)
    c.expect("ON")
    names: tuple[str, ...] = ()
    if c.take("SCHEMA"):
        on = "schema"
        _schema(c)
    elif c.take("ALL", "TABLES", "IN", "SCHEMA"):
        on = "all relations"
        _schema(c)
    else:
        on = "relations"
        if c.keyword() in ("DATABASE", "SEQUENCE", "FUNCTION", "ALL", "TYPE", "LANGUAGE"):
            raise Unsupported(f"GRANT ON {c.keyword()}", hint="There are rights on relations and the schema.")
        c.take("TABLE")
        names = c.object_names("the name of a table or view")
    known = SCHEMA_PRIVILEGES if on == "schema" else RELATION_PRIVILEGES
    for privilege in privileges or ():
        if privilege not in known:
            raise SqlSyntaxError(
                f"there is no privilege {privilege.upper()} of this kind",
                hint=f"They are {', '.join(p.upper() for p in known)} and ALL.",
                position=offset,
            )
    c.expect("TO" if gives else "FROM")
    roles = _role_names(c)
    _no_options(c)
    return Rights(text, (), gives, privileges, on, names, roles)


def _privileges(c: Cursor) -> tuple[str, ...] | None:
    if c.take("ALL"):
        c.take("PRIVILEGES")
        return None
    found = []
    while True:
        if c.at_end:
            c.fail("a privilege")
        found.append(fold(c.next().text))
        if c.at("("):
            raise Unsupported("rights on single columns", hint="Make a view of them.", position=c.offset)
        if not c.take(","):
            return tuple(found)


def _schema(c: Cursor) -> None:
    offset = c.offset
    name = c.identifier("the name of a schema")
    if fold(name) not in SCHEMAS:
        raise SqlSyntaxError(f'schema "{name}" does not exist', hint="There is public.", position=offset)


def _no_options(c: Cursor) -> None:
    if c.at("WITH") or c.at("GRANTED"):
        raise Unsupported("GRANT OPTION, ADMIN OPTION and GRANTED BY", position=c.offset)
    if not c.take("CASCADE"):
        c.take("RESTRICT")


def _role_options(c: Cursor, login: bool) -> tuple[RoleOptions, tuple[str, ...]]:
    given: dict[str, bool | str] = {"login": True} if login else {}
    member_of: tuple[str, ...] = ()
    c.take("WITH")
    while not c.at_end:
        if c.keyword() in ("LOGIN", "NOLOGIN", "SUPERUSER", "NOSUPERUSER"):
            word = c.next().keyword.lower()
            given[word.removeprefix("no")] = not word.startswith("no")
        elif c.at("PASSWORD") or c.at("ENCRYPTED", "PASSWORD"):
            c.take("ENCRYPTED")
            c.expect("PASSWORD")
            given |= _password(c)
        elif c.take("IN", "ROLE") or c.take("IN", "GROUP"):
            member_of = _role_names(c)
        elif c.keyword() in _HOLDS:
            c.next()
        elif c.keyword() in _MISSING or c.at("ROLE") or c.at("USER"):
            raise Unsupported(f"{c.keyword()} of a role", position=c.offset)
        else:
            c.fail("LOGIN, SUPERUSER, PASSWORD or IN ROLE")
    return RoleOptions(**given), member_of  # type: ignore[arg-type]


def _password(c: Cursor) -> dict[str, bool | str]:
    if c.take("NULL"):
        return {"clears_password": True}
    if c.at_end or c.tokens[c.position].kind != "string":
        c.fail("a text, or NULL")
    password = string_value(c.next())
    return {"password": password} if password else {"clears_password": True}


def _hidden(c: Cursor, text: Slice) -> Slice:
    """The text of the statement with stars in the place of the password: it may end up in a log."""
    shown = text.text
    for token in c.tokens:
        if token.kind == "string":
            start = token.offset - text.offset
            shown = shown[:start] + "*" * len(token.text) + shown[start + len(token.text) :]
    return Slice(shown, text.offset)


def role_name(c: Cursor) -> str:
    """In lower case unless it is quoted."""
    quoted = not c.at_end and c.tokens[c.position].kind == "quoted"
    name = c.identifier("the name of a role")
    return name if quoted else fold(name)


def _role_names(c: Cursor) -> tuple[str, ...]:
    names = []
    while True:
        c.take("GROUP")
        names.append(role_name(c))
        if not c.take(","):
            return tuple(names)
