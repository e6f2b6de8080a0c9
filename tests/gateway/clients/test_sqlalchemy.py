"""SQLAlchemy: tables made by it and the ORM on them; reflection is in test_catalog.py."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from penstock import Flow


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
    engine = sa.create_engine(address)
    Base.metadata.create_all(engine)
    yield engine
    engine.dispose()


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


def test_core(engine: sa.Engine) -> None:
    items = Item.__table__
    with engine.begin() as connection:
        connection.execute(sa.insert(items), [{"id": i, "name": str(i), "price": i} for i in range(5)])
        with pytest.raises(sa.exc.IntegrityError), connection.begin_nested():
            connection.execute(sa.insert(items), {"id": 1, "name": "twice", "price": 1})
        connection.execute(sa.update(items).where(items.c.id == 3).values(price=items.c.price + 1))
    with engine.connect() as connection:
        assert connection.execute(sa.select(sa.func.sum(items.c.price))).scalar() == 11


def test_tables_are_made_once_and_dropped(engine: sa.Engine, flow: Flow) -> None:
    Base.metadata.create_all(engine)  # it looks first, and finds them
    assert sa.inspect(engine).get_table_names() == ["items"]
    reflected = sa.Table("items", sa.MetaData(), autoload_with=engine)
    assert [(c.name, str(c.type), c.nullable, c.primary_key) for c in reflected.columns] == [
        ("id", "INTEGER", False, True),
        ("name", "TEXT", False, False),
        ("price", "NUMERIC(10, 2)", False, False),
    ]
    Base.metadata.drop_all(engine)
    assert flow.sql("SHOW TABLES").num_rows == 0
    Base.metadata.drop_all(engine)
