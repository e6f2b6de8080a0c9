"""The pieces of state of a flow, by name: what a manifest lists and recovery puts back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from penstock.base.errors import CorruptState
from penstock.engine.catalog import MaterializedView, Table
from penstock.engine.core import Core
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch
from penstock.state.batch_file import StoredBatch
from penstock.state.contents import Contents
from penstock.state.output import Allocate
from penstock.zset.types import SqlType


def arrangements(core: Core) -> Iterator[tuple[str, Arrangement]]:
    """Every arrangement of the circuit, a table's rows by key among them."""
    for node in core.circuit.nodes.values():
        for i, arrangement in enumerate(node.owned):
            yield f"n{node.id}.{i}", arrangement


def bags(core: Core) -> Iterator[tuple[str, Contents]]:
    """The rows of tables without a key, and of materialized views."""
    for relation in core.catalog:
        if isinstance(relation, MaterializedView):
            yield f"r{relation.id}", relation.contents
        elif isinstance(relation, Table) and relation.bag is not None:
            yield f"r{relation.id}", relation.bag


def capture(core: Core) -> dict[str, list[Batch]]:
    """The batches of each piece of state, now. They never change, so the lists are the state."""
    slots = {name: list(arrangement.batches) for name, arrangement in arrangements(core)}
    for name, contents in bags(core):
        slots[name] = list(contents.arranged().batches)
    return slots


def types_of(core: Core) -> dict[str, Sequence[SqlType]]:
    """The column types of each piece of state."""
    types: dict[str, Sequence[SqlType]] = {n: a.layout.types for n, a in arrangements(core)}
    types.update((n, c.arranged().layout.types) for n, c in bags(core))
    return types


def attach(core: Core, slots: Mapping[str, Sequence[Batch]]) -> None:
    """Give a core that has just been restored its state."""
    missing = dict(slots)
    for name, arrangement in arrangements(core):
        arrangement.attach(missing.pop(name, ()))
    for name, contents in bags(core):
        contents.arranged().attach(missing.pop(name, ()))
    if missing:
        raise CorruptState(f"the manifest has state that the catalog does not know: {', '.join(missing)}")


def swap(core: Core, moved: Sequence[tuple[Batch, Batch]]) -> None:
    """Put batches that are files now in the place of the same batches in memory."""
    by_identity = {id(old): new for old, new in moved}
    for _, arrangement in arrangements(core):
        arrangement.swap(by_identity)
    for _, contents in bags(core):
        contents.swap(by_identity)


def compact(core: Core, progress: Callable[[int, int], None] | None = None) -> None:
    """Merge each piece of state into one batch, by its law."""
    pieces = [a for _, a in arrangements(core)] + [c.arranged() for _, c in bags(core)]
    for number, arrangement in enumerate(pieces):
        if progress is not None:
            progress(number, len(pieces))
        arrangement.compact()
    if progress is not None:
        progress(len(pieces), len(pieces))


def map_files(core: Core) -> None:
    """Open the files that tables and views consist of."""
    for relation in core.catalog.stored():
        bag = relation.contents if isinstance(relation, MaterializedView) else relation.bag
        arrangement = bag.arranged() if bag is not None else getattr(relation, "keyed", None)
        for batch in arrangement.batches if arrangement is not None else ():
            if isinstance(batch, StoredBatch):
                batch.file()


def use_scratch(core: Core, allocate: Allocate) -> None:
    """Let large merges put their rows into scratch files."""
    for _, arrangement in arrangements(core):
        arrangement.allocate = allocate
    for _, contents in bags(core):
        contents.use_scratch(allocate)


def unwritten_bytes(core: Core) -> int:
    """What the state takes in memory: all that is not in files yet."""
    parts = [a.unwritten_bytes() for _, a in arrangements(core)]
    return sum(parts) + sum([c.unwritten_bytes() for _, c in bags(core)])
