"""From receipts to an epoch: the batches to append to each piece of state, and the relations' deltas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.base.errors import PenstockError
from penstock.run.packet import unpack_delta
from penstock.run.receipt import Appended, Failed, Receipt, Worked
from penstock.state.batch import Batch, Layout, build, merge
from penstock.state.batch_file import FileRef
from penstock.state.scattered import Rows, Scattered
from penstock.zset.types import SqlType
from penstock.zset.zset import ZSet, union

OpenFile = Callable[[FileRef, Sequence[SqlType]], Batch]


@dataclass
class Outcome:
    """What the tasks of an epoch did together."""

    appended: dict[str, list[Batch]] = field(default_factory=dict)  # by piece of state, in order of hash
    relations: dict[str, Rows] = field(default_factory=dict)
    worked: list[Worked] = field(default_factory=list)

    @property
    def rows_read(self) -> int:
        """Rows that tasks took from DataFrames, whatever came of them."""
        return sum(work.rows_read for work in self.worked)


def assemble(
    receipts: Iterable[Receipt],
    layouts: Mapping[str, Layout],
    types: Mapping[str, Sequence[SqlType]],
    open: OpenFile,
) -> Outcome:
    """Put receipts together, or raise what made a task fail."""
    parts: dict[str, list[Appended]] = {}
    outcome = Outcome()
    failed: list[Failed] = []
    for found in receipts:
        if isinstance(found, Appended):
            parts.setdefault(found.of, []).append(found)
        elif isinstance(found, Failed):
            failed.append(found)
        else:
            outcome.worked.append(found)
    if failed:
        raise _error(failed)
    for name, appended in parts.items():
        appended.sort(key=lambda a: a.partition)
        if name in types:
            outcome.relations[name] = _rows(appended, types[name], open)
        else:
            outcome.appended[name] = _batches(appended, layouts[name], open)
    return outcome


def _error(failed: Sequence[Failed]) -> PenstockError:
    """Of several failures the one that a run in one place would meet first, as far as that is known."""
    first = min(failed, key=lambda f: (f.node is not None, f.node or 0, f.partition))
    first.error.node = first.node
    return first.error


def _batches(appended: Sequence[Appended], layout: Layout, open: OpenFile) -> list[Batch]:
    """Files as they are, and what came with the receipts as one batch."""
    small = [unpack_delta(a.part, layout.types) for a in appended if isinstance(a.part, bytes)]
    batches = [open(a.part, layout.types) for a in appended if isinstance(a.part, FileRef)]
    if small:
        found = [b for b in small if isinstance(b, Batch)]
        batches.append(found[0] if len(found) == 1 else merge(layout, found))
    return batches


def _rows(appended: Sequence[Appended], types: Sequence[SqlType], open: OpenFile) -> Rows:
    """A relation's delta: rows, or files and a batch of what was too little for one."""
    small = [unpack_delta(a.part, types) for a in appended if isinstance(a.part, bytes)]
    rows = [d.zset() if isinstance(d, Batch) else d for d in small]
    files = [open(a.part, types) for a in appended if isinstance(a.part, FileRef)]
    if not files:
        return union(rows)
    if rows:
        files.append(_arranged(union(rows), types))
    return Scattered(files)


def _arranged(rows: ZSet, types: Sequence[SqlType]) -> Batch:
    return build(Layout(tuple(types), tuple(range(len(types)))), rows.columns, (rows.weights,))
