"""Freshness of views: how far behind the accepted changes they are, and if they are late, why.

At an instant a view's *lag* is the age of the oldest accepted change of its tables that it does not show yet; zero
if it shows all of them. A view with the target t is *late* while its lag is beyond t. *Compliance* is the share of
the last five minutes (or since the view was made, or the flow opened) in which it was not late. docs/freshness.md
says what each reason means.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.base.limits import FRESHNESS_HEALTHY_SHARE, FRESHNESS_WINDOW_SECONDS
from penstock.engine.catalog import Catalog, MaterializedView, Table, View
from penstock.engine.meter import Meter, Span, bucket_us
from penstock.sql.tokens import fold

HEALTHY = "HEALTHY"
# Of several reasons at once the first is given: it is the one to deal with.
REASONS = ("BLOCKED", "RECOVERING", "REPLACING", "BUILDING", "PAUSED", "THROTTLED", "BACKFILLING", "STRESSED")


@dataclass(frozen=True)
class Freshness:
    """One view at one instant. Times are in seconds; None where there is nothing to say."""

    view: str
    target_s: float | None
    lag_s: float
    p50_s: float | None  # of the changes that became visible in the window, to an eighth
    p99_s: float | None
    compliance: float | None  # None: no target
    window_s: float
    reason: str


def freshness(catalog: Catalog, meter: Meter, blocked_us: int | None) -> list[Freshness]:
    """All materialized views, and those that are being made. `blocked_us`: since when storage or the flow fails."""
    now = meter.clock_us()
    relations = list(catalog)
    by_name = {fold(r.name): r for r in relations}
    found = []
    for view in relations:
        if isinstance(view, MaterializedView):
            tables = _tables(view, by_name)
            found.append(_one(view.name, view.freshness_s, tables, view.made_us, meter, now, blocked_us))
    shown = {f.view for f in found}
    for name, (span, target_s) in list(meter.building.items()):
        if name not in shown:
            found.append(_one(name, target_s, frozenset(), span.start_us, meter, now, blocked_us))
    return sorted(found, key=lambda f: f.view)


def _tables(view: MaterializedView, by_name: dict[str, Table | View | MaterializedView]) -> frozenset[str]:
    """The base tables of a view, through the views that it is built on."""
    tables: set[str] = set()
    waiting, seen = [*view.depends], set(view.depends)
    while waiting:
        relation = by_name.get(waiting.pop())
        if isinstance(relation, Table):
            tables.add(fold(relation.name))
        elif relation is not None:
            fresh = relation.depends - seen
            seen |= fresh
            waiting += fresh
    return frozenset(tables)


def _one(
    name: str,
    target_s: float | None,
    tables: frozenset[str],
    made_us: int | None,
    meter: Meter,
    now: int,
    blocked_us: int | None,
) -> Freshness:
    window = now - FRESHNESS_WINDOW_SECONDS * 1_000_000
    begin = max(window, meter.opened_us, made_us or 0)
    late = list(meter.late)
    if late and len(late) == meter.late.maxlen:
        begin = max(begin, late[0].end_us)  # what came before it is not known any more
    open_spans = _open_spans(name, meter, blocked_us)
    present = [s for s in open_spans if _concerns(s, name, tables)]
    past = [s for s in late if s.end_us > begin and _concerns(s, name, tables)]
    lag_us = max([now - s.start_us for s in present], default=0)
    lags = meter.lags(tables, now)
    compliance, cause = None, HEALTHY
    if target_s is not None:
        target_us = int(target_s * 1_000_000)
        spans = [*past, *[Span(s.start_us, now, s.cause) for s in present]]
        lost = _lost(spans, target_us, begin, now)
        compliance = 1.0 - sum(lost.values()) / max(1, now - begin) if lost else 1.0
        if compliance < FRESHNESS_HEALTHY_SHARE:
            cause = max(lost, key=lambda c: (lost[c], -REASONS.index(c)))
    return Freshness(
        name,
        target_s,
        lag_us / 1_000_000,
        _quantile(lags, 0.5),
        _quantile(lags, 0.99),
        compliance,
        (now - begin) / 1_000_000,
        _present_reason(present, target_s, now) or cause,
    )


def _open_spans(name: str, meter: Meter, blocked_us: int | None) -> list[Span]:
    """What keeps changes from being visible at this instant."""
    spans = [change.span() for change in list(meter.waiting)]
    spans += [span for view, (span, _) in list(meter.building.items()) if view == name]
    spans += [Span(since, 0, cause) for cause, since in list(meter.states.items())]
    if blocked_us is not None:
        spans.append(Span(blocked_us, 0, "BLOCKED"))
    return spans


def _concerns(span: Span, name: str, tables: frozenset[str]) -> bool:
    if span.view is not None:
        return span.view == name
    return span.tables is None or not tables.isdisjoint(span.tables)


def _present_reason(present: Sequence[Span], target_s: float | None, now: int) -> str | None:
    """The first of the reasons that hold now. That changes wait is one only when they wait for too long."""
    target_us = None if target_s is None else int(target_s * 1_000_000)
    causes = {
        s.cause
        for s in present
        if s.cause != "STRESSED" or (target_us is not None and now - s.start_us > target_us)
    }
    return next((reason for reason in REASONS if reason in causes), None)


def _lost(spans: Iterable[Span], target_us: int, begin: int, end: int) -> dict[str, int]:
    """The microseconds in which the view was late, by cause; where spans overlap, the earlier one's.

    >>> _lost([Span(0, 50, "STRESSED"), Span(20, 60, "THROTTLED"), Span(90, 95, "STRESSED")], 10, 0, 100)
    {'STRESSED': 40, 'THROTTLED': 10}
    """
    lost: Counter[str] = Counter()
    at = begin
    for span in sorted(spans, key=lambda s: s.start_us):
        first, last = max(at, span.start_us + target_us), min(end, span.end_us)
        if last > first:
            lost[span.cause] += last - first
            at = last
    return dict(lost)


def _quantile(lags: Counter[int], share: float) -> float | None:
    """The lag that this share of the changes did not exceed."""
    total = sum(lags.values())
    if not total:
        return None
    seen = 0
    for place in sorted(lags):
        seen += lags[place]
        if seen >= share * total:
            return bucket_us(place) / 1_000_000
    raise AssertionError("shares are below one")
