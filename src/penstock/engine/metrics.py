"""A flow's figures in Prometheus's text format. Nobody's lock is taken: a scrape never waits for an epoch."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.base.version import VERSION
from penstock.engine import slots
from penstock.engine.catalog import MaterializedView, Table
from penstock.engine.freshness import HEALTHY, REASONS
from penstock.engine.meter import SECONDS_BUCKETS
from penstock.state.contents import Contents

if TYPE_CHECKING:
    from penstock.engine.flow import Flow

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Sample = tuple[Mapping[str, object], float]


def metrics(flow: Flow) -> str:
    """All of them as text."""
    lines: list[str] = []
    for name, kind, about, samples in _families(flow):
        lines.append(f"# HELP {name} {about}")
        lines.append(f"# TYPE {name} {kind}")
        lines += [f"{name}{_labels(labels)} {_number(value)}" for labels, value in samples]
    lines += _histogram(flow)
    return "\n".join(lines) + "\n"


def _families(flow: Flow) -> Iterator[tuple[str, str, str, Iterable[Sample]]]:
    """Name, type, what it is, samples."""
    meter = flow.meter.count()
    yield "penstock_info", "gauge", "The version, as a label.", [({"version": VERSION}, 1)]
    yield "penstock_epoch", "gauge", "The last epoch that is visible.", [({}, flow.epoch)]
    yield "penstock_epochs_total", "counter", "Epochs of this process.", _labelled(meter.engines, "engine")
    yield "penstock_rows_in_total", "counter", "Rows of deltas of tables.", [({}, meter.rows_in_total)]
    yield "penstock_rows_out_total", "counter", "Rows of deltas of views.", [({}, meter.rows_out_total)]
    yield "penstock_statements_total", "counter", "Statements by kind.", _labelled(meter.statements, "kind")
    yield "penstock_errors_total", "counter", "Errors by SQLSTATE.", _labelled(meter.errors, "sqlstate")
    yield "penstock_sessions", "gauge", "Open sessions by state.", _sessions(flow)
    yield (
        "penstock_changes_waiting",
        "gauge",
        "Changes that are accepted and not visible.",
        [({}, len(meter.waiting))],
    )
    if flow.is_on_storage:
        epochs, seconds = _durable_lag(flow)
        yield "penstock_durable_epoch", "gauge", "The last epoch on storage.", [({}, flow.epoch - epochs)]
        yield (
            "penstock_durable_lag_epochs",
            "gauge",
            "Visible epochs that are not on storage.",
            [({}, epochs)],
        )
        yield (
            "penstock_durable_lag_seconds",
            "gauge",
            "How long the oldest of them has been visible.",
            [({}, seconds)],
        )
    yield from _state(flow)
    yield from _freshness(flow)
    yield from _process(flow)


def _labelled(counts: Mapping[str, int], label: str) -> list[Sample]:
    return [({label: key}, value) for key, value in sorted(counts.items())]


def _sessions(flow: Flow) -> list[Sample]:
    counts = {"idle": 0, "active": 0, "idle in transaction": 0}
    for session in flow.sessions():
        counts[session.state] += 1
    return _labelled(counts, "state")


def _durable_lag(flow: Flow) -> tuple[int, float]:
    durable = flow.durable_epoch
    behind = max(0, flow.epoch - durable)
    waiting = [e.visible_us for e in list(flow.meter.epochs)[-behind:] if e.epoch > durable] if behind else []
    return behind, max(0, flow.meter.clock_us() - waiting[0]) / 1_000_000 if waiting else 0.0


def _state(flow: Flow) -> Iterator[tuple[str, str, str, Iterable[Sample]]]:
    core = flow._core
    rows: list[Sample] = []
    size: list[Sample] = []
    for relation in list(core.catalog):
        if isinstance(relation, (Table, MaterializedView)):
            labels = {"name": relation.name, "kind": relation.kind}
            piece = (
                relation.contents
                if isinstance(relation, MaterializedView)
                else relation.bag or relation.keyed
            )
            assert piece is not None
            rows.append((labels, relation.row_count()))
            size.append((labels, piece.nbytes()))
    pieces = [p for _, p in slots.pieces(core) if not isinstance(p, Contents)]
    yield (
        "penstock_relation_stored_rows",
        "gauge",
        "Rows of a table or view, those that later deltas take away counted too.",
        rows,
    )
    yield "penstock_relation_bytes", "gauge", "Their bytes.", size
    yield "penstock_arrangements", "gauge", "Arrangements: the state of operators.", [({}, len(pieces))]
    yield "penstock_arrangement_rows", "gauge", "Their rows.", [({}, sum(p.rows() for p in pieces))]
    yield "penstock_arrangement_bytes", "gauge", "Their bytes.", [({}, sum(p.nbytes() for p in pieces))]


def _freshness(flow: Flow) -> Iterator[tuple[str, str, str, Iterable[Sample]]]:
    found = flow.freshness()
    yield (
        "penstock_view_lag_seconds",
        "gauge",
        "The age of the oldest change that a view does not show.",
        [({"view": f.view}, f.lag_s) for f in found],
    )
    yield (
        "penstock_view_target_seconds",
        "gauge",
        "The freshness that a view was made with.",
        [({"view": f.view}, f.target_s) for f in found if f.target_s is not None],
    )
    yield (
        "penstock_view_compliance",
        "gauge",
        "The share of five minutes in which a view met its target.",
        [({"view": f.view}, f.compliance) for f in found if f.compliance is not None],
    )
    yield (
        "penstock_view_state",
        "gauge",
        "1 for the reason that holds: docs/freshness.md.",
        [
            ({"view": f.view, "reason": reason}, float(f.reason == reason))
            for f in found
            for reason in (HEALTHY, *REASONS)
        ],
    )


def _process(flow: Flow) -> Iterator[tuple[str, str, str, Iterable[Sample]]]:
    resident = resident_bytes()
    if resident is not None:
        yield "process_resident_memory_bytes", "gauge", "Memory of the process.", [({}, resident)]
    yield "process_cpu_seconds_total", "counter", "Its processor time.", [({}, time.process_time())]
    yield (
        "penstock_opened_time_seconds",
        "gauge",
        "When the flow was opened, since 1970.",
        [({}, flow.meter.opened_us / 1_000_000)],
    )


def resident_bytes() -> int | None:
    """What the process takes in memory, where the operating system says it."""
    if not sys.platform.startswith("linux"):
        return None
    status = Path("/proc/self/status").read_text()
    line = next((line for line in status.splitlines() if line.startswith("VmRSS:")), None)
    return None if line is None else int(line.split()[1]) * 1024


def _histogram(flow: Flow) -> list[str]:
    name = "penstock_tick_seconds"
    meter = flow.meter.count()
    lines = [
        f"# HELP {name} From the acceptance of a change until it is visible.",
        f"# TYPE {name} histogram",
    ]
    total = 0
    counts = list(meter.seconds_counts)
    for bound, count in zip((*SECONDS_BUCKETS, float("inf")), counts, strict=True):
        total += count
        lines.append(f'{name}_bucket{{le="{_number(bound)}"}} {total}')
    return [*lines, f"{name}_sum {_number(meter.seconds_sum)}", f"{name}_count {total}"]


def _labels(labels: Mapping[str, object]) -> str:
    r"""
    >>> _labels({"view": 'a "b"\n'}), _labels({})
    ('{view="a \\"b\\"\\n"}', '')
    """
    if not labels:
        return ""
    pairs = [f'{name}="{_escaped(str(value))}"' for name, value in labels.items()]
    return "{" + ",".join(pairs) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(float(value))
