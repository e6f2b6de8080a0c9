"""python -m bench [--small] [--only SECTION ...]: measures, prints one table, writes .bench/results.json."""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from bench import degree, durable, growth, server, sharing, spark, state, tpch
from bench.measure import say
from bench.report import Section, print_report
from bench.scale import FULL, SMALL, Settings

FOLDER = Path(".bench")
SECTIONS: dict[str, Callable[[Settings], Section]] = {
    "degree": degree.measure,
    "tpch": tpch.measure,
    "growth": growth.measure,
    "sharing": sharing.measure,
    "state": state.measure,
    "durable": durable.measure,
    "server": server.measure,
    "spark": spark.measure,
}


def main() -> int:
    options = arguments().parse_args()
    scale = SMALL if options.small else FULL
    FOLDER.mkdir(exist_ok=True)
    if options.section:
        settings = Settings(scale, FOLDER, options.pathway_python, frozenset(options.queries))
        section = SECTIONS[options.section](settings)
        result_file(options.section).write_text(json.dumps(section.to_json()))
        return 0
    found = {name: in_own_process(name) for name in options.only or SECTIONS}
    note = "" if scale is FULL else " (the targets are for the full one)"
    title = f"penstock, {scale.name} scale{note}, {platform.machine()}, Python {platform.python_version()}"
    print_report(title, list(found.values()), Console(width=None if sys.stdout.isatty() else 120))
    results = {"scale": scale.name, "sections": {name: section.to_json() for name, section in found.items()}}
    (FOLDER / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    say(f"the same as JSON: {FOLDER / 'results.json'}")
    return 1 if any(section.wrong for section in found.values()) else 0


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Every figure is a ratio.")
    parser.add_argument("--small", action="store_true", help="a small scale that ends within some minutes")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, help="only these sections")
    parser.add_argument("--pathway-python", help="the Python of an environment that has Pathway")
    parser.add_argument("--queries", nargs="+", type=int, default=range(1, 23), help="only these of TPC-H")
    parser.add_argument("--section", choices=SECTIONS, help=argparse.SUPPRESS)
    return parser


def in_own_process(name: str) -> Section:
    """One section in a process of its own, so that the memory of one does not slow down the next."""
    say(f"section {name}")
    subprocess.run([sys.executable, "-m", "bench", *sys.argv[1:], "--section", name], check=True)
    return Section.from_json(json.loads(result_file(name).read_text()))


def result_file(name: str) -> Path:
    return FOLDER / f"section-{name}.json"


if __name__ == "__main__":
    sys.exit(main())
