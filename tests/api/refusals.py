"""What a flow and PostgreSQL say of a statement that they refuse."""

from __future__ import annotations

import psycopg
import pytest

import penstock
from penstock.base.errors import PenstockError
from postgres import Postgres


def refused(flow: penstock.Flow, statement: str) -> PenstockError:
    with pytest.raises(PenstockError) as caught:
        flow.sql(statement)
    return caught.value


def refused_by_postgres(server: Postgres, statement: str) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as caught:
        server.execute(statement)
    return caught.value
