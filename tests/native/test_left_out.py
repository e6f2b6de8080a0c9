"""Compiled code can be left out, and says so; what was compiled from another version is not used."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from native.both_ways import needs_kernels, users
from penstock import native

# As `python -m penstock.native` does it, and then a look at a module that calls compiled code: one process for both.
SAYS = """
import runpy
runpy.run_module("penstock.native", run_name="__main__")
from penstock.zset import taking
print(taking.kernels is None)
"""


def test_left_out_on_demand() -> None:
    path = os.pathsep.join(p for p in sys.path if p)
    environment = {**os.environ, "PENSTOCK_NATIVE": "0", "PYTHONPATH": path}
    command = [sys.executable, "-c", SAYS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "True\n"
    assert "slower" in done.stderr


@needs_kernels
def test_nothing_is_said_where_it_is_there(capfd: pytest.CaptureFixture[str]) -> None:
    runpy.run_module("penstock.native", run_name="__main__")
    assert capfd.readouterr().err == ""


@needs_kernels
def test_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert native._load() is native.kernels
    monkeypatch.setattr(native.kernels, "VERSION", native.VERSION + 1)
    assert native._load() is None


@needs_kernels
def test_what_is_called_is_there() -> None:
    names = {x for m in users() for x in re.findall(r"\bkernels\.(\w+)\(", Path(str(m.__file__)).read_text())}
    assert len(names) >= 8
    assert {n for n in names if not hasattr(native.kernels, n)} == set()


def test_both_files_have_one_version() -> None:
    source = Path(penstock.__file__).parent / "native" / "_kernels.c"
    if not source.exists():
        pytest.skip("an installation without the source of the compiled inner loops")
    assert f"#define VERSION {native.VERSION}\n" in source.read_text()
