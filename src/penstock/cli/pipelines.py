"""penstock pipelines run SPEC URL: make the tables and views of a Declarative Pipeline in a flow."""

from __future__ import annotations

import argparse
import signal
import threading
from contextlib import closing

from penstock import pipelines
from penstock.base.errors import FlowNotFound
from penstock.cli.amounts import plural
from penstock.cli.command import FINE, USAGE, Command
from penstock.cli.options import Options, add_yes, may_write, storage_options
from penstock.cli.terminal import Terminal
from penstock.engine.flow import Flow
from penstock.run.spark.connectors import CONNECTORS
from penstock.run.spark.session import Spark
from penstock.run.spark.streams import Streams

LOOK_S = 0.5  # between two looks at the streams


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["run"], help="what to do")
    parser.add_argument(
        "spec", metavar="SPEC", help="spark-pipeline.yml, a folder, or a file of Python or SQL"
    )
    parser.add_argument("url", metavar="URL", help="where the flow is, or is to be")
    parser.add_argument(
        "--connector",
        action="append",
        default=[],
        choices=sorted(CONNECTORS),
        help="start Spark with this library, fetched from Maven Central; may be given several times",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="URL",
        help="where Spark keeps how far streams have been read; else the spec's storage, or the flow's folder",
    )
    add_yes(parser)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    (given,) = storage_options(options, options.url)
    try:
        if not may_write(options.url, given, options.yes, terminal):
            return USAGE
    except FlowNotFound:
        terminal.note(f"{options.url} is a new flow.")
    with closing(Spark(connectors=options.connector)) as spark:
        spark.session()  # libraries are chosen when it starts; the flow takes the session that is there
        return _run(options, given, terminal)


def _run(options: argparse.Namespace, given: Options, terminal: Terminal) -> int:
    with Flow(options.url, storage_options=given) as flow:
        made = pipelines.run(flow, options.spec, checkpoint=options.checkpoint)
        for name, kind in made.relations.items():
            terminal.say(f"{name}: {kind}{', as before' if name in made.kept else ''}")
        terminal.say(f"{plural(len(made.relations), 'relation')} as of epoch {flow.epoch}.")
        if made.stream is not None:
            terminal.note("The streams are read until they end, or until Ctrl-C.")
            _await(made.stream)
    return FINE


def _await(streams: Streams) -> None:
    """Wait for the end of the streams; an interruption ends them between two looks.

    PySpark answers Ctrl-C with a call to Java, which fails while another call waits there.
    """
    interrupted = threading.Event()
    ends = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: interrupted.set()) for number in ends]
    try:
        while streams.is_active and not interrupted.wait(LOOK_S):
            if any(each.exception() is not None for each in streams.queries.values()):
                streams.stop()  # the others too: nobody would hear of the one that failed
        if interrupted.is_set():
            streams.stop()
            raise KeyboardInterrupt
        streams.await_termination()  # raises what made one fail
    finally:
        for number, handler in zip(ends, before, strict=True):
            signal.signal(number, handler)


COMMAND = Command(
    "pipelines",
    "make the tables and views of a Declarative Pipeline, and feed them (opens for writing)",
    "Runs the files of a pipeline whose import is `from penstock import pipelines as dp`: its views are kept\n"
    "fresh by the flow at URL, which is made if it is not there. It needs Spark, for what the functions mean.\n"
    "Tables that read streams are fed until the streams end. Run again, it goes on: what has the same definition\n"
    "stays as it is, views with another are replaced.",
    add_arguments,
    run,
)
