"""The set-up brings pgjdbc without root and without touching the machine, or says in one sentence why not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.clients.bring_pgjdbc import IN_PACKAGE, PACKAGE, bring_pgjdbc


class Machine:
    """Commands that are answered rather than run: `fails` are those that go wrong, by their number."""

    def __init__(self, fails: Sequence[int] = (), jar: bytes | None = b"jar") -> None:
        self.fails = fails
        self.jar = jar
        self.commands: list[str] = []

    def run(self, command: Sequence[str], folder: Path) -> str | None:
        self.commands.append(" ".join(command).replace(str(folder), "FOLDER"))
        if len(self.commands) in self.fails:
            return f"E: number {len(self.commands)}"
        if command[-2] == "download":
            (folder / f"{PACKAGE}_1_all.deb").touch()
        if command[0] == "dpkg-deb" and self.jar is not None:
            (folder / "root" / IN_PACKAGE).parent.mkdir(parents=True)
            (folder / "root" / IN_PACKAGE).write_bytes(self.jar)
        return None


def has_all(program: str) -> bool:
    return True


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "venv" / "share" / "postgresql.jar"


def test_it_is_downloaded_and_unpacked(tmp_path: Path, target: Path) -> None:
    machine = Machine()
    said = bring_pgjdbc(target, machine.run, has_all, tmp_path)
    assert said == f"Brought pgjdbc, from the package {PACKAGE}, for the tests."
    assert target.read_bytes() == b"jar"
    assert [path.name for path in target.parent.iterdir()] == [target.name]
    assert machine.commands == [
        f"apt-get -qq download {PACKAGE}",
        f"dpkg-deb -x {PACKAGE}_1_all.deb root",
    ]
    assert not any("sudo" in c or " install" in c for c in machine.commands)


def test_when_it_is_there_nothing_runs(tmp_path: Path, target: Path) -> None:
    bring_pgjdbc(target, Machine().run, has_all, tmp_path)
    machine = Machine()
    assert bring_pgjdbc(target, machine.run, has_all, tmp_path) == f"pgjdbc is at {target}."
    assert machine.commands == []


def test_one_that_is_installed_is_copied(tmp_path: Path, target: Path) -> None:
    (tmp_path / IN_PACKAGE).parent.mkdir(parents=True)
    (tmp_path / IN_PACKAGE).write_bytes(b"installed")
    machine = Machine()
    assert bring_pgjdbc(target, machine.run, has_all, tmp_path).startswith("Copied pgjdbc from ")
    assert (target.read_bytes(), machine.commands) == (b"installed", [])


def test_without_lists_of_packages_it_fetches_some_of_its_own(tmp_path: Path, target: Path) -> None:
    machine = Machine(fails=[1])
    assert bring_pgjdbc(target, machine.run, has_all, tmp_path).startswith("Brought pgjdbc")
    own = "-o Dir::State::lists=FOLDER/lists -o Dir::Cache=FOLDER"
    assert machine.commands[1:3] == [f"apt-get -qq {own} update", f"apt-get -qq {own} download {PACKAGE}"]


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        (Machine(fails=[1, 2, 3]), "E: number 1 (and not with new lists of packages either)"),
        (Machine(fails=[2]), "E: number 2"),
        (Machine(jar=None), f"it has no {IN_PACKAGE}"),
    ],
    ids=["no network", "not unpacked", "another package"],
)
def test_what_goes_wrong_is_one_sentence(tmp_path: Path, target: Path, machine: Machine, reason: str) -> None:
    said = bring_pgjdbc(target, machine.run, has_all, tmp_path)
    assert said == (
        f"pgjdbc could not be brought from the package {PACKAGE}: {reason}. The tests of JDBC will be skipped."
    )
    assert not target.exists()


def test_elsewhere_than_on_debian(tmp_path: Path, target: Path) -> None:
    machine = Machine()
    said = bring_pgjdbc(target, machine.run, lambda program: False, tmp_path)
    assert said.endswith("there is no apt-get. The tests of JDBC will be skipped.")
    assert machine.commands == []
