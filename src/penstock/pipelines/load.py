"""The files of a pipeline: Python, SQL, a folder of them, or a spec as Spark's own runner has it."""

from __future__ import annotations

import glob
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.base.errors import BindError, InvalidOption, PenstockError, SparkUnavailable
from penstock.pipelines.registry import Registry, collecting
from penstock.run.spark.connectors import missing_connector

SPEC_NAMES = ("spark-pipeline.yml", "spark-pipeline.yaml")
_FIELDS = ("name", "storage", "catalog", "database", "schema", "configuration", "libraries")


def load(source: str | PathLike[str] | ModuleType) -> Registry:
    """What a pipeline declares."""
    if isinstance(source, ModuleType):
        if source.__file__ is None:
            raise BindError(f"the module {source.__name__} has no file to run")
        source = source.__file__
    path = Path(source).resolve()  # the files are loaded from inside of their folder
    if path.is_dir():
        found = [path / name for name in SPEC_NAMES if (path / name).is_file()]
        spec = found[0] if found else None
        files = sorted(_sources(path.rglob("*"))) if spec is None else []
    else:
        spec = path if path.suffix in (".yml", ".yaml") else None
        files = [path]
    registry = Registry()
    if spec is not None:
        files, registry.storage = read_spec(spec)
    with collecting(registry), _inside(path if path.is_dir() else path.parent):
        for file in files:
            _load(file, registry)
    if not (registry.datasets or registry.texts):
        raise BindError(f"nothing in {path} declares a table or view of a pipeline")
    return registry


def read_spec(path: Path) -> tuple[list[Path], str | None]:
    """The files that a spec names, and its storage."""
    if importlib.util.find_spec("yaml") is None:
        raise SparkUnavailable("a spec of a pipeline needs PyYAML", hint="pip install 'penstock[spark]'")
    import yaml

    try:
        spec: Any = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise BindError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None
    if not isinstance(spec, dict) or "name" not in spec:
        raise BindError(f"{path} is no spec of a pipeline: it has no name")
    for key in spec:
        if key not in _FIELDS:
            raise InvalidOption(f'{path} has a field "{key}"', hint=f"There are {', '.join(_FIELDS)}.")
    for key in ("catalog", "database", "schema", "configuration"):
        if spec.get(key):
            raise InvalidOption(
                f"{key} in {path} is not covered", hint="Leave it out: a flow has no such thing."
            )
    files: list[Path] = []
    for entry in spec.get("libraries") or []:
        files += _matching(path.parent, str(entry.get("glob", {}).get("include", "")))
    return list(dict.fromkeys(files)), _storage(path, spec.get("storage"))


def _storage(path: Path, given: object) -> str | None:
    """A URL, or a folder beside the spec."""
    if given is None:
        return None
    if not isinstance(given, str) or not given:
        raise InvalidOption(f"storage in {path} is a folder or a URL, not {given!r}")
    return given if "://" in given or given.startswith("file:/") else str(path.parent / given)


def _matching(folder: Path, pattern: str) -> list[Path]:
    inner = pattern[:-3] if pattern.endswith("/**") else None
    if not pattern or glob.has_magic(pattern if inner is None else inner):
        raise InvalidOption(f'"{pattern}" is neither a file nor a folder with /** at its end')
    found = [folder / pattern] if inner is None else (folder / inner).rglob("*")
    return sorted(_sources(found))


def _sources(paths: Any) -> Iterator[Path]:
    for path in paths:
        if path.is_file() and path.suffix in (".py", ".sql") and "__pycache__" not in path.parts:
            yield path


def _load(file: Path, registry: Registry) -> None:
    if not file.is_file():
        raise BindError(f"there is no file {file}")
    if file.suffix == ".sql":
        registry.texts.append((file.name, file.read_text()))
        return
    if file.suffix != ".py":
        raise BindError(f"{file} is neither Python nor SQL")
    spec = importlib.util.spec_from_file_location(f"penstock_pipeline_{file.stem}", file.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except PenstockError:
        raise
    except Exception as error:  # whatever somebody's file may raise
        told = f"{file}{_line(error, file)}: {type(error).__name__}: {error}"
        raise BindError(told, hint=missing_connector(str(error))) from error


def _line(error: BaseException, file: Path) -> str:
    """Where in the file it went wrong: ", line 7"; nothing if it was elsewhere."""
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f", line {error.lineno}"
    own = str(file.resolve())
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == own]
    return f", line {lines[-1]}" if lines else ""


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """In the pipeline's folder, with its modules to import, as Spark's own runner has it."""
    before, path = Path.cwd(), list(sys.path)
    os.chdir(folder)
    sys.path.insert(0, str(Path.cwd()))
    try:
        yield
    finally:
        os.chdir(before)
        sys.path[:] = path
