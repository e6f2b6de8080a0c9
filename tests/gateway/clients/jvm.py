"""pgjdbc, called from Python: a Java process with the driver in it, and py4j between the two.

So the tests need no Java compiler, which the Java that Spark runs on (`openjdk-17-jre-headless`) does not have.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path
from py4j.protocol import Py4JJavaError

from gateway.clients.bring_pgjdbc import DRIVER
from penstock.base.errors import SparkUnavailable
from penstock.run.spark.java import find_java

# A zone that is far from the server's, and half an hour off: what is shifted by it shows.
ZONE = "America/St_Johns"


@dataclass(frozen=True)
class Jvm:
    """A running Java."""

    gateway: Any

    @property
    def java(self) -> Any:
        """The package `java`: `jvm.java.sql.Types`."""
        return self.gateway.jvm.java

    def of(self, name: str) -> Any:
        """A class as a value: `jvm.of("java.time.LocalDate")`."""
        return self.java.lang.Class.forName(name)

    def connect(self, url: str, **properties: object) -> Any:
        """A java.sql.Connection, with the driver's properties: https://jdbc.postgresql.org/documentation/use"""
        given = self.java.util.Properties()
        for name, value in {"user": "penstock", **properties}.items():
            given.setProperty(name, str(value))
        return self.java.sql.DriverManager.getConnection("jdbc:" + url.replace("penstock@", ""), given)

    def own(self, connection: Any) -> Any:
        """What the driver has beyond JDBC: COPY, notifications, cancelling."""
        return connection.unwrap(self.of("org.postgresql.PGConnection"))


def why_not() -> str | None:
    """The reason why there can be no Jvm here; None if there can be one."""
    if not DRIVER.exists():
        return f"pgjdbc is not at {DRIVER}: `make setup` puts it there, and says why if it cannot"
    try:
        find_java()
    except SparkUnavailable:
        return "pgjdbc needs a Java, and there is none here that Spark could run on: `make setup` says more"
    return None


@contextmanager
def started() -> Iterator[Jvm]:
    """A Java that ends with the context, or with this process if that is killed."""
    command = [
        str(find_java().home / "bin" / "java"),
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
        f"-Duser.timezone={ZONE}",
    ]
    command += [
        "-cp",
        f"{find_jar_path()}:{DRIVER}",
        "py4j.GatewayServer",
        "--die-on-broken-pipe",
        "--enable-auth",
        "0",
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        port, token = int(process.stdout.readline()), process.stdout.readline().strip()
        gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True)
        )
        try:
            yield Jvm(gateway)
        finally:
            gateway.shutdown()


def rows(result: Any) -> list[tuple[object, ...]]:
    """What is left of a ResultSet, each value as getObject gives it."""
    width = result.getMetaData().getColumnCount()
    found = []
    while result.next():
        found.append(tuple(result.getObject(i + 1) for i in range(width)))
    return found


@contextmanager
def fails(sqlstate: str) -> Iterator[list[Any]]:
    """A piece of a test that must fail with this SQLSTATE; the list has the SQLException afterwards."""
    caught: list[Any] = []
    with pytest.raises(Py4JJavaError) as raised:
        yield caught
    error = raised.value.java_exception
    assert error.getSQLState() == sqlstate, error.getMessage()
    caught.append(error)
