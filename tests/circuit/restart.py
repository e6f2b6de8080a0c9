"""A restart without storage: the catalog through its JSON into a new core, batches over by position."""

from __future__ import annotations

from typing import Any

import penstock
from penstock.engine.catalog import MaterializedView, Table
from penstock.engine.catalog_codec import encode_catalog, restore_catalog
from penstock.engine.core import Core
from penstock.plan.codec import from_bytes, to_bytes
from penstock.state.contents import Contents
from tests.circuit.same import same_circuit, same_registry


def restored(core: Core) -> Core:
    """A second core with the same relations, circuit and rows; fails if any of it is not the same."""
    data = to_bytes(encode_catalog(core))
    made = Core(core._share)
    restore_catalog(made, from_bytes(data))
    assert same_circuit(core.circuit, made.circuit)
    assert same_registry(core.registry, made.registry)
    assert to_bytes(encode_catalog(made)) == data
    copy_state(core, made)
    return made


def copy_state(core: Core, made: Core) -> None:
    for old, new in zip(core.circuit.nodes.values(), made.circuit.nodes.values(), strict=True):
        for a, b in zip(old.owned, new.owned, strict=True):
            b.attach(a.batches, kept=False)
    for one, other in zip(core.catalog, made.catalog, strict=True):
        assert type(one) is type(other)
        if isinstance(one, Table) and isinstance(other, Table) and one.bag is not None:
            _copy(one.bag, other.bag)
        if isinstance(one, MaterializedView) and isinstance(other, MaterializedView):
            _copy(one.contents, other.contents)
    made.epoch = core.epoch


def _copy(old: Contents, new: Contents | None) -> None:
    assert new is not None
    assert old.name == new.name
    new._arrangement.attach(old.arranged().batches, kept=False)


def twin(flow: penstock.Flow) -> penstock.Flow:
    """A second flow that goes on from where this one is."""
    made = penstock.Flow(share_arrangements=flow._core._share)
    made._core.close()
    made._core = restored(flow._core)
    return made


class RestartingFlow(penstock.Flow):
    """A flow that restarts between its statements and ticks: often at first, then at growing distances."""

    calls = 0
    next_restart = 2

    def restart(self) -> None:
        self.calls += 1
        if self.calls >= self.next_restart and self._session.transaction is None and not self._closed:
            self.next_restart = self.calls * 3 // 2 + 1
            old, self._core = self._core, restored(self._core)
            old.close()

    def sql(self, sql: str) -> Any:
        self.restart()
        return super().sql(sql)

    def tick(self, *args: Any, **options: Any) -> Any:
        self.restart()
        return super().tick(*args, **options)
