"""What happens in the shop: an endless stream of changes, each of which is one epoch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa

from penstock.demo.shop import REGIONS, SCHEMAS, Row, Shop


@dataclass(frozen=True)
class Change:
    """Rows added (weight 1) and removed (weight -1) in one or several tables, and what it is about."""

    text: str
    rows: dict[str, list[tuple[Row, int]]]

    def deltas(self) -> dict[str, pa.RecordBatch]:
        """The change in the form that `flow.tick` takes.

        >>> change = Change("a new product", {"products": [({"id": 1, "name": "oak desk"}, 1)]})
        >>> change.deltas()["products"].to_pylist()
        [{'id': 1, 'name': 'oak desk', '_weight': 1}]
        """
        return {
            table: pa.RecordBatch.from_pylist(
                [{**row, "_weight": weight} for row, weight in rows],
                SCHEMAS[table].append(pa.field("_weight", pa.int64())),
            )
            for table, rows in self.rows.items()
        }


def changes(shop: Shop) -> Iterator[Change]:
    """Changes without end: mostly new orders, then deliveries, cancellations, customers who come or move."""
    kinds = (new_order, ship, cancel, new_customer, move)
    weights = (55, 25, 12, 5, 3)
    while True:
        kind = shop.random.choices(kinds, weights)[0]
        change = kind(shop)
        if change is not None:
            yield change


def new_order(shop: Shop) -> Change:
    order_id = next(reversed(shop.orders), -1) + 1
    order, lines = shop.new_order(order_id, shop.random.randrange(len(shop.customers)))
    shop.orders[order_id] = order
    shop.lines[order_id] = lines
    total = sum((_decimal(line["quantity"]) * _decimal(line["price"]) for line in lines), Decimal(0))
    count = f"{len(lines)} line" + ("s" if len(lines) > 1 else "")
    return Change(
        f"+ order {order_id:,}: {count}, {total:,.2f}",
        {"orders": [(order, 1)], "order_lines": [(line, 1) for line in lines]},
    )


def ship(shop: Shop) -> Change | None:
    order_id = _some_order(shop)
    old = shop.orders[order_id] if order_id is not None else None
    if order_id is None or old is None or old["status"] != "open":
        return None
    new = {**old, "status": "shipped"}
    shop.orders[order_id] = new
    return Change(f"~ order {order_id:,}: shipped", {"orders": [(old, -1), (new, 1)]})


def cancel(shop: Shop) -> Change | None:
    order_id = _some_order(shop)
    if order_id is None or order_id == next(reversed(shop.orders)):  # the newest one's number is in use
        return None
    order, lines = shop.orders.pop(order_id), shop.lines.pop(order_id)
    return Change(
        f"- order {order_id:,}: cancelled",
        {"orders": [(order, -1)], "order_lines": [(line, -1) for line in lines]},
    )


def new_customer(shop: Shop) -> Change:
    customer = shop.new_customer(len(shop.customers))
    shop.customers.append(customer)
    return Change(f"+ {customer['name']}: from {customer['region']}", {"customers": [(customer, 1)]})


def move(shop: Shop) -> Change:
    """A customer moves: all the orders of that customer count for another region from now on."""
    place = shop.random.randrange(len(shop.customers))
    old = shop.customers[place]
    new = {**old, "region": shop.random.choice([r for r in REGIONS if r != old["region"]])}
    shop.customers[place] = new
    return Change(f"~ {new['name']}: moves to {new['region']}", {"customers": [(old, -1), (new, 1)]})


def _some_order(shop: Shop) -> int | None:
    newest = next(reversed(shop.orders), -1)
    for _ in range(20):
        order_id = shop.random.randint(0, newest)
        if order_id in shop.orders:
            return order_id
    return None


def _decimal(value: object) -> Decimal:
    return Decimal(str(value))
