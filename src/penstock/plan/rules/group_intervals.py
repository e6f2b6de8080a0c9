"""DISTINCT of intervals goes by how long they are: a month, 30 days and 720 hours are equal, though not the same."""

from __future__ import annotations

from penstock.plan import tree
from penstock.plan.expr import Call, Col
from penstock.plan.nodes import Agg, Aggregate, Distinct, Node, Project, identity
from penstock.zset.types import INTERVAL


def group_intervals(root: Node) -> Node:
    """Distinct rows with intervals among them are groups, by the intervals in normal form, with one of each."""
    return tree.transform_up(root, _change)


def _change(node: Node) -> Node:
    if not isinstance(node, Distinct) or INTERVAL not in node.schema.types:
        return node
    names, types = node.schema.names, node.schema.types
    intervals = [place for place, type in enumerate(types) if type == INTERVAL]
    others = [place for place, type in enumerate(types) if type != INTERVAL]
    normal = [Call(INTERVAL, "normalized_interval", (Col(INTERVAL, place),)) for place in intervals]
    rows = Project(node.input, (*identity(node.input), *normal), (*names, *(names[i] for i in intervals)))
    keys = (*others, *range(len(types), len(types) + len(intervals)))
    chosen = tuple([Agg("first", Col(INTERVAL, place), INTERVAL) for place in intervals])
    key_names = [rows.schema.names[key] for key in keys]
    groups = Aggregate(rows, keys, chosen, (*key_names, *(names[i] for i in intervals)))
    found = {place: others.index(place) for place in others}
    found |= {place: len(keys) + i for i, place in enumerate(intervals)}
    return Project(groups, tuple([Col(type, found[place]) for place, type in enumerate(types)]), names)
