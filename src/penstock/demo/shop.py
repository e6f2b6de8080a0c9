"""The shop: four tables, six views over them, and the rows it starts with."""

from __future__ import annotations

from decimal import Decimal
from random import Random

import pyarrow as pa

TABLES = {
    "customers": "CREATE TABLE customers (id BIGINT PRIMARY KEY, name TEXT, region TEXT, segment TEXT)",
    "products": "CREATE TABLE products (id BIGINT PRIMARY KEY, name TEXT)",
    "orders": "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, status TEXT)",
    "order_lines": """
        CREATE TABLE order_lines (order_id BIGINT, line BIGINT, product BIGINT, quantity BIGINT,
                                  price DECIMAL(10,2), PRIMARY KEY (order_id, line))""",
}

VIEWS = {
    "revenue_by_region": """
        SELECT c.region, COUNT(*) AS lines, SUM(l.quantity * l.price) AS revenue
        FROM order_lines l JOIN orders o ON o.id = l.order_id JOIN customers c ON c.id = o.customer
        GROUP BY c.region""",
    "region_share": """
        SELECT region, revenue / (SELECT SUM(revenue) FROM revenue_by_region) AS share
        FROM revenue_by_region""",
    "top_products": """
        SELECT p.name, SUM(l.quantity) AS sold, SUM(l.quantity * l.price) AS revenue
        FROM order_lines l JOIN products p ON p.id = l.product
        GROUP BY p.name ORDER BY revenue DESC, p.name LIMIT 5""",
    "open_orders": """
        SELECT c.segment, COUNT(*) AS orders FROM orders o JOIN customers c ON c.id = o.customer
        WHERE o.status = 'open' GROUP BY c.segment""",
    "without_orders": """
        SELECT c.id, c.segment FROM customers c
        WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id)""",
    "without_orders_by_segment": """
        SELECT segment, COUNT(*) AS customers FROM without_orders GROUP BY segment""",
}

REGIONS = ("Africa", "America", "Asia", "Europe", "Oceania")
SEGMENTS = ("home", "office", "school", "trade")

_KINDS = ("bench", "chair", "clock", "desk", "lamp", "mirror", "rug", "shelf", "stool", "table")
_WOODS = ("ash", "beech", "birch", "cherry", "elm", "fir", "larch", "maple", "oak", "pine", "teak", "walnut")
_ADJECTIVES = ("broad", "light", "narrow", "plain", "round", "small", "tall")

CUSTOMERS = 6_000
ORDERS = 30_000
LINES_PER_ORDER_MAX = 4

Row = dict[str, object]

SCHEMAS = {
    "customers": pa.schema(
        [("id", pa.int64()), ("name", pa.string()), ("region", pa.string()), ("segment", pa.string())]
    ),
    "products": pa.schema([("id", pa.int64()), ("name", pa.string())]),
    "orders": pa.schema([("id", pa.int64()), ("customer", pa.int64()), ("status", pa.string())]),
    "order_lines": pa.schema(
        [
            ("order_id", pa.int64()),
            ("line", pa.int64()),
            ("product", pa.int64()),
            ("quantity", pa.int64()),
            ("price", pa.decimal128(10, 2)),
        ]
    ),
}

KEYS = {"customers": ("id",), "products": ("id",), "orders": ("id",), "order_lines": ("order_id", "line")}


class Shop:
    """The rows of the shop as plain dicts, and how new ones are made up."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        names = [f"{a} {w} {k}" for a in _ADJECTIVES for w in _WOODS for k in _KINDS]
        self.random.shuffle(names)
        self.products = [{"id": i, "name": name} for i, name in enumerate(names)]
        self.prices = [Decimal(self.random.randrange(500, 90_000)) / 100 for _ in names]
        self.customers = [self.new_customer(i) for i in range(CUSTOMERS)]
        self.orders: dict[int, Row] = {}
        self.lines: dict[int, list[Row]] = {}
        for order_id in range(ORDERS):
            # A tenth of the customers, the last ones, have not ordered anything yet.
            order, lines = self.new_order(order_id, self.random.randrange(CUSTOMERS * 9 // 10))
            order["status"] = self.random.choice(("open", "shipped", "shipped", "shipped"))
            self.orders[order_id] = order
            self.lines[order_id] = lines

    def new_customer(self, customer_id: int) -> Row:
        pick = self.random.choice
        name = f"customer {customer_id:,}"
        return {"id": customer_id, "name": name, "region": pick(REGIONS), "segment": pick(SEGMENTS)}

    def new_order(self, order_id: int, customer_id: int) -> tuple[Row, list[Row]]:
        """An open order with one to four lines; some products sell far better than others."""
        lines: list[Row] = []
        for line in range(self.random.randint(1, LINES_PER_ORDER_MAX)):
            product = int(len(self.products) * self.random.random() ** 2)
            quantity = self.random.randint(1, 5)
            price = self.prices[product]
            row = {
                "order_id": order_id,
                "line": line,
                "product": product,
                "quantity": quantity,
                "price": price,
            }
            lines.append(row)
        return {"id": order_id, "customer": customer_id, "status": "open"}, lines

    def tables(self) -> dict[str, pa.Table]:
        """All rows, as Arrow."""
        lines = [line for lines in self.lines.values() for line in lines]
        rows = (self.customers, self.products, list(self.orders.values()), lines)
        return {
            name: pa.Table.from_pylist(part, SCHEMAS[name]) for name, part in zip(SCHEMAS, rows, strict=True)
        }
