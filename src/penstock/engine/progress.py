"""Long work says how far it is."""

from __future__ import annotations

from penstock.commit.copying import Progress


class Counter:
    """Counts what is done, for work in several parts whose sum becomes known as it goes.

    >>> done = Counter(lambda done, total: print(f"{done} of {total}"), 2)
    >>> done()
    1 of 2
    """

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self.total = total
        self.done = 0

    def __call__(self) -> None:
        self.done += 1
        if self._progress is not None:
            self._progress(self.done, max(self.total, self.done))
