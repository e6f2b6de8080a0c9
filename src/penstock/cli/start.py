"""penstock start: a server that Postgres clients can use."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import signal
import ssl
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from penstock.base.errors import PenstockError
from penstock.cli.command import FINE, Command, UsageError
from penstock.cli.options import storage_options
from penstock.cli.terminal import Terminal
from penstock.demo.live import QUERIES, streaming
from penstock.engine.flow import Flow
from penstock.gateway.login import DATABASE, Access
from penstock.gateway.observer import Observer, observing
from penstock.gateway.scram import Verifier, verifier
from penstock.gateway.server import Server

LISTEN = "127.0.0.1:6875"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--storage", metavar="URL", help="where the flow is kept; without it, in memory")
    parser.add_argument(
        "--read-only",
        action="store_true",
        help="follow a flow that another process writes, and change nothing",
    )
    parser.add_argument("--listen", metavar="HOST:PORT", default=LISTEN, help=f"where to listen ({LISTEN})")
    parser.add_argument(
        "--socket",
        metavar="DIR",
        type=Path,
        help="listen on DIR/.s.PGSQL.PORT as well, for this user's clients on this machine",
    )
    parser.add_argument("--init", metavar="FILE", type=Path, help="SQL to run first, at every start")
    parser.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        help="answer /metrics (for Prometheus), /health and /ready over HTTP there",
    )
    parser.add_argument(
        "--demo", action="store_true", help="a shop with a stream of orders in it, to play with"
    )
    parser.add_argument(
        "--demo-rate", metavar="N", type=float, default=20.0, help="changes a second of the demo (20)"
    )
    parser.add_argument(
        "--engine",
        choices=("inline", "spark", "auto"),
        default="inline",
        help="where epochs run: in this process, on Spark, or wherever it takes less time (inline)",
    )
    parser.add_argument(
        "--commit",
        choices=("durable", "visible"),
        default="durable",
        help="when a commit is answered (durable)",
    )
    parser.add_argument(
        "--roles", metavar="FILE", type=Path, help="who may connect: a line name:password for each role"
    )
    parser.add_argument("--tls-cert", metavar="FILE", type=Path, help="the certificate, as PEM")
    parser.add_argument("--tls-key", metavar="FILE", type=Path, help="its key, as PEM")
    parser.add_argument(
        "--require-tls", action="store_true", help="refuse connections that are not encrypted"
    )
    parser.add_argument(
        "--insecure-allow-remote",
        action="store_true",
        help="listen beyond this machine although anybody may connect without a password",
    )


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    host, port = address(options.listen)
    access = Access(_roles(options.roles), options.require_tls, options.insecure_allow_remote)
    tls = _tls(options)
    if not 0 < options.demo_rate <= 10_000:
        raise UsageError("--demo-rate is between 0 and 10,000 changes a second")
    given = None
    if options.storage is not None:
        (given,) = storage_options(options, options.storage)
    elif options.storage_option:
        raise UsageError("there is no storage to give options to", "Add --storage URL.")
    if options.read_only and (options.storage is None or options.init is not None):
        raise UsageError(
            "--read-only follows a flow on storage and runs no script", "Give --storage URL, no --init."
        )
    with ExitStack() as ends:
        observed = _observe(options, ends)
        flow = ends.enter_context(_flow(options, given))
        if options.init is not None:
            _init(flow, options.init)
        if (
            not access.has_passwords(flow.access())
            and not is_local(host)
            and not options.insecure_allow_remote
        ):
            raise UsageError(
                f"{host} can be reached from other machines, and no role has a password",
                "Give --roles FILE, or a role a password (CREATE ROLE ... PASSWORD), or --insecure-allow-remote if "
                "that is meant.",
            )
        if options.demo:
            ends.enter_context(streaming(flow, options.demo_rate))
        more = _more_to_say(observed, options.demo)
        if observed is not None:
            observed[0].flow = flow
        asyncio.run(_serve(Server(flow, access, tls), host, port, options, terminal, more))
        if observed is not None:
            observed[0].flow, observed[0].state = None, "STOPPING"
    terminal.note("Stopped.")
    return FINE


def _observe(options: argparse.Namespace, ends: ExitStack) -> tuple[Observer, str, int] | None:
    """Listen for Prometheus, before the flow is opened: that may take a while."""
    if options.metrics is None:
        return None
    host, port = address(options.metrics)
    if not is_local(host) and not options.insecure_allow_remote:
        raise UsageError(
            f"{host} can be reached from other machines, and anybody could read the metrics",
            "Listen on 127.0.0.1, or say --insecure-allow-remote if that is meant.",
        )
    try:
        return ends.enter_context(observing(host, port))
    except OSError as error:
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None


def _more_to_say(observed: tuple[Observer, str, int] | None, demo: bool) -> list[str]:
    lines = [] if observed is None else [f"  curl http://{observed[1]}:{observed[2]}/metrics"]
    if demo:
        lines += ["A shop is open, with orders coming in. Try:", *[f"  {query};" for query in QUERIES]]
    return lines


def _flow(options: argparse.Namespace, given: dict[str, object] | None) -> Flow:
    if options.storage is None:
        return Flow(engine=options.engine)
    return Flow(
        options.storage,
        read_only=options.read_only,
        commit=options.commit,
        engine=options.engine,
        storage_options=given,
    )


def _init(flow: Flow, path: Path) -> None:
    text = _text(path)
    if not text.strip():
        return
    try:
        flow.sql(text)
    except PenstockError as error:
        at = error.statement if error.position is None else error.position
        if at is not None:
            line = text[:at].count("\n") + 1
            raise UsageError(f"{path}, line {line}: {error.message}", error.hint) from None
        raise UsageError(f"{path}: {error.message}", error.hint) from None


async def _serve(
    server: Server,
    host: str,
    port: int,
    options: argparse.Namespace,
    terminal: Terminal,
    more: Sequence[str],
) -> None:
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ending.set)
    try:
        where, taken = await server.start(host, port, options.socket)
    except OSError as error:
        server.pool.shutdown()
        place = error.filename or f"{host}:{port}"
        raise UsageError(f"cannot listen on {place}: {error.strerror or error}") from None
    user = next(iter(server.access.roles), DATABASE)
    kept = options.storage or "in memory: it is gone when this ends"
    terminal.say(
        f"penstock listens on {where}:{taken} (the flow is kept {'at ' if options.storage else ''}{kept})"
    )
    terminal.say(f"  psql -h {where} -p {taken} -U {user} {DATABASE}")
    encrypted = "?sslmode=require" if options.require_tls else ""
    terminal.say(f"  penstock sql postgresql://{user}@{where}:{taken}/{DATABASE}{encrypted}")
    if options.socket is not None:
        terminal.say(f"  psql -h {options.socket.absolute()} -p {taken} -U {user} {DATABASE}")
    for line in more:
        terminal.say(line)
    terminal.note("Ctrl-C ends it.")
    terminal.flush()
    await ending.wait()
    await server.stop()


def address(text: str) -> tuple[str, int]:
    """Host and port.

    >>> address("127.0.0.1:6875"), address("[::1]:0")
    (('127.0.0.1', 6875), ('::1', 0))
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"{text!r} is not HOST:PORT", f"Write it as {LISTEN}.")
    return host, int(port)


def is_local(host: str) -> bool:
    """Whether only this machine reaches it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _roles(path: Path | None) -> dict[str, Verifier]:
    roles: dict[str, Verifier] = {}
    if path is None:
        return roles
    for number, line in enumerate(_text(path).splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, password = line.partition(":")
        if not name or not colon or not password:
            raise UsageError(f"{path}, line {number} is not name:password")
        roles[name] = verifier(password)
    if not roles:
        raise UsageError(f"{path} names no role", "A line is name:password.")
    return roles


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None


def _tls(options: argparse.Namespace) -> ssl.SSLContext | None:
    if options.tls_cert is None and options.tls_key is None:
        if options.require_tls:
            raise UsageError("--require-tls needs a certificate", "Give --tls-cert and --tls-key.")
        return None
    if options.tls_cert is None or options.tls_key is None:
        raise UsageError("--tls-cert and --tls-key go together")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(options.tls_cert, options.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"the certificate or its key cannot be read: {error}") from None
    return context


COMMAND = Command(
    "start",
    "a server that Postgres clients can use",
    "Opens a flow (in memory, or on storage) and serves it to Postgres clients: psql, drivers, tools.\n"
    "It prints where it listens; Ctrl-C or SIGTERM ends it. docs/server.md says what works.",
    add_arguments,
    run,
)
