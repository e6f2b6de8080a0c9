"""What to send along with a report of a problem: everything about a flow except its rows.

A part is the name of a file and its text. Rows are in none of them: definitions, counts, sizes, names and times are.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from importlib import metadata
from typing import Any

from penstock.base import limits
from penstock.base.version import VERSION
from penstock.engine.catalog import MaterializedView, Relation, Table, View
from penstock.engine.explain import explain_in
from penstock.engine.inspect import inspect
from penstock.engine.metrics import resident_bytes
from penstock.engine.offline import offline
from penstock.store.location import Location

Parts = dict[str, str]
_PACKAGES = ("duckdb", "numpy", "obstore", "pyarrow", "rich", "slatedb", "xxhash", "pyspark")
# Variables of which it is worth knowing whether they are set. Their values stay here.
_VARIABLES = re.compile(r"(AWS|AZURE|GOOGLE|PENSTOCK|SPARK|JAVA|OMP|ARROW|PYTHON)[A-Z0-9_]*")


def of_machine() -> Parts:
    """Versions, limits, and what the machine is like; no values of environment variables."""
    packages = {name: _version(name) for name in _PACKAGES}
    versions = {"penstock": VERSION, "python": sys.version, **{n: v for n, v in packages.items() if v}}
    machine = {
        "platform": platform.platform(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "memory_of_this_process_bytes": resident_bytes(),
        "variables_that_are_set": sorted(n for n in os.environ if _VARIABLES.fullmatch(n)),
    }
    known = {n: v for n, v in vars(limits).items() if n.isupper() and isinstance(v, (int, float))}
    return {"versions.json": _json(versions), "environment.json": _json(machine), "limits.json": _json(known)}


def of_storage(location: Location) -> Parts:
    """What is on storage of a flow, read beside its writer."""
    found = inspect(location)
    parts = {"storage.json": _json(asdict(found))}
    with offline(location) as flow:
        core = flow.core
        parts["catalog.json"] = _json([dict(_about(r)) for r in core.catalog])
        parts["manifest.json"] = _json(json.loads(_manifest_text(flow.manifest)))
        for number, view in enumerate(core.catalog.materialized()):
            parts[explain_name(number, view.name)] = explain_in(core, view) + "\n"
        entries = [asdict(e) for e in core.audit.entries()]
        parts["audit_log.json"] = _json(entries)
    return parts


def _manifest_text(manifest: Any) -> str:
    return json.dumps(asdict(manifest), default=str)


def _about(relation: Relation) -> Iterator[tuple[str, object]]:
    yield "kind", relation.kind
    yield "id", relation.id
    yield "name", relation.name
    if isinstance(relation, View):
        yield "definition", relation.sql
        yield "columns", relation.columns
        return
    names, types = relation.schema.names, relation.schema.types
    yield "columns", [(n, str(t)) for n, t in zip(names, types, strict=True)]
    yield "since_epoch", relation.since
    yield "retain_history_s", relation.retain_s
    if isinstance(relation, MaterializedView):
        yield "definition", relation.sql
        yield "options", relation.options
    elif isinstance(relation, Table):
        yield "primary_key", [names[k] for k in relation.key]
        yield "not_null", [names[k] for k in relation.not_null]
        yield "checks", [text for text, _ in relation.checks]
        yield "defaults", relation.default_texts


def explain_name(number: int, view: str) -> str:
    """The name of the file with a view's EXPLAIN: a view may have a name that no file can have.

    >>> explain_name(3, "a/b ç")
    'explain/003-a_b__.txt'
    """
    return f"explain/{number:03d}-{re.sub(r'[^A-Za-z0-9_-]', '_', view)[:60]}.txt"


def contents(parts: Mapping[str, str]) -> str:
    """The list of what is inside, with what is not."""
    lines = [
        "A support bundle of penstock.",
        "",
        "It has no rows of tables or views, no passwords, and no values of environment variables. It does have",
        "the names of tables, columns, views, roles and storage, and the definitions of views as they were written:",
        "look at catalog.json if constants in them are confidential.",
        "",
        *[f"{len(text.encode()):>10,} bytes  {name}" for name, text in sorted(parts.items())],
    ]
    return "\n".join(lines) + "\n"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _json(value: object) -> str:
    return json.dumps(value, indent=1, default=str, ensure_ascii=False) + "\n"
