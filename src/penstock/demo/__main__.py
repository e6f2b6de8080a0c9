"""python -m penstock.demo [--seconds N] [--seed N] [--plain] [--no-spark]"""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from penstock.demo.lines import Lines
from penstock.demo.run import Display, run_demo
from penstock.demo.screen import Screen

INTERRUPTED = 130  # what a shell reports for a program that Ctrl-C ended


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m penstock.demo", description="Views over a stream of orders."
    )
    parser.add_argument("--seconds", type=float, default=25.0, help="how long the stream runs (default: 25)")
    parser.add_argument("--seed", type=int, default=1, help="which shop is made up (default: 1)")
    parser.add_argument("--plain", action="store_true", help="print lines even on a terminal")
    parser.add_argument(
        "--no-spark", action="store_true", help="load the shop in this process, not by a Spark job"
    )
    options = parser.parse_args(arguments)
    if options.seconds <= 0:
        parser.error("--seconds must be more than 0")
    console = Console(highlight=False)
    live = console.is_terminal and not console.is_dumb_terminal and not options.plain
    display: Display = Screen(console) if live else Lines()
    try:
        run = run_demo(options.seconds, options.seed, display, spark=not options.no_spark)
    except KeyboardInterrupt:
        print("Stopped before the stream began.", file=sys.stderr)
        return INTERRUPTED
    return 1 if run.views_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
