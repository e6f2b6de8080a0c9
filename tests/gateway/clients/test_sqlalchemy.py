"""SQLAlchemy, through psycopg: the checklist, tables made by it and the ORM on them; reflection is in ../catalog/test_catalog_libraries.py."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import errors
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from gateway.clients.until import WAIT_S, until_it_runs
from gateway.clients.values import PYTHON, SLOW, VALUES
from penstock import Flow

NOTES = {"copy": "through psycopg", "cancel": "through psycopg", "listen": "through psycopg"}
# SQLAlchemy's types for the columns of `values.VALUES`, in their order.
TYPES: list[Any] = [
    sa.Boolean, sa.SmallInteger, sa.Integer, sa.BigInteger, sa.REAL, sa.Double, sa.Numeric(12, 2), sa.Text,
    sa.LargeBinary, sa.Date, sa.Time, sa.DateTime, sa.DateTime(timezone=True), sa.Interval, sa.Uuid,
    pg.ARRAY(sa.Integer), pg.ARRAY(sa.Text),
]  # fmt: skip
EVERYTHING = sa.Table(
    "everything",
    sa.MetaData(),
    sa.Column("n", sa.BigInteger, primary_key=True, autoincrement=False),
    *[sa.Column(f"c{i}", type) for i, type in enumerate(TYPES)],
)


class BinaryCursor(psycopg.Cursor[Any]):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.format = psycopg.pq.Format.BINARY


class Base(DeclarativeBase):
    pass


class Item(Base):
    __tablename__ = "items"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    name: Mapped[str]
    price: Mapped[Decimal] = mapped_column(sa.Numeric(10, 2))


@pytest.fixture
def engine(url: str) -> Iterator[sa.Engine]:
    address = url.replace("postgresql://", "postgresql+psycopg://")
    engine = sa.create_engine(address, use_native_hstore=False)  # or it asks the catalog, which has to start
    yield engine
    engine.dispose()


@pytest.fixture
def items(engine: sa.Engine) -> None:
    Base.metadata.create_all(engine)


@pytest.fixture
def connection(engine: sa.Engine) -> Iterator[sa.Connection]:
    with engine.connect() as connection:
        yield connection


def driver(connection: sa.Connection) -> Any:
    """psycopg's connection below it."""
    return connection.connection.driver_connection


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_types(connection: sa.Connection, binary: bool) -> None:
    if binary:
        driver(connection).cursor_factory = BinaryCursor
    EVERYTHING.create(connection, checkfirst=False)
    values = {f"c{i}": value for i, value in enumerate(PYTHON)}
    connection.execute(sa.insert(EVERYTHING), {"n": 1, **values})
    assert connection.execute(sa.select(EVERYTHING)).all() == [(1, *PYTHON)]
    assert connection.execute(sa.select(EVERYTHING.c.n).where(EVERYTHING.c.c12 == PYTHON[12])).all() == [(1,)]
    json_type = sa.cast(sa.literal({"a": 1}, sa.JSON), sa.JSON)
    assert connection.execute(sa.select(json_type)).scalar() == {"a": 1}


def test_nulls(connection: sa.Connection) -> None:
    EVERYTHING.create(connection, checkfirst=False)
    connection.execute(sa.insert(EVERYTHING), {"n": 1, **{f"c{i}": None for i in range(len(VALUES))}})
    assert connection.execute(sa.select(EVERYTHING)).all() == [(1, *[None] * len(VALUES))]
    assert connection.execute(sa.select(EVERYTHING.c.n).where(EVERYTHING.c.c7.is_(None))).scalar() == 1


def test_errors(connection: sa.Connection) -> None:
    for sql, error, sqlstate in (
        ("SELECT amont FROM orders", sa.exc.ProgrammingError, "42703"),
        ("INSERT INTO orders VALUES (1, 'x', 1)", sa.exc.IntegrityError, "23505"),
        ("SELECT 1 / 0", sa.exc.DataError, "22012"),
    ):
        with pytest.raises(error) as caught:
            connection.execute(sa.text(sql))
        assert caught.value.orig.sqlstate == sqlstate
        connection.rollback()
    with pytest.raises(sa.exc.ProgrammingError) as caught:
        connection.execute(sa.text("SELECT :a, amont FROM orders"), {"a": "x"})
    found = caught.value.orig.diag
    assert (found.statement_position, found.message_hint) == ("12", 'Did you mean "amount"?')
    connection.rollback()
    assert connection.execute(sa.text("SELECT 7")).scalar() == 7


def test_transactions(flow: Flow, engine: sa.Engine) -> None:
    before, add = flow.epoch, sa.text("INSERT INTO orders VALUES (:id, 'cy', 1)")
    with engine.begin() as connection:
        connection.execute(add, {"id": 3})
        with pytest.raises(sa.exc.IntegrityError), connection.begin_nested():
            connection.execute(add, {"id": 4})
            connection.execute(add, {"id": 1})
        connection.execute(add, {"id": 5})
    assert flow.epoch == before + 1
    with pytest.raises(sa.exc.InternalError) as failed, engine.begin() as connection:
        with pytest.raises(sa.exc.IntegrityError):
            connection.execute(add, {"id": 1})
        connection.execute(add, {"id": 6})
    assert failed.value.orig.sqlstate == "25P02"
    with pytest.raises(ZeroDivisionError), engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM orders"))
        raise ZeroDivisionError
    with engine.connect().execution_options(isolation_level="SERIALIZABLE") as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM orders")).scalar() == 4
        flow.sql("DELETE FROM orders WHERE id = 5")
        with pytest.raises(sa.exc.OperationalError) as caught:
            connection.execute(sa.text("SELECT count(*) FROM orders"))
        assert caught.value.orig.sqlstate == "40001"


def test_prepared_statements(connection: sa.Connection) -> None:
    driver(connection).prepare_threshold = 1  # psycopg prepares what comes a second time
    found = sa.text("SELECT customer FROM orders WHERE id = :id")
    assert [connection.execute(found, {"id": i % 3}).scalar() for i in range(6)] == [None, "ann", "bob"] * 2
    assert len(driver(connection)._prepared._names) == 1


def test_copy(connection: sa.Connection) -> None:
    """SQLAlchemy has none of its own: through the driver, in the same transaction."""
    with driver(connection).cursor().copy("COPY orders FROM STDIN") as copy:
        copy.write_row((3, "cy", None))
    assert connection.execute(sa.text("SELECT count(*) FROM orders")).scalar() == 3
    with driver(connection).cursor().copy("COPY (SELECT * FROM orders WHERE id = 3) TO STDOUT") as copy:
        assert list(copy.rows()) == [("3", "cy", None)]
    with (
        pytest.raises(errors.UniqueViolation),
        driver(connection).cursor().copy("COPY orders FROM STDIN") as copy,
    ):
        copy.write_row((1, "twice", None))
    connection.rollback()
    assert connection.execute(sa.text("SELECT count(*) FROM orders")).scalar() == 2


def test_cancel(flow: Flow, connection: sa.Connection) -> None:
    psycopg_connection = driver(connection)

    def cancel() -> None:
        until_it_runs(flow)
        psycopg_connection.cancel_safe()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(sa.exc.OperationalError) as caught:
        connection.execute(sa.text(SLOW))
    canceller.join()
    assert isinstance(caught.value.orig, errors.QueryCanceled)
    connection.rollback()
    assert connection.execute(sa.text("SELECT 7")).scalar() == 7


def test_cursors(flow: Flow, connection: sa.Connection) -> None:
    streaming = connection.execution_options(
        stream_results=True, max_row_buffer=7
    )  # a named cursor of psycopg
    result = streaming.execute(sa.text("SELECT i FROM range(100) t(i) WHERE i < :end"), {"end": 50})
    parts = result.partitions(7)
    assert next(parts) == [(i,) for i in range(7)]
    flow.sql("DELETE FROM orders")  # an epoch in between
    assert [row for part in parts for row in part] == [(i,) for i in range(7, 50)]


def test_subscribe(flow: Flow, connection: sa.Connection) -> None:
    start = flow.epoch
    streaming = connection.execution_options(stream_results=True, max_row_buffer=1)
    result = streaming.execute(sa.text("SUBSCRIBE totals"))
    assert sorted(result.fetchmany(2)) == [(start, 1, "ann", 10), (start, 1, "bob", 5)]
    flow.sql("DELETE FROM orders WHERE id = 2")
    assert result.fetchmany(2) == [(start + 1, -1, "bob", 5)]
    result.close()
    connection.rollback()
    assert flow._watches == {}


def test_listen(flow: Flow, engine: sa.Engine) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("LISTEN totals"))
        flow.sql("INSERT INTO orders VALUES (3, 'ann', 1)")
        (heard,) = driver(connection).notifies(timeout=WAIT_S, stop_after=1)
        assert (heard.channel, json.loads(heard.payload)) == ("totals", {"epoch": flow.epoch, "rows": 2})


# -- the ORM ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("items")
def test_orm(engine: sa.Engine, flow: Flow) -> None:
    flow.sql("CREATE MATERIALIZED VIEW worth AS SELECT sum(price) AS price FROM items")
    with Session(engine) as session:
        session.add_all([Item(id=1, name="a", price=Decimal("1.25")), Item(id=2, name="b", price=Decimal(2))])
        session.commit()
        found = session.scalars(sa.select(Item).where(Item.price > 1).order_by(Item.id)).all()
        assert [(item.name, item.price) for item in found] == [("a", Decimal("1.25")), ("b", Decimal(2))]
        found[1].name = "c"
        session.delete(found[0])
        session.commit()
        assert session.execute(sa.select(Item.name)).all() == [("c",)]
        assert session.execute(sa.text("SELECT price FROM worth")).scalar() == 2


@pytest.mark.usefixtures("items")
def test_core(engine: sa.Engine) -> None:
    items = Item.__table__
    with engine.begin() as connection:
        connection.execute(sa.insert(items), [{"id": i, "name": str(i), "price": i} for i in range(5)])
        with pytest.raises(sa.exc.IntegrityError), connection.begin_nested():
            connection.execute(sa.insert(items), {"id": 1, "name": "twice", "price": 1})
        connection.execute(sa.update(items).where(items.c.id == 3).values(price=items.c.price + 1))
    with engine.connect() as connection:
        assert connection.execute(sa.select(sa.func.sum(items.c.price))).scalar() == 11


@pytest.mark.usefixtures("items")
def test_tables_are_made_once_and_dropped(engine: sa.Engine, flow: Flow) -> None:
    Base.metadata.create_all(engine)  # it looks first, and finds them
    assert sorted(sa.inspect(engine).get_table_names()) == ["items", "orders"]
    reflected = sa.Table("items", sa.MetaData(), autoload_with=engine)
    assert [(c.name, str(c.type), c.nullable, c.primary_key) for c in reflected.columns] == [
        ("id", "INTEGER", False, True),
        ("name", "TEXT", False, False),
        ("price", "NUMERIC(10, 2)", False, False),
    ]
    Base.metadata.drop_all(engine)
    assert "items" not in flow.sql("SHOW TABLES").column(0).to_pylist()
    Base.metadata.drop_all(engine)
