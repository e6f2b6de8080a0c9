"""Semi, anti and mark joins move below an inner join to the only input that they test.

Their left side then is one table and not the joined rows, so there is less to keep: unless the join
itself leaves few of the table's rows, which a filter on its other side is taken as a sign of.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.plan import tree
from penstock.plan.expr import Col, columns_of
from penstock.plan.nodes import Filter, Join, Node, Project, identity


def push_semi_joins(root: Node) -> Node:
    """Each semi, anti or mark join as low as it can go on its left side, not into what is shared."""
    return _Pusher(root).visit(root)


class _Pusher:
    def __init__(self, root: Node) -> None:
        self.parents = tree.parents(root)
        self.done: dict[int, tuple[Node, Node]] = {}

    def visit(self, node: Node) -> Node:
        found = self.done.get(id(node))
        if found is None:
            pushed = self.push(node) if isinstance(node, Join) else node
            result = tree.with_inputs(pushed, [self.visit(i) for i in pushed.inputs])
            found = self.done[id(node)] = (node, result)
        return found[1]

    def push(self, node: Join) -> Node:
        left = node.left
        if node.kind not in ("semi", "anti", "mark") or self.parents.get(id(left), 0) > 1:
            return node
        if isinstance(left, Project) and all(isinstance(left.exprs[c], Col) for c in _used(node)):
            return self.below_project(node, left)
        if isinstance(left, Filter):
            return self.below_filter(node, left)
        if isinstance(left, Join) and left.kind in ("inner", "left", "single"):
            return self.below_join(node, left)
        if isinstance(left, Join) and left.kind in ("semi", "anti") and node.kind != "mark":
            below = self.push(replace(node, left=left.left))
            return node if isinstance(below, Join) and below.left is left.left else replace(left, left=below)
        return node

    def moved(self, node: Join, left: Node, places: dict[int, int]) -> Node:
        """The join over another left side, where its columns stand at other places."""
        old, new = tree.width(node.left), tree.width(left)
        places = places | {old + c: new + c for c in range(tree.width(node.right))}
        return self.push(
            replace(
                node,
                left=left,
                keys=tuple(replace(k, left=places[k.left]) for k in node.keys),
                residual=None if node.residual is None else tree.remap(node.residual, places),
                marks=tuple(tree.remap(m, places) for m in node.marks),
            )
        )

    def below_project(self, node: Join, left: Project) -> Node:
        places = {c: e.index for c, e in enumerate(left.exprs) if isinstance(e, Col)}
        below = self.moved(node, left.input, places)
        mark = [tree.column(below, tree.width(below) - 1)] if node.kind == "mark" else []
        return tree.project(below, [*left.exprs, *mark])

    def below_filter(self, node: Join, left: Filter) -> Node:
        """Only where there is a join to go under: below a filter there are more rows to look at."""
        below = self.push(replace(node, left=left.input))
        if isinstance(below, Join) and below.left is left.input:
            return node
        return tree.filtered(below, [left.predicate])

    def below_join(self, node: Join, left: Join) -> Node:
        count = tree.width(left.left)
        used = _used(node)
        if left.kind == "inner" and used:
            other = left.right if max(used) < count else left.left
            if any(
                isinstance(n, Filter) or (isinstance(n, Join) and n.kind in ("semi", "anti"))
                for n in tree.walk(other)
            ):
                return node
        if used and max(used) < count:
            below = self.moved(node, left.left, {c: c for c in range(count)})
            joined, mark = _rejoined(left, below, left.right), count
        elif used and min(used) >= count and left.kind == "inner":
            below = self.moved(node, left.right, {c: c - count for c in range(count, tree.width(left))})
            joined, mark = _rejoined(left, left.left, below), tree.width(left)
        else:
            return node
        if node.kind != "mark":
            return joined
        columns = [c for c in identity(joined) if isinstance(c, Col) and c.index != mark]
        return tree.project(joined, [*columns, tree.column(joined, mark)])


def _used(node: Join) -> set[int]:
    """The left's columns that the join looks at."""
    count = tree.width(node.left)
    found = {k.left for k in node.keys}
    for expr in tree.expressions(node):
        found |= {c for c in columns_of(expr) if c < count}
    return found


def _rejoined(old: Join, left: Node, right: Node) -> Join:
    """The join over sides that may have one more column at their end."""
    a, b = tree.width(old.left), tree.width(left)
    residual = old.residual
    if residual is not None and a != b:
        residual = tree.remap(
            residual, {c: c if c < a else c + b - a for c in range(a + tree.width(old.right))}
        )
    return replace(old, left=left, right=right, residual=residual)
