"""What a pipeline wants to be in the flow: a statement that makes a table or view, in the flow's own SQL."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.engine.catalog import MaterializedView, Relation, Table, View
from penstock.engine.flow import Flow
from penstock.engine.spark_sql import columns_of
from penstock.sql import statements as st
from penstock.sql.parse import parse
from penstock.sql.tokens import quote


@dataclass(frozen=True)
class Definition:
    """A table or view as it stands in the trial (see `trial.py`), and the statement that made it there."""

    statement: st.CreateTable | st.CreateTableAs | st.CreateView | st.CreateMaterializedView
    relation: Relation

    @property
    def name(self) -> str:
        return self.relation.name

    @property
    def kind(self) -> str:
        return self.relation.kind

    def text(self, or_replace: bool = False) -> str:
        """The statement, whatever it said about a relation that is there already."""
        s = self.statement
        head = f"CREATE {'OR REPLACE ' if or_replace else ''}{self.kind.upper()} {quote(s.name)}"
        if isinstance(s, st.CreateTable):
            return f"{head} {s.body}"
        listed = f" ({', '.join(quote(name) for name in s.columns)})" if s.columns else ""
        return f"{head}{listed} AS {s.query}"

    def is_as(self, there: Relation) -> bool:
        """Whether a relation of the flow was made by the same statement; a table: has the same columns."""
        ours = self.relation
        if isinstance(ours, View) and isinstance(there, View):
            return (ours.sql, ours.aliases) == (there.sql, there.aliases)
        if isinstance(ours, MaterializedView) and isinstance(there, MaterializedView):
            return (ours.sql, ours.schema) == (there.sql, there.schema)
        if not (isinstance(ours, Table) and isinstance(there, Table)):
            return False
        # What is not declared may be there: somebody has made the table with a key, before it was fed.
        promised = ours.key in ((), there.key) and ours.not_null in ((), there.not_null)
        return ours.schema == there.schema and promised


def define(trial: Flow, spark_text: object) -> Definition:
    """Carry out a CREATE of Spark SQL (its tree) in the trial."""
    from penstock.sql.spark.statements import to_postgres  # sqlglot comes with penstock[spark]

    catalog = trial._core.catalog
    (statement,) = parse(to_postgres(spark_text, lambda name: columns_of(name, catalog, trial.sql)))
    assert isinstance(statement, (st.CreateTable, st.CreateTableAs, st.CreateView, st.CreateMaterializedView))
    trial.sql(str(statement.text))
    return Definition(statement, catalog.get(statement.name))


def create_text(relation: Relation) -> str:
    """The statement that makes a view of a flow again."""
    assert not isinstance(relation, Table)
    names = relation.aliases if isinstance(relation, View) else relation.schema.names
    listed = f" ({', '.join(quote(name) for name in names)})" if names else ""
    return f"CREATE {relation.kind.upper()} {quote(relation.name)}{listed} AS {relation.sql}"
