"""The schema `penstock`: what a flow knows of itself, as relations that are made when a query reads them."""

from __future__ import annotations

from penstock.engine.system.arrangements import ARRANGEMENTS
from penstock.engine.system.audit_log import AUDIT_LOG
from penstock.engine.system.batches import BATCHES
from penstock.engine.system.epochs import EPOCHS
from penstock.engine.system.freshness import FRESHNESS
from penstock.engine.system.laws import LAWS
from penstock.engine.system.relation import SCHEMA, SystemRelation
from penstock.engine.system.sessions import SESSIONS
from penstock.engine.system.tables import TABLES
from penstock.engine.system.views import VIEWS

RELATIONS: tuple[SystemRelation, ...] = (
    VIEWS,
    TABLES,
    ARRANGEMENTS,
    BATCHES,
    EPOCHS,
    LAWS,
    SESSIONS,
    AUDIT_LOG,
    FRESHNESS,
)
BY_NAME = {relation.name: relation for relation in RELATIONS}

__all__ = ["BY_NAME", "RELATIONS", "SCHEMA", "SystemRelation"]
