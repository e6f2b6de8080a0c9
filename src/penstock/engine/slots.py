"""The pieces of state of a flow, by name: what a manifest lists and recovery puts back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.base.errors import CorruptState
from penstock.commit.flusher import Fresh
from penstock.engine.catalog import MaterializedView, Table
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch
from penstock.state.batch_file import StoredBatch
from penstock.state.contents import Contents
from penstock.zset.types import SqlType

if TYPE_CHECKING:
    from penstock.engine.core import Core

Piece = Arrangement | Contents


def pieces(core: Core) -> Iterator[tuple[str, Piece]]:
    """Every arrangement of the circuit (a table's rows by key among them), the rows of tables without a
    key, and those of materialized views."""
    for node in list(core.circuit.nodes.values()):  # lists: metrics are gathered without the flow's lock
        for i, arrangement in enumerate(node.owned):
            yield f"n{node.id}.{i}", arrangement
    for relation in list(core.catalog):
        if isinstance(relation, MaterializedView):
            yield f"r{relation.id}", relation.contents
        elif isinstance(relation, Table) and relation.bag is not None:
            yield f"r{relation.id}", relation.bag


def capture(core: Core) -> dict[str, Fresh]:
    """What storage does not have of each piece of state."""
    return {
        name: Fresh(piece.layout, is_new=not piece.is_kept, parts=piece.take_fresh())
        for name, piece in pieces(core)
    }


def types_of(core: Core) -> dict[str, Sequence[SqlType]]:
    """The column types of each piece of state."""
    return {name: piece.layout.types for name, piece in pieces(core)}


def attach(core: Core, slots: Mapping[str, Sequence[Batch]], kept: bool) -> None:
    """Give a core that has just been restored its state; `kept` says whether it will be written on."""
    missing = dict(slots)
    for name, piece in pieces(core):
        piece.attach(missing.pop(name, ()), kept)
    if missing:
        raise CorruptState(f"the manifest has state that the catalog does not know: {', '.join(missing)}")


def rebase(core: Core, runs: Mapping[str, Sequence[Batch]]) -> None:
    """Go on with the batches that storage has made of what it was given."""
    for name, piece in pieces(core):
        if name in runs:
            piece.rebase(runs[name])


def compact(core: Core, progress: Callable[[int, int], None] | None = None) -> None:
    """Merge each piece of state into one batch, by its law."""
    found = [piece for _, piece in pieces(core)]
    for number, piece in enumerate(found):
        if progress is not None:
            progress(number, len(found))
        piece.compact()
    if progress is not None:
        progress(len(found), len(found))


def fresh_bytes(core: Core) -> int:
    """What the state takes in memory that is not on its way to storage yet."""
    return sum([piece.fresh_bytes() for _, piece in pieces(core)])


def map_files(core: Core) -> None:
    """Open the files that tables and views consist of."""
    for relation in core.catalog.stored():
        bag = relation.contents if isinstance(relation, MaterializedView) else relation.bag
        arrangement = bag.arranged() if bag is not None else getattr(relation, "keyed", None)
        for batch in arrangement.batches if arrangement is not None else ():
            if isinstance(batch, StoredBatch):
                batch.file()
