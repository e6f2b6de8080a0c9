"""The degree distribution in Pathway, run by the Python of Pathway's own environment.

    load FOLDER EDGES            computes the distribution of the edges in the folder's files, then ends
    change FOLDER EDGES NODES    loads the same, then changes one edge at a time when it is asked to:
                                 stdin  "measure COUNT PAUSE_S" or "quit"

Loading goes through the JSON lines connector in static mode and with nothing else in the graph. Of
the ways to hand rows to Pathway 0.33.0 that was the fastest with 10 M edges, in rows a second: JSON
lines 1.0 M, CSV 0.7 M, Python connector 0.14 M, pandas 0.07 M (Delta Lake needs a licence key).
One-edge changes come through the Python connector, each committed at once; with one thread, since
with two on two cores they took longer.

Answers are JSON on stdout: {"load_s": 9.8}, then {"latencies_s": [...]} for each "measure".
"""

import json
import os
import sys
import threading
import time

import pathway as pw

RESULT_WAIT_S_MAX = 600.0


class Edge(pw.Schema):
    """An edge from one node to another."""

    src: int
    dst: int


class Results:
    """How many edges the distribution that Pathway has reported so far stands for."""

    def __init__(self) -> None:
        self.edges_pending = 0
        self.edges = 0  # as of the last step that has ended
        self.step_ended = threading.Event()

    def on_change(self, key: object, row: dict[str, int], time: int, is_addition: bool) -> None:
        self.edges_pending += row["degree"] * row["nodes"] * (1 if is_addition else -1)

    def on_time_end(self, time: int) -> None:
        self.edges = self.edges_pending
        self.step_ended.set()

    def wait_for(self, edges: int) -> None:
        """Return when a step has ended whose distribution counts that many edges."""
        while self.edges != edges:
            self.step_ended.wait(RESULT_WAIT_S_MAX)
            self.step_ended.clear()


class Changes(pw.io.python.ConnectorSubject):
    """Waits for the load, then makes one-edge changes when it is told to."""

    def __init__(self, results: Results, edges: int, nodes: int) -> None:
        super().__init__()
        self.results = results
        self.edges = edges
        self.nodes = nodes

    def run(self) -> None:
        began = time.perf_counter()
        while self.results.edges < self.edges:
            self.commit()  # a source that says nothing holds back the results of the others
            time.sleep(0.02)
        say({"load_s": time.perf_counter() - began})
        node = 0
        for line in sys.stdin:
            command, *arguments = line.split()
            if command == "quit":
                return
            count, pause_s = int(arguments[0]), float(arguments[1])
            latencies = []
            for _ in range(count):
                node = (node + 7919) % self.nodes
                if pause_s:  # even a sleep of 0 s is one
                    time.sleep(pause_s)
                latencies.append(self.one_edge(node))
            say({"latencies_s": latencies})

    def one_edge(self, node: int) -> float:
        self.edges += 1
        began = time.perf_counter()
        self.next(src=node, dst=node + 1)
        self.commit()
        self.results.wait_for(self.edges)
        return time.perf_counter() - began


def say(message: dict[str, object]) -> None:
    print(json.dumps(message), flush=True)


def subscribe(edges: pw.Table, results: Results) -> None:
    degrees = edges.groupby(pw.this.src).reduce(pw.this.src, degree=pw.reducers.count())
    distribution = degrees.groupby(pw.this.degree).reduce(pw.this.degree, nodes=pw.reducers.count())
    pw.io.subscribe(distribution, on_change=results.on_change, on_time_end=results.on_time_end)


def load(folder: str, count: int) -> None:
    results = Results()
    subscribe(pw.io.jsonlines.read(folder, schema=Edge, mode="static"), results)
    began = time.perf_counter()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    taken = time.perf_counter() - began
    if results.edges_pending != count:
        sys.exit(f"{results.edges_pending} edges counted, not {count}")
    say({"load_s": taken})


def change(folder: str, count: int, nodes: int) -> None:
    results = Results()
    loaded = pw.io.jsonlines.read(folder, schema=Edge, mode="static")
    changes = pw.io.python.read(Changes(results, count, nodes), schema=Edge, autocommit_duration_ms=None)
    pw.universes.promise_are_pairwise_disjoint(loaded, changes)
    subscribe(loaded.concat(changes), results)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


if __name__ == "__main__":
    mode, folder, *numbers = sys.argv[1:]
    (load if mode == "load" else change)(folder, *map(int, numbers))
    sys.stdout.flush()
    os._exit(0)  # its threads may linger after run() has returned
