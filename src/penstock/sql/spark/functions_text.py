"""Spark's functions of text. Lengths and places count code points, in both."""

from __future__ import annotations

import re
from collections.abc import Callable

from penstock.sql.spark.cast import cast
from penstock.sql.spark.dialect import refuse
from penstock.sql.spark.typed import Functions, Typed, integer_of, string
from penstock.zset import types as t

# What Java's and RE2's regular expressions both have and read alike.
_SAFE_ESCAPES = set("dDwW.\\+*?()[]{}|^$-/tnrbB'\"_:,;#@!%&<>=~` ")


def words(value: Typed) -> str:
    """The text of a value, as a function that wants text sees it."""
    return cast(value, t.VARCHAR).sql


def whole(value: Typed) -> str:
    if not value.type.is_integer:
        raise refuse(f"a whole number is wanted here, and this is {value.type.duck}", value.tree)
    return value.sql


def _of_text(function: str, type: t.SqlType = t.VARCHAR) -> Callable[..., Typed]:
    def make(*args: Typed) -> Typed:
        return Typed(f"{function}({', '.join(words(arg) for arg in args)})", type)

    return make


def concat(*args: Typed) -> Typed:
    """Text after text; NULL if one of them is, which DuckDB's concat is not."""
    if any(arg.type.id in ("LIST", "BLOB") for arg in args):
        raise refuse("concat of arrays or binary values is not translated", args[0].tree)
    return Typed(f"({' || '.join(words(arg) for arg in args)})", t.VARCHAR)


def _concat_ws(separator: Typed, *args: Typed) -> Typed:
    if not args:
        return Typed(f"CASE WHEN {words(separator)} IS NULL THEN NULL ELSE '' END", t.VARCHAR)
    inner = ", ".join(words(arg) for arg in args)
    return Typed(f"concat_ws({words(separator)}, {inner})", t.VARCHAR)


def _length(value: Typed) -> Typed:
    return Typed(f"CAST(length({words(value)}) AS INTEGER)", t.INTEGER)


def substring(value: Typed, start: Typed, length: Typed | None = None) -> Typed:
    """From a place on, which Spark counts from 1 (0 is 1 too), or from the end if it is below 0."""
    place = integer_of(start)
    if place is None:
        raise refuse("substring from a place that is no literal is not translated", start.tree or value.tree)
    text = words(value)
    count = None if length is None else f"greatest({whole(length)}, 0)"
    if place >= 0:
        return Typed(f"substring({text}, {max(place, 1)}{'' if count is None else f', {count}'})", t.VARCHAR)
    if count is None:
        return Typed(
            f"CASE WHEN length({text}) <= {-place} THEN {text} ELSE right({text}, {-place}) END", t.VARCHAR
        )
    assert length is not None
    # A place before the beginning takes from the length what lies outside.
    outside = f"greatest({whole(length)} - ({-place} - length({text})), 0)"
    inside = f"substring({text}, length({text}) - {-place} + 1, {count})"
    return Typed(
        f"CASE WHEN length({text}) >= {-place} THEN {inside} ELSE substring({text}, 1, {outside}) END",
        t.VARCHAR,
    )


def _side(function: str) -> Callable[[Typed, Typed], Typed]:
    return lambda value, count: Typed(f"{function}({words(value)}, greatest({whole(count)}, 0))", t.VARCHAR)


def trim(function: str) -> Callable[..., Typed]:
    """Without its spaces (only those, not tabs), or without any of the characters given."""

    def make(value: Typed, characters: Typed | None = None) -> Typed:
        return Typed(
            f"{function}({words(value)}, {string(' ') if characters is None else words(characters)})",
            t.VARCHAR,
        )

    return make


def _pad(function: str) -> Callable[..., Typed]:
    def make(value: Typed, width: Typed, pad: Typed | None = None) -> Typed:
        if pad is not None and not pad.literal:
            raise refuse(
                f"{function} with a text that is no literal, or empty, is not translated", value.tree
            )
        filled = string(" ") if pad is None else pad.sql
        return Typed(
            f"{function}({words(value)}, CAST(greatest({whole(width)}, 0) AS INTEGER), {filled})", t.VARCHAR
        )

    return make


def place_of(value: Typed, part: Typed) -> Typed:
    return Typed(f"CAST(instr({words(value)}, {words(part)}) AS INTEGER)", t.INTEGER)


def _repeat(value: Typed, count: Typed) -> Typed:
    return Typed(f"repeat({words(value)}, greatest({whole(count)}, 0))", t.VARCHAR)


def _replace(value: Typed, old: Typed, new: Typed | None = None) -> Typed:
    if not old.literal:
        raise refuse(
            "replace of a text that is no literal, or empty, is not translated", old.tree or value.tree
        )
    return Typed(
        f"replace({words(value)}, {old.sql}, {string('') if new is None else words(new)})", t.VARCHAR
    )


def pattern(value: Typed) -> str:
    """A regular expression that means the same to Java and to RE2.

    >>> from penstock.sql.spark.typed import Functions, text
    >>> pattern(text(r"^a\\d+\\s?$"))
    "'^a\\\\d+[ \\\\t\\\\n\\\\x0B\\\\f\\\\r]?$'"
    """
    if value.literal is None:
        raise refuse("a regular expression that is no literal is not translated", value.tree)
    written, out, inside, i = value.literal, [], False, 0
    while i < len(written):
        c = written[i]
        if c == "\\":
            escaped = written[i + 1 : i + 2]
            if escaped in ("s", "S") and not inside:
                out.append(r"[ \t\n\x0B\f\r]" if escaped == "s" else r"[^ \t\n\x0B\f\r]")
            elif escaped in _SAFE_ESCAPES:
                out.append(c + escaped)
            else:
                raise refuse(f"\\{escaped} in a regular expression is not translated", value.tree)
            i += 2
            continue
        if inside and (c == "[" or written[i : i + 2] == "&&"):
            raise refuse("a class of characters inside another is not translated", value.tree)
        inside = (inside or c == "[") and not (inside and c == "]" and out[-1] not in ("[", "^"))
        out.append(c)
        i += 1
    found = re.search(r"\(\?(?!:|i\))|[*+?}]\+", "".join(out))
    if found:
        raise refuse(
            f"{found[0]} in a regular expression is not translated", value.tree, "Java alone has it."
        )
    return string("".join(out))


def matches(value: Typed, expression: Typed) -> Typed:
    return Typed(f"regexp_matches({words(value)}, {pattern(expression)})", t.BOOLEAN)


def _regexp_replace(value: Typed, expression: Typed, new: Typed) -> Typed:
    if new.literal is None or "\\" in new.literal:
        raise refuse("a replacement that is no literal, or has a backslash, is not translated", value.tree)
    groups = re.sub(r"\$(\d)", r"\\\1", new.literal)
    if "$" in groups:
        raise refuse("a replacement with ${name} is not translated", value.tree)
    return Typed(f"regexp_replace({words(value)}, {pattern(expression)}, {string(groups)}, 'g')", t.VARCHAR)


def _regexp_extract(value: Typed, expression: Typed, group: Typed | None = None) -> Typed:
    index = 1 if group is None else integer_of(group)
    if index is None:
        raise refuse("a group that is no literal is not translated", value.tree)
    return Typed(f"regexp_extract({words(value)}, {pattern(expression)}, {index})", t.VARCHAR)


def _split(value: Typed, separator: Typed) -> Typed:
    plain = separator.literal is not None and re.sub(r"\\([^\w\s])", r"\1", separator.literal)
    if not plain or re.search(r"[.\\+*?()\[\]{}|^$]", re.sub(r"\\[^\w\s]", "", separator.literal or "")):
        raise refuse(
            "split by a regular expression is not translated", value.tree, "Split by plain characters."
        )
    return Typed(f"string_split({words(value)}, {string(plain)})", t.list_of(t.VARCHAR))


def _locate(part: Typed, value: Typed) -> Typed:
    return place_of(value, part)


TEXTS: Functions = {
    "upper": (1, 1, _of_text("upper")), "ucase": (1, 1, _of_text("upper")), "lower": (1, 1, _of_text("lower")),
    "lcase": (1, 1, _of_text("lower")), "md5": (1, 1, _of_text("md5")),
    "concat": (1, None, concat), "concat_ws": (1, None, _concat_ws),
    "length": (1, 1, _length), "len": (1, 1, _length), "char_length": (1, 1, _length), "character_length": (1, 1, _length),
    "substring": (2, 3, substring), "substr": (2, 3, substring), "left": (2, 2, _side("left")), "right": (2, 2, _side("right")),
    "trim": (1, 1, trim("trim")), "ltrim": (1, 1, trim("ltrim")), "rtrim": (1, 1, trim("rtrim")),
    "btrim": (1, 2, trim("trim")), "lpad": (2, 3, _pad("lpad")), "rpad": (2, 3, _pad("rpad")),
    "instr": (2, 2, place_of), "locate": (2, 2, _locate), "position": (2, 2, _locate), "charindex": (2, 2, _locate),
    "repeat": (2, 2, _repeat), "replace": (2, 3, _replace),
    "startswith": (2, 2, _of_text("starts_with", t.BOOLEAN)), "endswith": (2, 2, _of_text("ends_with", t.BOOLEAN)),
    "contains": (2, 2, _of_text("contains", t.BOOLEAN)),
    "rlike": (2, 2, matches), "regexp": (2, 2, matches), "regexp_like": (2, 2, matches),
    "regexp_replace": (3, 3, _regexp_replace), "regexp_extract": (2, 3, _regexp_extract), "split": (2, 2, _split),
}  # fmt: skip
