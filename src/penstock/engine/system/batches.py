"""penstock.batches: the immutable runs that state consists of, and where each is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.commit.manifest import ChunkRef
from penstock.engine import slots
from penstock.engine.system.relation import SystemRelation
from penstock.state.batch_file import FileRef
from penstock.state.contents import Contents

if TYPE_CHECKING:
    from penstock.engine.flow import Flow


def _rows(flow: Flow) -> Iterator[tuple[Any, ...]]:
    for slot, piece in slots.pieces(flow._core):
        arrangement = piece.arranged() if isinstance(piece, Contents) else piece
        for number, batch in enumerate(arrangement.batches):
            ref = batch.ref
            if isinstance(ref, FileRef):
                yield slot, number, len(batch), ref.bytes, "file", ref.name
            elif isinstance(ref, ChunkRef):
                yield slot, number, len(batch), ref.bytes, "chunk", str(ref.number)
            else:
                yield slot, number, len(batch), batch.nbytes(), "memory", None


BATCHES = SystemRelation(
    "batches",
    "the immutable batches that state consists of",
    (
        ("slot", "VARCHAR"),  # as in penstock.arrangements
        ("number", "BIGINT"),  # 0 is the oldest
        ("rows", "BIGINT"),
        ("bytes", "BIGINT"),
        ("place", "VARCHAR"),  # file, chunk (in the database), or memory: not written down yet
        ("object", "VARCHAR"),  # the name of the file, or the number of the chunk
    ),
    _rows,
)
