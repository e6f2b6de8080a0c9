"""The examples of docs/operations.md run, one after the other, in an empty folder."""

from __future__ import annotations

import doctest
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs" / "operations.md"
_BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def test_examples(penstock: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = 0
    for kind, text in _BLOCK.findall(DOCS.read_text()):
        if kind == "python":
            exec(compile(text, str(DOCS), "exec"), {})
            continue
        for example in text.split("$ ")[1:]:
            command, _, wanted = example.partition("\n")
            program, *arguments = shlex.split(command)
            assert program == "penstock"
            found = penstock(*arguments)
            assert (found.code, found.err) == (0, ""), command
            same = doctest.OutputChecker().check_output(wanted, found.out, _FLAGS)
            assert same, f"{command}\n{found.out}"
            ran += 1
    assert ran >= 7
