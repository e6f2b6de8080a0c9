"""PYTHONPATH=tests python -m gateway.record_transcripts: hold the dialogues with a real PostgreSQL, and write them down.

With --ours: hold them with penstock, and print how its answers differ, in the form of differences.txt.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

from gateway.transcript import DIALOGUES, Dialogue, Server, compared, read
from penstock import Flow
from penstock.gateway.background import serving
from postgres import Postgres

HEAD = """What PostgreSQL {version} answered, recorded by: PYTHONPATH=tests python -m gateway.record_transcripts
transcript.py says what the lines mean. To add a dialogue write its ! and > lines here, and record them all again.
"""


def postgres_server(postgres: Postgres) -> Server:
    parts = urlsplit(postgres.server.get_uri())
    folder = parse_qs(parts.query)["host"][0]
    return Server(f"{folder}/.s.PGSQL.5432", parts.username or "postgres", parts.path.lstrip("/"))


@contextmanager
def penstock_server() -> Iterator[Callable[[Dialogue], list[str]]]:
    """Gives a dialogue's lines with our answers; each finds an empty flow."""
    with Flow() as flow, serving(flow) as url:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        server = Server((parts.hostname, parts.port), "penstock", "penstock")

        def answers(dialogue: Dialogue) -> list[str]:
            for name, kind in zip(*flow.sql("SHOW TABLES").to_pydict().values(), strict=True):
                flow.sql(f'DROP {kind} "{name}" CASCADE')
            return server.hold(dialogue)

        yield answers


def difference(recorded: Sequence[str], ours: Sequence[str]) -> list[str]:
    """Lines of theirs that we do not have (-), and of ours that they do not have (+)."""
    before, after = [compared(x) for x in recorded], [compared(x) for x in ours]
    found = difflib.ndiff(before, after)
    return [line[0] + line[3:] for line in found if line[0] in "+-"]


def record() -> None:
    postgres = Postgres()
    try:
        server = postgres_server(postgres)
        row = postgres.connection.execute("SHOW server_version").fetchone()
        assert row is not None
        parts = [HEAD.format(version=row[0])]
        for dialogue in read():
            postgres.execute("DROP SCHEMA public CASCADE")
            postgres.execute("CREATE SCHEMA public")
            lines = server.hold(dialogue)
            setup = [f"! {sql}" for sql in dialogue.setup]
            parts.append("\n".join([f"== {dialogue.name}", *dialogue.notes, *setup, *lines]) + "\n")
        DIALOGUES.write_text("\n".join(parts), encoding="utf-8")
    finally:
        postgres.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--ours", action="store_true", help="print the differences of penstock's answers instead"
    )
    parser.add_argument("names", nargs="*", help="only the dialogues whose names contain one of these")
    options = parser.parse_args()
    if not options.ours:
        record()
        return
    with penstock_server() as answers:
        for dialogue in read():
            if options.names and not any(name in dialogue.name for name in options.names):
                continue
            found = difference(dialogue.lines, answers(dialogue))
            if found:
                print("\n".join([f"== {dialogue.name}", *found, ""]))


if __name__ == "__main__":
    main()
