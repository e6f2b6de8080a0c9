"""The side of a flow that is defined: tables, views and access, from Python and by statements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import pyarrow as pa

from penstock.base.errors import BindError, InvalidOption, SqlSyntaxError, TypeMismatch, UndefinedColumn
from penstock.base.quantities import seconds
from penstock.base.undivided import Undivided
from penstock.engine import statements as run
from penstock.engine.access_changes import change_access, owning
from penstock.engine.audit_ddl import audited
from penstock.engine.catalog import MaterializedView
from penstock.engine.flow_parts import FlowParts, read_only_error
from penstock.engine.follow import Follower
from penstock.engine.options import read_options
from penstock.engine.session import Session
from penstock.sql import statements as st
from penstock.sql.access_statements import ACCESS_STATEMENTS, AccessStatement
from penstock.sql.parse import one_query
from penstock.sql.tokens import quote
from penstock.zset.interchange import sql_type_of
from penstock.zset.types import Schema, SqlType


class DefinitionSide(FlowParts):
    """What changes the catalog of a flow. A session has asked for it and checked that it may."""

    # -- from Python -----------------------------------------------------------------------

    def register_source(
        self,
        name: str,
        schema: pa.Schema,
        key: str | Sequence[str] | None = None,
        *,
        dedup: str | None = None,
        retain_history: float | str | timedelta | None = None,
    ) -> None:
        """A table from an Arrow schema: the same as CREATE TABLE. With dedup="content" a tick's delta that is
        the same as the one before it changes nothing."""
        given = {"dedup": dedup, "retain_history": retain_history}
        _check_text(name, "the name of a source")
        options = read_options({k: v for k, v in given.items() if v is not None}, "table", name)
        if not isinstance(schema, pa.Schema):
            raise BindError(f"the schema of a source is a pyarrow.Schema, not {type(schema).__name__}")
        types = tuple(_type_of(field, name) for field in schema)
        keys = [key] if isinstance(key, str) else list(key or ())
        for column in keys:
            if column not in schema.names:
                raise UndefinedColumn(f'the key column "{column}" is not in the schema of "{name}"')
        with self._lock:
            self._check_open()
            self._check_retention(retain_history)
            self._session.check_may_define()
            columns = Schema(tuple(schema.names), types)
            places = tuple(schema.names.index(k) for k in keys)
            required = tuple(i for i, f in enumerate(schema) if not f.nullable)
            with self._defining(), audited(self._core, self._session.actor, self._session.number):
                run.add_table(self._core, name, columns, places, required, options)

    def register_view(
        self,
        name: str,
        query: str,
        *,
        replace: bool = False,
        retain_history: float | str | timedelta | None = None,
        freshness: float | str | timedelta | None = None,
    ) -> None:
        """A materialized view of one query: the same as CREATE [OR REPLACE] MATERIALIZED VIEW."""
        _check_text(name, "the name of a view")
        _check_text(query, "the query of a view")
        prefix = "CREATE OR REPLACE" if replace else "CREATE"
        given = {"retain_history": retain_history, "freshness": freshness}
        words = [f"{k} = {seconds(v, k)!r}" for k, v in given.items() if v is not None]
        options = f" WITH ({', '.join(words)})" if words else ""
        self.sql(f"{prefix} MATERIALIZED VIEW {quote(name)}{options} AS {one_query(query)}")

    # -- statements, with the flow's lock held ---------------------------------------------

    @contextmanager
    def _defining(self) -> Iterator[None]:
        """Around what may change the catalog: it becomes durable as one, with the epochs it made. A signal is heard
        when it is done, or where it says that it is interruptible."""
        if isinstance(self._store, Follower):
            raise read_only_error()
        with Undivided():
            before = self._core.catalog.changes
            self._pending = [] if self._store is not None else None
            try:
                yield
            finally:
                pending, self._pending = self._pending, None
                if self._store is not None and (pending or self._core.catalog.changes != before):
                    self._store.define(pending or ())

    def _define(self, s: st.Statement, session: Session) -> pa.Table:
        if isinstance(s, ACCESS_STATEMENTS):
            return self._change_access(s, session)
        with audited(self._core, session.actor, session.number):
            with owning(self._core.catalog, s, session.role):
                return self._carry_out(s, session)

    def _change_access(self, s: AccessStatement, session: Session) -> pa.Table:
        core, before = self._core, self._core.catalog.access
        tag = change_access(core.catalog, s, session.role)
        if core.catalog.access is not before:  # its text has no password in it
            said = {"statement": s.text.text}
            core.audit.record("role", actor=session.actor, session=session.number, with_catalog=True, **said)
        return run.status(tag)

    def _carry_out(self, s: st.Statement, session: Session) -> pa.Table:
        core = self._core
        if isinstance(s, (st.CreateTable, st.CreateTableAs, st.CreateMaterializedView)):
            self._check_retention(s.options.get("retain_history"))
        if isinstance(s, st.CreateTable):
            return self._replacing(s, run.create_table(core, s))
        if isinstance(s, st.CreateTableAs):
            return session.change(lambda t: self._replacing(s, run.create_table_as(core, s, t)))
        if isinstance(s, st.CreateView):
            return run.create_view(core, s)
        if isinstance(s, st.CreateMaterializedView):
            return self._replacing(s, self._create_materialized(s))
        if isinstance(s, st.AlterMaterializedView):
            altered = run.alter_materialized(core, s)
            core.audit.record(
                "alter", actor=session.actor, session=session.number, with_catalog=True,
                kind=altered.kind, name=altered.name, options=altered.options,
            )  # fmt: skip
            return run.status("ALTER MATERIALIZED VIEW")
        if isinstance(s, st.Drop):
            self._close_watches(run.drop(core, s), '"{name}" was dropped')
            return run.status(f"DROP {s.kind.upper()}")
        raise SqlSyntaxError(f"{type(s).__name__} is not a statement of a flow")

    def _create_materialized(self, s: st.CreateMaterializedView) -> pa.Table:
        core = self._core
        before = core.catalog.find(s.name)
        target_s = read_options(s.options, "materialized view", s.name).freshness_s
        with self.meter.filling(s.name, target_s, before is not None):
            answer = run.create_materialized(core, s)
        self._engines.ran_on()  # the filling is no epoch
        made = core.catalog.find(s.name)
        if isinstance(made, MaterializedView) and made is not before:
            made.made_us = before.made_us if isinstance(before, MaterializedView) else core.clock_us()
        return answer

    def _alter_system(self, s: st.AlterSystem, session: Session) -> pa.Table:
        """PAUSE: changes are refused, so that views stay as they are; reads go on. RESUME: as before."""
        if isinstance(self._store, Follower):
            raise read_only_error()
        if s.action == "pause" and self._paused_us is None:
            self._paused_us = self.meter.states["PAUSED"] = self.meter.clock_us()
        elif s.action == "resume" and self._paused_us is not None:
            del self.meter.states["PAUSED"]
            self.meter.span(self._paused_us, "PAUSED")
            self._paused_us = None
        self._core.audit.record(s.action, actor=session.actor, session=session.number)
        return run.status("ALTER SYSTEM")

    def _check_retention(self, retain_history: object) -> None:
        if retain_history is not None and self._store is None:
            raise InvalidOption(
                "a flow in memory keeps no history, so there is none to retain",
                hint='Open it on storage ("memory://name" will do), or leave RETAIN HISTORY out.',
            )

    def _replacing(
        self, s: st.CreateTable | st.CreateTableAs | st.CreateMaterializedView, answer: pa.Table
    ) -> pa.Table:
        """End the watches on what OR REPLACE took away: its columns may be others now."""
        if s.or_replace:
            self._close_watches([s.name], '"{name}" was replaced')
        return answer


def _check_text(given: object, what: str) -> None:
    if not isinstance(given, str):
        raise BindError(f"{what} is a text, not {type(given).__name__}")


def _type_of(field: pa.Field, source: str) -> SqlType:
    """The SQL type of a column of a source. Raises TypeMismatch if there is none."""
    try:
        type = sql_type_of(field.type)
    except TypeMismatch as error:
        raise TypeMismatch(f'column "{field.name}" of "{source}": {error.message}', hint=error.hint) from None
    if _has_null(type):
        raise TypeMismatch(
            f'column "{field.name}" of "{source}" is of the Arrow type {field.type}, which has no values but NULL',
            hint="Give it the type that its values will have, such as pa.string().",
        )
    return type


def _has_null(type: SqlType) -> bool:
    return type.id == "NULL" or any(_has_null(child) for _, child in type.children)
