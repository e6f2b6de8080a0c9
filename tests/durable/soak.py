"""Thousands of kills: `make soak`, or one chain again: `make soak SOAK_ARGS="--seed 7 --chains 1"`."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from durable.chain import TICKING, Tally, drawn_case, drawn_chain, run_chain
from durable.executioner import Executioner

_local = threading.local()


def _chain(seed: int, kills: int) -> tuple[int, Tally]:
    if not hasattr(_local, "executioner"):
        _local.executioner = Executioner()
    with tempfile.TemporaryDirectory(prefix="penstock-soak-") as folder:
        case = drawn_case(str(Path(folder) / "flow"), seed)
        return seed, run_chain(_local.executioner, case, drawn_chain(seed, kills), random.Random(seed))


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--seed", type=int, default=1_000, help="the first chain")
    parser.add_argument("--chains", type=int, default=100)
    parser.add_argument("--kills", type=int, default=30, help="kills in each chain")
    parser.add_argument("--workers", type=int, default=2)
    wanted = parser.parse_args()
    total, began, failed = Tally(), time.monotonic(), []
    with ThreadPoolExecutor(wanted.workers) as pool:
        seeds = range(wanted.seed, wanted.seed + wanted.chains)
        for seed, tally in pool.map(lambda s: _chain(s, wanted.kills), seeds):
            total.add(tally)
            print(
                f"{time.monotonic() - began:7.0f} s  chain {seed}: {tally.kills.total()} kills, "
                f"{tally.verified} judged; {total.kills.total()} kills in all, {len(failed)} chains failed",
                flush=True,
            )
            if tally.failures:
                failed.append(seed)
                again = f'make soak SOAK_ARGS="--seed {seed} --chains 1 --kills {wanted.kills}"'
                print(f"FAILED: {tally.failures[0]}\nThe same again: {again}", flush=True)
    print(
        f"\n{total.kills.total()} kills, {total.lives} lives, {total.verified} judged, {len(failed)} failed"
    )
    for point in (*TICKING, "random", "opening"):
        print(f"  {total.kills[point]:6d}  {point}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
