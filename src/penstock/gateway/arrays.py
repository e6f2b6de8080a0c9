"""Arrays that clients send, of any number of dimensions: bytes in text or binary to lists of texts, None for NULL."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from penstock.base.errors import InvalidValue
from penstock.gateway.types import PgType

Items = list[Any]  # of texts, of None, or of such lists
DEPTH_MAX = 6  # as in Postgres


def text_items(text: str, read: Callable[[str], str]) -> Items:
    r"""The items of '{1,NULL,"a b"}'; `read` makes of an item's text the one that DuckDB reads.

    >>> text_items('{a,NULL,"NULL","b\\"c"}', str), text_items(" [0:1]={{1},{2}}", str), text_items("{}", str)
    (['a', None, 'NULL', 'b"c'], [['1'], ['2']], [])
    """
    return _Text(text, read).whole()


class _Text:
    """The text of an array, read from the front."""

    def __init__(self, text: str, read: Callable[[str], str]) -> None:
        self._text = text
        self._read = read
        self._at = 0

    def whole(self) -> Items:
        self._spaces()
        if self._here() == "[":  # bounds, which are not kept: [0:1]={...}
            self._at = self._text.find("=", self._at) + 1
            if not self._at:
                raise self._wrong()
            self._spaces()
        if self._here() != "{":
            raise self._wrong()
        items = self._array(1)
        self._spaces()
        if self._at != len(self._text):
            raise self._wrong()
        return items

    def _wrong(self) -> InvalidValue:
        return InvalidValue(f"malformed array literal: {self._text[:40]!r}")

    def _here(self) -> str:
        return self._text[self._at : self._at + 1]

    def _spaces(self) -> None:
        while self._here().isspace():
            self._at += 1

    def _array(self, depth: int) -> Items:
        if depth > DEPTH_MAX:
            raise InvalidValue(f"an array has more than {DEPTH_MAX} dimensions")
        self._at += 1
        items: Items = []
        self._spaces()
        if self._here() == "}":
            self._at += 1
            return items
        while True:
            self._spaces()
            items.append(self._array(depth + 1) if self._here() == "{" else self._item())
            self._spaces()
            mark = self._here()
            self._at += 1
            if mark == "}":
                return _even(items)
            if mark != ",":
                raise self._wrong()

    def _item(self) -> str | None:
        out: list[str] = []
        quoted = self._here() == '"'
        self._at += quoted
        while True:
            char = self._here()
            if not char:
                raise self._wrong()
            if char == "\\":
                self._at += 1
                out.append(self._here())
            elif quoted and char == '"':
                self._at += 1
                return self._read("".join(out))
            elif not quoted and char in ",}":
                break
            elif not quoted and char in '{"':
                raise self._wrong()
            else:
                out.append(char)
            self._at += 1
        text = "".join(out).strip()
        if not text:
            raise self._wrong()
        return None if text.upper() == "NULL" else self._read(text)


def _even(items: Items) -> Items:
    """Arrays within an array are of one length."""
    lengths = {len(item) if isinstance(item, list) else -1 for item in items}
    if len(lengths) > 1:
        raise InvalidValue("multidimensional arrays must have sub-arrays with matching dimensions")
    return items


def binary_items(data: bytes, type: PgType, read: Callable[[bytes], str]) -> Items:
    """The items of an array in binary.

    >>> from penstock.gateway.types import INT4
    >>> head = struct.pack(">iiI", 2, 1, 23) + struct.pack(">iiii", 2, 1, 1, 1)
    >>> binary_items(head + struct.pack(">ii", 4, 7) + struct.pack(">i", -1), INT4, lambda d: str(d[-1]))
    [['7'], [None]]
    """
    try:
        dimensions, _, oid = struct.unpack(">iiI", data[:12])
        if not 0 <= dimensions <= DEPTH_MAX:
            raise InvalidValue(f"an array has {dimensions} dimensions: there may be up to {DEPTH_MAX}")
        if dimensions and oid != type.oid:
            raise InvalidValue("an array's items are of another type than the array")
        sizes = [struct.unpack(">i", data[12 + 8 * i : 16 + 8 * i])[0] for i in range(dimensions)]
        at = 12 + 8 * dimensions
        flat: Items = []
        for _ in range(_product(sizes, len(data))):
            (size,) = struct.unpack(">i", data[at : at + 4])
            item = data[at + 4 : at + 4 + max(size, 0)]
            if size > len(item):
                raise InvalidValue("an array is shorter than it says")
            flat.append(None if size < 0 else read(item))
            at += 4 + len(item)
    except struct.error:
        raise InvalidValue(f"{len(data)} bytes are not a binary array") from None
    for size in reversed(sizes[1:]):
        flat = [flat[i : i + size] for i in range(0, len(flat), size)] if size else []
    return flat


def _product(sizes: list[int], most: int) -> int:
    """How many items there are: each has four bytes at least, so more than the bytes cannot be."""
    count = 1 if sizes else 0
    for size in sizes:
        count *= size
        if size < 0 or count > most:
            raise InvalidValue("an array is shorter than it says")
    return count


def depth_of(items: Items) -> int:
    """
    >>> depth_of([]), depth_of([None, "a"]), depth_of([["a"], ["b"]])
    (1, 1, 2)
    """
    inner = [item for item in items if isinstance(item, list)]
    return 1 + max((depth_of(item) for item in inner), default=0)
