"""Statements about roles and rights, as the parser gives them. Names of roles are folded as Postgres folds them."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.sql.statements import Statement


@dataclass(frozen=True)
class RoleOptions:
    """What CREATE and ALTER ROLE say; None where they do not. `clears_password` is PASSWORD NULL."""

    login: bool | None = None
    superuser: bool | None = None
    password: str | None = None
    clears_password: bool = False

    def __repr__(self) -> str:  # passwords stand in no message and no log
        return f"RoleOptions(login={self.login}, superuser={self.superuser})"


@dataclass(frozen=True)
class CreateRole(Statement):
    """`CREATE ROLE ann LOGIN PASSWORD '...' IN ROLE readers`; CREATE USER is one with LOGIN."""

    name: str
    options: RoleOptions
    member_of: tuple[str, ...]


@dataclass(frozen=True)
class AlterRole(Statement):
    """`ALTER ROLE ann PASSWORD NULL`"""

    name: str
    options: RoleOptions


@dataclass(frozen=True)
class DropRole(Statement):
    """`DROP ROLE IF EXISTS a, b`"""

    names: tuple[str, ...]
    if_exists: bool


@dataclass(frozen=True)
class Rights(Statement):
    """`GRANT SELECT ON t TO ann`, `REVOKE ALL ON ALL TABLES IN SCHEMA public FROM PUBLIC`.

    `privileges` is None for ALL; `on` is "relations", "all relations" or "schema"; `names` are relations.
    """

    gives: bool
    privileges: tuple[str, ...] | None
    on: str
    names: tuple[str, ...]
    roles: tuple[str, ...]


@dataclass(frozen=True)
class Membership(Statement):
    """`GRANT readers TO ann`, `REVOKE readers FROM ann`"""

    gives: bool
    roles: tuple[str, ...]
    members: tuple[str, ...]


@dataclass(frozen=True)
class ReassignOwned(Statement):
    """`REASSIGN OWNED BY ann TO bob`"""

    owners: tuple[str, ...]
    to: str


AccessStatement = CreateRole | AlterRole | DropRole | Rights | Membership | ReassignOwned
ACCESS_STATEMENTS = (CreateRole, AlterRole, DropRole, Rights, Membership, ReassignOwned)
