"""Are the files of a flow there, with the bytes that were written?"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.base.errors import PenstockError, StorageNotFound
from penstock.commit.files import Files
from penstock.commit.history import read_log
from penstock.commit.manifest import Manifest
from penstock.commit.truth import Truth
from penstock.engine import opening
from penstock.engine.verify import Check
from penstock.state.batch_file import FileRef


class FileChecker:
    """Checks every block of every file that the manifest or an epoch of the kept history names."""

    def __init__(self, truth: Truth, files: Files) -> None:
        self._truth = truth
        self._files = files
        self._refs = named_files(truth, opening.read_manifest(truth))

    def __len__(self) -> int:
        return len(self._refs)

    def run(self, done: Callable[[], None] = lambda: None) -> list[Check]:
        """One check for all the files that are well (its `rows` says how many), and one for each that is not."""
        wrong: dict[str, str] = {}
        for ref in self._refs.values():
            try:
                self._files.check(ref)
            except PenstockError as error:
                if isinstance(error, StorageNotFound) or error.sqlstate == "XX001":
                    wrong[ref.name] = error.message
                else:
                    raise  # the storage is out of reach: nothing is known about the file
            done()
        if wrong:
            # The writer goes on while this reads: what it has let go of since may be gone.
            named = named_files(self._truth, opening.read_manifest(self._truth))
            wrong = {name: why for name, why in wrong.items() if name in named}
        well = Check("files", "files", True, len(self._refs) - len(wrong))
        return [well, *(Check("file", name, False, note=why) for name, why in wrong.items())]


def named_files(truth: Truth, manifest: Manifest) -> dict[str, FileRef]:
    """The files that a flow needs, by name."""
    return {**manifest.files(), **{ref.name: ref for ref in _of_log(truth, manifest.history_from)}}


def _of_log(truth: Truth, after: int) -> Iterable[FileRef]:
    for record in read_log(truth, after + 1):
        for part in record.parts:
            if part.file is not None:
                yield part.file
