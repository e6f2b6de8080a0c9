"""Rules that rewrite plans: one rule, one file, one function from plan to plan, applied in this order."""

from __future__ import annotations

from collections.abc import Callable

from penstock.plan.nodes import Node
from penstock.plan.rules.drop_domains import drop_domains
from penstock.plan.rules.drop_semi_joins import drop_semi_joins
from penstock.plan.rules.factor_disjunctions import factor_disjunctions
from penstock.plan.rules.flatten_joins import flatten_joins
from penstock.plan.rules.group_intervals import group_intervals
from penstock.plan.rules.lift_projects import lift_projects
from penstock.plan.rules.mark_to_semi import mark_to_semi
from penstock.plan.rules.merge_projects import merge_projects
from penstock.plan.rules.name_columns import name_columns
from penstock.plan.rules.prune_columns import prune_columns
from penstock.plan.rules.push_filters import push_filters
from penstock.plan.rules.push_semi_joins import push_semi_joins
from penstock.plan.rules.simplify import simplify
from penstock.plan.rules.single_to_left import single_to_left
from penstock.plan.rules.threshold_to_semi import threshold_to_semi

RULES: tuple[Callable[[Node], Node], ...] = (
    merge_projects,
    simplify,
    merge_projects,
    mark_to_semi,  # of marks that stand right under their filter, which the next two want to see
    drop_domains,
    drop_semi_joins,
    single_to_left,
    factor_disjunctions,
    push_filters,
    mark_to_semi,
    prune_columns,
    merge_projects,
    push_semi_joins,
    lift_projects,
    flatten_joins,
    prune_columns,
    simplify,
    merge_projects,
    threshold_to_semi,
    group_intervals,
    name_columns,
)
