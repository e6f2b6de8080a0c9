"""Java is found, installed or asked for; PySpark comes in by one door and late."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from penstock.base.errors import SparkUnavailable
from penstock.run.spark import install as installing
from penstock.run.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def a_java(home: Path, version: str) -> Path:
    """A folder that looks like a Java of that version, with a `release` file as all since 9 have."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="Test"\nJAVA_VERSION="{version}"\n')
    return home


def test_java_home_comes_first(tmp_path: Path) -> None:
    named = a_java(tmp_path / "named", "21.0.1")
    other = a_java(tmp_path / "other", "17.0.2")
    found = find_java({"JAVA_HOME": str(named), "PATH": str(other / "bin")}, tmp_path / "none")
    assert (found.home, found.version) == (named, 21)


def test_the_path_comes_next_and_a_link_is_followed(tmp_path: Path) -> None:
    home = a_java(tmp_path / "real", "17.0.2")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    found = find_java({"JAVA_HOME": "", "PATH": str(tmp_path / "bin")}, tmp_path / "none")
    assert (found.home, found.version) == (home.resolve(), 17)


def test_one_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old = a_java(tmp_path / "old", "1.8.0_412")
    a_java(tmp_path / "jvm" / "java-11", "11.0.2")
    a_java(tmp_path / "jvm" / "java-25", "25")
    a_java(tmp_path / "jvm" / "java-21", "21.0.3")
    (tmp_path / "jvm" / "java-99").mkdir()
    found = find_java({"JAVA_HOME": str(old)}, tmp_path / "jvm")
    assert found.version == 21


def test_without_a_release_file_it_is_asked(tmp_path: Path) -> None:
    home = a_java(tmp_path / "asked", "?")
    (home / "release").unlink()
    (home / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk version \"17.0.9\"' >&2\n")
    assert find_java({"JAVA_HOME": str(home)}, tmp_path / "none").version == 17


def test_no_java_is_one_clear_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        SparkUnavailable, match="Spark needs Java 17 or newer, and there is none here"
    ) as caught:
        find_java({}, tmp_path)
    assert "Everything but Spark works without it" in str(caught.value)


def test_an_old_java_is_named(tmp_path: Path) -> None:
    a_java(tmp_path / "java-11", "11.0.2")
    with pytest.raises(SparkUnavailable, match="the newest here is Java 11"):
        find_java({}, tmp_path)


def test_set_up_installs_where_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[str] = []
    jvm = tmp_path / "jvm"

    def run(command: Sequence[str]) -> bool:
        commands.append(" ".join(command))
        if command[-1] == "openjdk-21-jre-headless":
            a_java(jvm / "java-21", "21.0.3")
            return True
        return command[-1] == "true"

    monkeypatch.setattr(installing, "find_java", lambda: find_java({}, jvm))
    assert (
        installing.set_up_java(run, root=False, have=lambda program: True) == "Installed Java 21 for Spark."
    )
    assert commands == [
        "sudo -n true",
        "sudo -n apt-get update -qq",
        "sudo -n apt-get install -qq -y --no-install-recommends openjdk-17-jre-headless",
        "sudo -n apt-get install -qq -y --no-install-recommends openjdk-21-jre-headless",
    ]
    assert installing.set_up_java(run, root=False, have=lambda program: True).startswith("Java 21 at ")


def test_set_up_asks_where_it_may_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "find_java", lambda: find_java({}, tmp_path))
    said = installing.set_up_java(lambda command: False, root=False, have=lambda program: True)
    assert said.startswith(
        "Spark needs Java 17 or newer, and there is none here. Install it (Debian, Ubuntu: "
    )
    assert "\n" not in said


def test_importing_penstock_does_not_import_pyspark() -> None:
    program = "import penstock, penstock.run.spark.ready, sys; assert 'pyspark' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_session_runs_tasks_in_this_python(spark: SparkSession) -> None:
    def where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable] * batch.num_rows, "a": batch["a"]})

    rows = spark.createDataFrame(pa.table({"a": [1]}))
    there = rows.mapInArrow(where, "python string, a long").toArrow().to_pylist()
    assert there == [{"python": sys.executable, "a": 1}]
