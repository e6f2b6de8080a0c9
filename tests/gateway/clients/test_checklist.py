"""Every client shows every item, or says why it cannot; and the table in the documentation is that one."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.clients.checklist import CLIENTS, ITEMS, Client, table

FOLDER = Path(__file__).parent
DOCUMENT = FOLDER.parents[2] / "docs" / "server.md"
NO_CLIENTS = {"test_checklist.py", "test_bring_pgjdbc.py"}


@pytest.mark.parametrize("item", ITEMS)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_each_item_is_shown_or_explained(client: Client, item: str) -> None:
    reason = client.cannot.get(item)
    if reason is None:
        assert item in client.shown, f"{client.file} has no test_{item}, and no reason in CANNOT"
    else:
        assert item not in client.shown, f"{client.file} shows what it says that it cannot"
        assert len(reason.split()) > 4, "a reason is a sentence"


def test_every_file_is_of_a_client() -> None:
    assert {path.name for path in FOLDER.glob("test_*.py")} - NO_CLIENTS == {
        client.file for client in CLIENTS
    }
    assert all(set(client.cannot) <= set(ITEMS) for client in CLIENTS)


def test_the_documentation_has_the_table() -> None:
    assert table() in DOCUMENT.read_text(encoding="utf-8")
