"""What is changed in the private PostgreSQL before anybody may ask it something.

- version(), pg_backend_pid() and pg_get_viewdef() answer for penstock; views of the system that call them do too.
- pg_stat_activity shows our clients, pg_roles and pg_user our roles. None of them is a superuser there, whatever they are here.
- Nobody may call a function that does something: all volatile ones but a few that only look.
- Nobody may create anything, and there is no other database.
"""

from __future__ import annotations

from penstock.gateway.settings import VERSION

# Volatile functions that only look: sizes, statistics, and those behind views of the system.
HARMLESS = (
    "pg_relation_size", "pg_table_size", "pg_indexes_size", "pg_total_relation_size", "pg_database_size",
    "pg_tablespace_size", "pg_partition_ancestors", "pg_partition_tree", "pg_blocking_pids", "pg_lock_status",
    "pg_prepared_xact", "pg_is_in_recovery", "pg_is_wal_replay_paused", "pg_jit_available", "pg_get_sequence_data",
    "pg_sequence_last_value", "pg_current_wal_lsn", "pg_current_wal_insert_lsn", "pg_current_wal_flush_lsn",
    "pg_last_wal_receive_lsn", "pg_last_wal_replay_lsn", "pg_last_xact_replay_timestamp", "pg_xact_status",
    "txid_status", "pg_get_wait_events", "pg_collation_actual_version", "pg_database_collation_actual_version",
    "current_query", "clock_timestamp", "timeofday", "random", "random_normal", "array_sample", "array_shuffle",
    "gen_random_uuid", "uuidv4", "uuidv7",
    "set_config",  # what it sets there is gone after the statement; here it does what SET does (see query.py)
)  # fmt: skip

# Each with the arguments of the function that it takes the place of, and its body; `real` is the one that it had.
_FUNCTIONS = (
    ("version", "", "text", f"SELECT 'PostgreSQL {VERSION}'::text"),
    ("pg_backend_pid", "", "integer", "SELECT current_setting('penstock.process')::integer"),
    *(
        (
            "pg_get_viewdef",
            f"{type}{more}",
            "text",
            "SELECT coalesce((SELECT sql FROM pg_catalog.penstock_definition WHERE oid = "
            f"{cast}), pg_catalog.penstock_real_pg_get_viewdef($1{', $2' if more else ''}))",
        )
        for type, cast in (("oid", "$1"), ("text", "$1::regclass::oid"))
        for more in ("", ", boolean", *((", integer",) if type == "oid" else ()))
    ),
)
_VIEWS_WITH_DEFINITIONS = ("pg_catalog.pg_views", "pg_catalog.pg_matviews", "information_schema.views")


def prelude() -> list[str]:
    """Run as the superuser, in the database that clients see."""
    return [
        "SET allow_system_table_mods = on",
        "CREATE TABLE pg_catalog.penstock_definition (id bigint PRIMARY KEY, oid oid NOT NULL, sql text NOT NULL)",
        "CREATE INDEX ON pg_catalog.penstock_definition (oid)",
        "GRANT SELECT ON pg_catalog.penstock_definition TO PUBLIC",
        "CREATE TABLE pg_catalog.penstock_role (name name PRIMARY KEY, super boolean, login boolean)",
        *(statement for function in _FUNCTIONS for statement in _replaced(*function)),
        *(_redefined(view) for view in _VIEWS_WITH_DEFINITIONS),
        _PG_ROLES,
        _PG_USER,
        _PG_STAT_ACTIVITY,
        _REVOKE.replace("HARMLESS", ", ".join(f"'{name}'" for name in HARMLESS)),
        "REVOKE ALL ON SCHEMA public FROM PUBLIC",
        "REVOKE ALL ON DATABASE penstock FROM PUBLIC",
        "GRANT CONNECT ON DATABASE penstock TO PUBLIC",
        "COMMENT ON SCHEMA public IS NULL",
        "COMMENT ON DATABASE penstock IS NULL",
        "DELETE FROM pg_catalog.pg_database WHERE datname <> 'penstock'",
        "RESET allow_system_table_mods",
    ]


def _replaced(name: str, arguments: str, result: str, body: str) -> list[str]:
    """The real function gets another name: views that were made with it go on calling it."""
    real = f"penstock_real_{name}"
    # Not in SQL's own words (RENAME), which the server refuses for functions that it was born with.
    return [
        f"UPDATE pg_catalog.pg_proc SET proname = '{real}' WHERE oid = 'pg_catalog.{name}({arguments})'::regprocedure",
        f"CREATE FUNCTION pg_catalog.{name}({arguments}) RETURNS {result} LANGUAGE sql STABLE STRICT AS $${body}$$",
    ]


def _redefined(view: str) -> str:
    return (
        f"DO $$ BEGIN EXECUTE 'CREATE OR REPLACE VIEW {view} AS ' || replace("
        f"pg_catalog.penstock_real_pg_get_viewdef('{view}'::regclass), 'penstock_real_pg_get_viewdef(', "
        "'pg_get_viewdef('); END $$"
    )


_PG_ROLES = """CREATE OR REPLACE VIEW pg_catalog.pg_roles AS
SELECT a.rolname, coalesce(r.super, a.rolsuper) AS rolsuper, a.rolinherit,
       coalesce(r.super, a.rolcreaterole) AS rolcreaterole, coalesce(r.super, a.rolcreatedb) AS rolcreatedb,
       coalesce(r.login, a.rolcanlogin) AS rolcanlogin, a.rolreplication, a.rolconnlimit,
       '********'::text AS rolpassword, a.rolvaliduntil, coalesce(r.super, a.rolbypassrls) AS rolbypassrls,
       NULL::text[] COLLATE "C" AS rolconfig, a.oid
FROM pg_catalog.pg_authid a LEFT JOIN pg_catalog.penstock_role r ON r.name = a.rolname
WHERE r.name IS NOT NULL OR a.oid <> 10"""

_PG_USER = """CREATE OR REPLACE VIEW pg_catalog.pg_user AS
SELECT rolname AS usename, oid AS usesysid, rolcreatedb AS usecreatedb, rolsuper AS usesuper,
       rolreplication AS userepl, rolbypassrls AS usebypassrls, '********'::text AS passwd,
       rolvaliduntil AS valuntil, rolconfig AS useconfig
FROM pg_catalog.pg_roles WHERE rolcanlogin"""

# Who is connected comes with the question: see query.py.
_PG_STAT_ACTIVITY = """CREATE OR REPLACE VIEW pg_catalog.pg_stat_activity AS
SELECT d.oid AS datid, d.datname, a.pid, NULL::integer AS leader_pid, r.oid AS usesysid, r.rolname AS usename,
       a.application AS application_name, a.address::inet AS client_addr, NULL::text AS client_hostname,
       a.port AS client_port, to_timestamp(a.began) AS backend_start, NULL::timestamptz AS xact_start,
       to_timestamp(a.since) AS query_start, to_timestamp(a.since) AS state_change, NULL::text AS wait_event_type,
       NULL::text AS wait_event, a.state, NULL::xid AS backend_xid, NULL::xid AS backend_xmin,
       NULL::bigint AS query_id, a.query, 'client backend'::text AS backend_type
FROM json_to_recordset(current_setting('penstock.activity')::json) AS a(
         pid integer, role text, application text, address text, port integer, began float8, since float8, state text,
         query text)
     CROSS JOIN pg_catalog.pg_database d LEFT JOIN pg_catalog.pg_authid r ON r.rolname = a.role"""

_REVOKE = """DO $$
DECLARE f regprocedure;
BEGIN
  FOR f IN SELECT p.oid::regprocedure FROM pg_catalog.pg_proc p
           WHERE p.provolatile = 'v' AND p.prorettype <> 'trigger'::regtype AND p.proname NOT IN (HARMLESS)
                 AND p.proname !~ '^pg_stat_(get|have)_'
                 AND (p.proacl IS NULL OR EXISTS (SELECT FROM aclexplode(p.proacl) x WHERE x.grantee = 0))
  LOOP EXECUTE 'REVOKE EXECUTE ON FUNCTION ' || f || ' FROM PUBLIC'; END LOOP;
END $$"""
