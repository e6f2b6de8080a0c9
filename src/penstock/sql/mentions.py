"""What a statement's text mentions, from DuckDB's parse tree: relations, and functions of the moment.

The bound plan does not do for functions: DuckDB folds `now() - INTERVAL 1 DAY` while it binds.
"""

from __future__ import annotations

import re
from typing import Any

# Functions without parentheses: the parser takes them for columns.
KEYWORDS = {"current_date", "current_timestamp", "current_time", "localtimestamp", "localtime"}

_NAME = r'(?:"(?:[^"]|"")*"|[\w$])+'
_VIEW = re.compile(
    rf'\s*CREATE\s.*?VIEW\s+(?:IF\s+NOT\s+EXISTS\s+)?{_NAME}(?:\.{_NAME})*\s*(?:\((?:"(?:[^"]|"")*"|[^")])*\))?'
    r"\s*AS\s+(.*?);?\s*$",
    re.DOTALL | re.IGNORECASE,
)


def view_query(sql: str) -> str:
    """The query of a CREATE VIEW as DuckDB keeps it.

    >>> view_query('CREATE VIEW "a AS (b" ("x)", y) AS SELECT 1, 2;')
    'SELECT 1, 2'
    """
    found = _VIEW.match(sql)
    return found[1] if found else ""


def qualified(item: Any, ctes: frozenset[str] = frozenset()) -> set[tuple[str, str]]:
    """The base tables and views in a parse tree, each with its schema or "", without what a WITH defines."""
    found: set[tuple[str, str]] = set()
    if isinstance(item, list):
        for value in item:
            found |= qualified(value, ctes)
    elif isinstance(item, dict):
        ctes |= {entry["key"].lower() for entry in (item.get("cte_map") or {}).get("map", [])}
        name, schema = item.get("table_name"), item.get("schema_name") or ""
        if item.get("type") == "BASE_TABLE" and name and (name.lower() not in ctes or schema):
            found.add((schema, name))
        for value in item.values():
            found |= qualified(value, ctes)
    return found


def named_relations(item: Any) -> set[tuple[str, str]]:
    """Every schema and name in a parse tree at which a relation can stand, also names that a WITH gives."""
    found: set[tuple[str, str]] = set()
    if isinstance(item, list):
        for value in item:
            found |= named_relations(value)
    elif isinstance(item, dict):
        if item.get("type") == "BASE_TABLE" and item.get("table_name"):
            found.add((item.get("schema_name") or "", item["table_name"]))
        for value in item.values():
            found |= named_relations(value)
    return found


def relations(item: Any) -> set[str]:
    """Their names."""
    return {name for _, name in qualified(item)}


def of_schema(item: Any, schema: str) -> set[str]:
    """The names of those that are in a schema, folded."""
    return {name.lower() for found, name in qualified(item) if found.lower() == schema}


def has_table_function(item: Any) -> bool:
    """Whether a function stands where a relation can, such as range() or query()."""
    if isinstance(item, list):
        return any(has_table_function(value) for value in item)
    if not isinstance(item, dict):
        return False
    return item.get("type") == "TABLE_FUNCTION" or any(has_table_function(v) for v in item.values())


def functions(item: Any) -> dict[tuple[str, int], None]:
    """The functions of a parse tree with their number of arguments, and columns that may be functions (-1)."""
    found: dict[tuple[str, int], None] = {}
    if isinstance(item, list):
        for value in item:
            found |= functions(value)
    elif isinstance(item, dict):
        if item.get("class") == "FUNCTION" and item.get("function_name"):
            found[item["function_name"].lower(), len(item.get("arguments") or [])] = None
        names = item.get("column_names") or []
        if item.get("class") == "COLUMN_REF" and len(names) == 1:
            found[names[0].lower(), -1] = None
        for value in item.values():
            found |= functions(value)
    return found


def bound_functions(item: Any) -> dict[tuple[str, int], None]:
    """The functions of a bound plan with their number of arguments: macros are expanded there."""
    found: dict[tuple[str, int], None] = {}
    if isinstance(item, list):
        for value in item:
            found |= bound_functions(value)
    elif isinstance(item, dict):
        if item.get("expression_class") == "BOUND_FUNCTION":
            found[item["qname"]["path"][-1], len(item["children"])] = None
        for value in item.values():
            found |= bound_functions(value)
    return found
