"""Roles and rights as JSON, and back: a part of the stored catalog. Of passwords there are verifiers only."""

from __future__ import annotations

from typing import Any

from penstock.engine.access import Access, Role


def write_access(access: Access) -> dict[str, Any]:
    """
    >>> access = Access().granted(3, "ann", frozenset({"select"})).owned_by(3, "bob")
    >>> read_access(write_access(access)) == access
    True
    """
    return {
        "roles": [
            {
                "name": role.name,
                "login": role.login,
                "superuser": role.superuser,
                "verifier": role.verifier,
                "member_of": sorted(role.member_of),
            }
            for role in access.roles.values()
        ],
        "owners": [[object, role] for object, role in sorted(access.owners.items())],
        "grants": [
            [object, role, sorted(privileges)]
            for object, given in sorted(access.grants.items())
            for role, privileges in sorted(given.items())
        ],
    }


def read_access(written: dict[str, Any]) -> Access:
    roles = [Role(**{**item, "member_of": frozenset(item["member_of"])}) for item in written["roles"]]
    grants: dict[int, dict[str, frozenset[str]]] = {}
    for object, role, privileges in written["grants"]:
        grants.setdefault(object, {})[role] = frozenset(privileges)
    return Access({role.name: role for role in roles}, dict(written["owners"]), grants)
