"""The same work with the compiled inner loops and without them."""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock import native
from penstock.kernels import hashing
from penstock.zset.column import Column

Result = TypeVar("Result")

needs_kernels = pytest.mark.skipif(
    native.kernels is None, reason="the compiled inner loops are not built: make setup builds them"
)


@cache
def users() -> tuple[types.ModuleType, ...]:
    """The modules that call compiled code."""
    root = Path(penstock.__file__).parent
    texts = {path: path.read_text() for path in root.rglob("*.py") if path.parent.name != "native"}
    found = [path for path, text in texts.items() if "from penstock.native import kernels" in text]
    names = [".".join(path.relative_to(root.parent).with_suffix("").parts) for path in found]
    return tuple([importlib.import_module(name) for name in names])


@contextmanager
def plainly() -> Iterator[None]:
    """Within it nobody calls compiled code."""
    modules = users()
    before = [module.kernels for module in modules]
    for module in modules:
        module.kernels = None  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module, found in zip(modules, before, strict=True):
            module.kernels = found  # type: ignore[attr-defined]


def both(work: Callable[[], Result]) -> tuple[Result, Result]:
    """What it gives with compiled code, and without."""
    compiled = work()
    with plainly():
        return compiled, work()


@contextmanager
def hashes_of(bits: int | None) -> Iterator[None]:
    """Within it a hash has no more than this many bits, so that different keys collide."""
    before = hashing.COLLIDE_BITS
    hashing.COLLIDE_BITS = bits
    try:
        yield
    finally:
        hashing.COLLIDE_BITS = before


def same_array(a: np.ndarray | None, b: np.ndarray | None) -> None:
    """The same type, the same bits."""
    if a is None or b is None:
        assert a is b
        return
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    if a.dtype == object:
        assert a.tolist() == b.tolist()
    else:
        assert a.tobytes() == b.tobytes(), (a, b)


def same_column(a: Column, b: Column) -> None:
    """The same type, values and NULLs, to the bit."""
    assert a.type == b.type
    if a.type.kind != "arrow":
        same_array(a.values, b.values)
        same_array(a.valid, b.valid)
        return
    left, right = a.values, b.values
    left.validate(full=True)
    assert left.type == right.type
    assert left.null_count == right.null_count
    assert left.equals(right), (left, right)


def text_bytes(array: pa.Array) -> int:
    """How many bytes of text an array has, those under a NULL included."""
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    return int(offsets[-1] - offsets[0])
