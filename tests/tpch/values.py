"""What the columns of the TPC-H tables are drawn from: mostly the values that the queries look for."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any


class Chance(random.Random):
    """Randomness with the types that TPC-H needs."""

    def decimal(self, low_cents: int, high_cents: int) -> Decimal:
        return Decimal(self.randint(low_cents, high_cents)).scaleb(-2)

    def date(self, low: str, high: str) -> datetime.date:
        first, last = datetime.date.fromisoformat(low), datetime.date.fromisoformat(high)
        return first + datetime.timedelta(days=self.randint(0, (last - first).days))

    def words(self, *special: str) -> str:
        plain = ["carefully", "final", "green", "forest", "packages", "sleep", "quickly", "ideas"]
        return " ".join(self.sample([*plain, *special], 3))


Draw = Callable[[Chance], Any]


def one_of(*values: Any) -> Draw:
    return lambda chance: chance.choice(values)


def integer(low: int, high: int) -> Draw:
    return lambda chance: chance.randint(low, high)


def cents(low: int, high: int) -> Draw:
    return lambda chance: chance.decimal(low, high)


def date(*ranges: tuple[str, str]) -> Draw:
    return lambda chance: chance.date(*chance.choice(ranges))


def text(prefix: str) -> Draw:
    return lambda chance: f"{prefix}{chance.randint(0, 999_999):09}"


def comment(*special: str) -> Draw:
    return lambda chance: chance.words(*special)


def phone(chance: Chance) -> str:
    code = chance.choice(("13", "31", "23", "29", "30", "18", "17", "10", "25"))
    return f"{code}-{chance.randint(100, 999)}-{chance.randint(100, 999)}-{chance.randint(1000, 9999)}"


def segments(*parts: Sequence[str]) -> Draw:
    return lambda chance: " ".join(chance.choice(part) for part in parts)


NATIONS = ("FRANCE", "GERMANY", "BRAZIL", "CANADA", "SAUDI ARABIA", "CHINA", "PERU")
ORDER_DATES = (
    ("1993-06-15", "1993-10-15"),  # queries 4 and 10
    ("1993-10-01", "1994-01-15"),
    ("1994-01-01", "1995-01-15"),  # 5
    ("1995-01-01", "1996-12-31"),  # 7 and 8
    ("1995-02-15", "1995-03-20"),  # 3
)
SHIP_DATES = (
    ("1994-01-01", "1995-01-10"),  # 6, 12, 20
    ("1995-03-10", "1995-04-10"),  # 3
    ("1995-08-25", "1995-10-05"),  # 14
    ("1995-12-20", "1996-04-10"),  # 15
    ("1998-08-15", "1998-11-01"),  # 1
)

COLUMNS: dict[str, dict[str, Draw]] = {
    "region": {
        "r_regionkey": integer(0, 0),
        "r_name": one_of("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"),
        "r_comment": comment(),
    },
    "nation": {
        "n_nationkey": integer(0, 0),
        "n_name": one_of(*NATIONS),
        "n_regionkey": integer(0, 4),
        "n_comment": comment(),
    },
    "supplier": {
        "s_suppkey": integer(0, 0),
        "s_name": text("Supplier#"),
        "s_address": text("street "),
        # 3 CANADA, 6 FRANCE, 7 GERMANY, 20 SAUDI ARABIA, 2 BRAZIL, 18 CHINA
        "s_nationkey": one_of(3, 6, 7, 20, 2, 18, 24),
        "s_phone": phone,
        "s_acctbal": cents(-99_999, 999_999),
        "s_comment": comment("Customer Complaints", "Customer slow Complaints"),
    },
    "part": {
        "p_partkey": integer(0, 0),
        "p_name": comment("forest green"),
        "p_mfgr": one_of("Manufacturer#1", "Manufacturer#4"),
        "p_brand": one_of("Brand#12", "Brand#23", "Brand#34", "Brand#45", "Brand#51"),
        "p_type": segments(
            ("ECONOMY", "PROMO", "MEDIUM", "STANDARD"),
            ("ANODIZED", "POLISHED", "BRUSHED"),
            ("STEEL", "BRASS", "TIN"),
        ),
        "p_size": one_of(15, 49, 14, 23, 45, 3, 5, 9, 10, 1),
        "p_container": segments(("SM", "MED", "LG"), ("CASE", "BOX", "PACK", "PKG", "BAG")),
        "p_retailprice": cents(90_000, 200_000),
        "p_comment": comment(),
    },
    "partsupp": {
        "ps_partkey": integer(0, 0),
        "ps_suppkey": integer(0, 0),
        "ps_availqty": integer(1, 9_999),
        "ps_supplycost": cents(100, 100_000),
        "ps_comment": comment(),
    },
    "customer": {
        "c_custkey": integer(0, 0),
        "c_name": text("Customer#"),
        "c_address": text("street "),
        "c_nationkey": one_of(6, 7, 2, 3, 17, 18, 12, 8),
        "c_phone": phone,
        "c_acctbal": cents(-99_999, 999_999),
        "c_mktsegment": one_of("BUILDING", "MACHINERY", "AUTOMOBILE"),
        "c_comment": comment(),
    },
    "orders": {
        "o_orderkey": integer(0, 0),
        "o_custkey": integer(0, 0),
        "o_orderstatus": one_of("F", "F", "O", "P"),
        "o_totalprice": cents(100_000, 50_000_000),
        "o_orderdate": date(*ORDER_DATES),
        "o_orderpriority": one_of("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"),
        "o_clerk": text("Clerk#"),
        "o_shippriority": one_of(0, 0, 1),
        "o_comment": comment("special requests", "special packed requests"),
    },
    "lineitem": {
        "l_orderkey": integer(0, 0),
        "l_partkey": integer(0, 0),
        "l_suppkey": integer(0, 0),
        "l_linenumber": integer(0, 0),
        "l_quantity": one_of(*(Decimal(n) for n in (1, 2, 5, 10, 15, 22, 24, 30, 50))),
        "l_extendedprice": cents(90_000, 10_000_000),
        "l_discount": cents(0, 10),
        "l_tax": cents(0, 8),
        "l_returnflag": one_of("R", "A", "N"),
        "l_linestatus": one_of("O", "F"),
        "l_shipdate": date(*SHIP_DATES),
        "l_commitdate": date(*SHIP_DATES),
        "l_receiptdate": date(*SHIP_DATES),
        "l_shipinstruct": one_of("DELIVER IN PERSON", "NONE"),
        "l_shipmode": one_of("MAIL", "SHIP", "AIR", "AIR REG", "RAIL"),
        "l_comment": comment(),
    },
}

# Parts that one of the queries 2, 8, 9, 14, 16, 17, 19, 20 is about.
PART_TEMPLATES: tuple[dict[str, Any], ...] = (
    {},
    {"p_size": 15, "p_type": "STANDARD BRUSHED BRASS"},
    {"p_type": "ECONOMY ANODIZED STEEL"},
    {"p_type": "ECONOMY ANODIZED STEEL", "p_size": 15},
    {"p_type": "PROMO POLISHED TIN", "p_size": 49},
    {"p_name": "forest carefully green"},
    {"p_brand": "Brand#23", "p_container": "MED BOX", "p_size": 9},
    {"p_brand": "Brand#12", "p_container": "SM CASE", "p_size": 3},
    {"p_brand": "Brand#34", "p_container": "LG BOX", "p_size": 14},
)

# Lines that one of the queries 6, 12, 15, 17, 19, 20, 21 is about.
LINE_TEMPLATES: tuple[dict[str, Draw], ...] = (
    {},
    {
        "l_shipdate": date(("1994-01-10", "1994-02-01")),
        "l_commitdate": date(("1994-02-10", "1994-03-01")),
        "l_receiptdate": date(("1994-03-05", "1994-04-01")),
        "l_shipmode": one_of("MAIL", "SHIP"),
    },
    {"l_quantity": one_of(Decimal(1), Decimal(50))},
    {
        "l_quantity": one_of(Decimal(5), Decimal(12), Decimal(25)),
        "l_shipmode": one_of("AIR", "AIR REG"),
        "l_shipinstruct": one_of("DELIVER IN PERSON"),
    },
    {"l_commitdate": date(("1994-01-01", "1994-06-01")), "l_receiptdate": date(("1994-05-01", "1994-12-01"))},
    {"l_extendedprice": cents(20_000_000, 120_000_000), "l_shipdate": date(("1996-01-01", "1996-04-05"))},
    {
        "l_discount": cents(5, 7),
        "l_shipdate": date(("1994-01-01", "1995-01-05")),
        "l_quantity": cents(2_000, 2_500),
    },
)
