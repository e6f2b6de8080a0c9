"""Plans, expressions and their values as JSON, and back, exactly: what a durable flow is written in.

A value is written so that it comes back as it was: a tuple is an array; None, booleans, text, finite
floats and integers of 64 bits are themselves; everything else is an object of one member that says
what it is. Instances of the classes in a closed list are *records*: each stands once in a table, after
those that it holds, and is referred to by number, so a plan whose nodes are shared is written in its
own size and comes back shared.
"""

from __future__ import annotations

import json
import math
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, TypeAlias

from penstock.base.errors import CorruptState, PenstockError
from penstock.kernels.order import OrderKey
from penstock.plan import expr as e
from penstock.plan import nodes as p
from penstock.zset.types import Schema, SqlType

Json: TypeAlias = Any  # what json.dumps takes and json.loads gives

FORMAT = 1
CLASSES: tuple[type, ...] = (
    SqlType, Schema, OrderKey, e.Col, e.Const, e.Call, p.JoinKey, p.Agg,
    p.Scan, p.Values, p.Project, p.Filter, p.Join, p.MultiJoin, p.Aggregate, p.Distinct, p.Union, p.SetOp,
    p.TopK,
)  # fmt: skip
_CLASS = "is"  # beside a record's fields: a word that no field can have as its name


def encode(value: object) -> Json:
    """A value as JSON.

    >>> from penstock.zset.types import BIGINT
    >>> decode(encode((e.Const(BIGINT, 1), math.inf, b"x"))) == (e.Const(BIGINT, 1), math.inf, b"x")
    True
    """
    encoder = Encoder()
    written = encoder.encode(value)
    return {"format": FORMAT, "records": encoder.records, "value": written}


def decode(written: Json) -> Any:
    """The value that `encode` was given."""
    check_format(written)
    with damage_named("value"):
        return Decoder(member(written, "records")).decode(member(written, "value"))


def to_bytes(written: Json) -> bytes:
    """The same bytes for the same JSON, always."""
    return json.dumps(written, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def from_bytes(data: bytes) -> Json:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptState(f"what is stored is not JSON: {error}") from None


@contextmanager
def damage_named(what: str) -> Iterator[None]:
    """Whatever goes wrong because JSON has not the shape that it should have is one error of ours."""
    try:
        yield
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise CorruptState(f"the stored {what} cannot be read: {error}") from error


def check_format(written: Json) -> None:
    """An error if another version wrote it."""
    found = member(written, "format")
    if found != FORMAT:
        hint = "Open it with the version of penstock that wrote it, or a newer one."
        raise CorruptState(f"stored in format {found}, but this version reads format {FORMAT}", hint=hint)


def member(written: Json, name: str) -> Json:
    """One member of a JSON object."""
    if not isinstance(written, dict) or name not in written:
        raise CorruptState(f'what is stored has no member "{name}"')
    return written[name]


class Encoder:
    """Writes values that share one table of records."""

    def __init__(self, classes: tuple[type, ...] = CLASSES) -> None:
        self.records: list[Json] = []
        self._fields = {cls: tuple(f.name for f in fields(cls) if f.init) for cls in classes}
        self._numbers: dict[int, int] = {}  # by id
        self._kept: list[object] = []  # what has a number: its id must stay its own
        self._known: dict[str, int] = {}  # by what is written: == takes 1, 1.0 and True for the same

    def encode(self, value: object) -> Json:
        """The value, its records added to the table."""
        waiting = list(self._records_in(value))
        while waiting:  # not by recursion: a plan may be deeper than Python's stack
            record = waiting[-1]
            below = [] if id(record) in self._numbers else self._missing(record)
            if below:
                waiting += reversed(below)
                continue
            waiting.pop()
            if id(record) not in self._numbers:
                self._add(record)
        return self._write(value)

    def _missing(self, record: object) -> list[object]:
        values = (getattr(record, name) for name in self._fields[type(record)])
        return [r for v in values for r in self._records_in(v) if id(r) not in self._numbers]

    def _add(self, record: object) -> None:
        kind = type(record)
        written = {_CLASS: kind.__name__}
        written |= {name: self._write(getattr(record, name)) for name in self._fields[kind]}
        number = self._known.setdefault(json.dumps(written), len(self.records))
        if number == len(self.records):
            self.records.append(written)
        self._numbers[id(record)] = number
        self._kept.append(record)

    def _records_in(self, value: Any) -> Iterator[object]:
        kind = type(value)
        if kind in self._fields:
            yield value
        elif kind is tuple or kind is list:
            for item in value:
                yield from self._records_in(item)
        elif kind is dict:
            for pair in value.items():
                yield from self._records_in(pair)

    def _write(self, value: Any) -> Json:
        kind = type(value)
        if kind in self._fields:
            if id(value) not in self._numbers:
                raise PenstockError(f"a {kind.__name__} inside a set cannot be stored")
            return {"r": self._numbers[id(value)]}
        if kind is tuple:
            return [self._write(item) for item in value]
        if value is None or kind is bool:
            return value
        if kind is int:
            return value if -(2**63) <= value < 2**63 else {"int": hex(value)}
        if kind is float:
            return value if math.isfinite(value) else {"float": struct.pack(">d", value).hex()}
        if kind is str:
            return _write_text(value)
        if kind is bytes:
            return {"bytes": b64encode(value).decode()}
        if kind is list:
            return {"list": [self._write(item) for item in value]}
        if kind is dict:
            return {"dict": [[self._write(k), self._write(v)] for k, v in value.items()]}
        if kind is set or kind is frozenset:
            return {kind.__name__: sorted((self._write(item) for item in value), key=json.dumps)}
        raise PenstockError(f"a {kind.__module__}.{kind.__name__} cannot be stored")


def _write_text(value: str) -> Json:
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON could join with its neighbour
        return {"text": value.encode("utf-8", "surrogatepass").hex()}
    return value


class Decoder:
    """Reads values that share one table of records."""

    def __init__(self, records: Json, classes: tuple[type, ...] = CLASSES) -> None:
        self._classes = {cls.__name__: (cls, {f.name for f in fields(cls) if f.init}) for cls in classes}
        self._made: list[Any] = []
        for written in _array(records):
            self._made.append(self._record(written))

    def decode(self, written: Json) -> Any:
        if isinstance(written, list):
            return tuple([self.decode(item) for item in written])
        if not isinstance(written, dict):
            return written
        if len(written) != 1:
            raise CorruptState(f"a stored value has the members {sorted(written)}, not one")
        ((kind, inner),) = written.items()
        try:
            if kind == "r":
                return self._made[_number(inner)]
            if kind == "list":
                return [self.decode(item) for item in _array(inner)]
            if kind == "dict":
                return {self.decode(k): self.decode(v) for k, v in _array(inner)}
            if kind == "set" or kind == "frozenset":
                items = [self.decode(item) for item in _array(inner)]
                return set(items) if kind == "set" else frozenset(items)
            if kind in _SCALARS:
                return _SCALARS[kind](inner)
        except struct.error as error:
            raise CorruptState(f"the stored value cannot be read: {error}") from None
        raise CorruptState(f"a stored value is of the unknown kind {kind}")

    def _record(self, written: Json) -> Any:
        name = member(written, _CLASS)
        known = self._classes.get(name) if isinstance(name, str) else None
        if known is None:
            raise CorruptState(f"a stored record is of the unknown class {name}")
        cls, names = known
        given = set(written) - {_CLASS}
        if given != names:
            wrong = ", ".join(sorted(given ^ names))
            raise CorruptState(f"a stored {name} has not the fields of one: {wrong}")
        values = {field: self.decode(written[field]) for field in sorted(names)}
        with damage_named(name):
            return cls(**values)


def _array(written: Json) -> list[Any]:
    if not isinstance(written, list):
        raise CorruptState("what is stored has something else where an array belongs")
    return written


def _number(written: Json) -> int:
    if type(written) is not int or written < 0:
        raise ValueError(f"{written!r} is not the number of a record")
    return written


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "int": lambda text: int(text, 16),
    "float": lambda text: struct.unpack(">d", bytes.fromhex(text))[0],
    "text": lambda text: bytes.fromhex(text).decode("utf-8", "surrogatepass"),
    "bytes": lambda text: b64decode(text, validate=True),
}
