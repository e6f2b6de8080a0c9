"""The side of a session that knows what its role may do."""

from __future__ import annotations

from penstock.base.errors import InsufficientPrivilege
from penstock.engine.access import Access
from penstock.engine.rights import require
from penstock.engine.session_parts import SessionParts


class RightsSide(SessionParts):
    """For those who do something in another way than by a statement, which is checked by itself."""

    def access(self) -> Access:
        """Roles, owners and grants, as they are now."""
        return self._flow.access()

    @property
    def is_superuser(self) -> bool:
        return self.role is None or self.access().is_superuser(self.role)

    def check(self, action: str, name: str) -> None:
        """Raise InsufficientPrivilege unless this session's role may do something ("select", "insert", ...) with
        a relation: for those who do it in another way than by a statement."""
        with self._flow._lock:
            catalog = self._flow._core.catalog
            relation = catalog.find(name)
            if relation is not None:
                require(catalog.access, self.role, action, relation)

    def may_read(self, name: str) -> bool:
        """Whether this session's role may know what a relation holds; True where there is none of that name."""
        catalog = self._flow._core.catalog
        relation = catalog.find(name)
        try:
            if relation is not None:
                require(catalog.access, self.role, "select", relation)
        except InsufficientPrivilege:
            return False
        return True
