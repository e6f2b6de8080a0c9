"""The options of a statement: `WITH (key = value, ...)` and `EXPLAIN (key value, key)`."""

from __future__ import annotations

from penstock.base.errors import SqlSyntaxError
from penstock.sql.cursor import Cursor
from penstock.sql.statements import OptionValue
from penstock.sql.tokens import Token, fold, string_value, unquote


def parse_options(c: Cursor) -> dict[str, OptionValue]:
    """`(key = value, key value, key)`: a key alone is True, keys in lower case. `RETAIN HISTORY FOR '1 hour'`
    is another way to write `retain_history = '1 hour'`."""
    values: dict[str, OptionValue] = {}
    inside = c.group()
    while not inside.at_end:
        key_token = inside.tokens[inside.position]
        if key_token.kind not in ("word", "quoted"):
            inside.fail("an option's name")
        if inside.take("RETAIN", "HISTORY"):  # RETAIN HISTORY FOR '1 hour'
            inside.take("FOR")
            key = "retain_history"
        else:
            inside.position += 1
            key = fold(unquote(key_token))
        if key in values:
            raise SqlSyntaxError(f'option "{key}" is given twice', position=key_token.offset)
        stop = next((i for i in inside.top_level() if inside.tokens[i].keyword == ","), inside.stop)
        part = inside.until(stop)
        if part.take("=") and part.at_end:
            part.fail("a value")
        values[key] = True if part.at_end else _option_value(part)
        if inside.take(",") and inside.at_end:
            inside.fail("an option's name")
    return values


def _option_value(part: Cursor) -> OptionValue:
    """A single token by its kind; anything longer is its text."""
    token = part.tokens[part.position]
    length = part.stop - part.position
    if length == 2 and token.keyword in ("-", "+") and part.tokens[part.position + 1].kind == "number":
        number = _number(part.tokens[part.position + 1])
        return -number if token.keyword == "-" else number
    if length > 1:
        return part.rest("a value").text
    if token.kind == "string":
        return string_value(token)
    if token.kind == "number":
        return _number(token)
    if token.keyword in ("TRUE", "FALSE", "ON", "OFF"):
        return token.keyword in ("TRUE", "ON")
    return unquote(token)


def _number(token: Token) -> int | float:
    text = token.text.replace("_", "")
    # Long digits stay a float: Python refuses to convert more than some thousands to an integer.
    return int(text) if text.isdecimal() and len(text) <= 40 else float(text)
