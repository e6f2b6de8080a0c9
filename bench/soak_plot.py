"""The soak's plot: files, bytes and memory over time, as an SVG that any browser shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

WIDTH, PANEL, LEFT, GAP = 820, 150, 90, 50


@dataclass(frozen=True)
class Sample:
    """What the flow takes at one instant."""

    seconds: float
    epoch: int
    files: int  # of the flow: batches and large deltas
    slate_files: int
    bytes: int  # on storage, all files
    memory: int  # resident, of the process

    def __str__(self) -> str:
        return (
            f"{self.seconds:5.0f} s  epoch {self.epoch:>7,}  {self.files:>5,} files  {self.slate_files:>5,} of "
            f"SlateDB  {self.bytes / 1e6:8.1f} MB  {self.memory / 1e6:7.0f} MB resident"
        )


Line = tuple[str, str, Callable[[Sample], float]]  # what it is, its colour, its value
PANELS: tuple[tuple[str, tuple[Line, ...]], ...] = (
    (
        "files",
        (
            ("of the flow", "#1f6f8b", lambda s: s.files),
            ("of SlateDB", "#c8553d", lambda s: s.slate_files),
        ),
    ),
    ("MB on storage", (("", "#1f6f8b", lambda s: s.bytes / 1e6),)),
    ("MB of memory", (("", "#1f6f8b", lambda s: s.memory / 1e6),)),
)


def plot(samples: Sequence[Sample], title: str) -> str:
    """The SVG's text.

    >>> text = plot([Sample(1, 1, 2, 3, 4, 5), Sample(2, 9, 2, 3, 4, 5)], "two seconds")
    >>> text.startswith("<svg") and text.count("<polyline")
    4
    """
    height = 40 + len(PANELS) * (PANEL + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">{title}: {samples[-1].epoch:,} epochs</text>',
    ]
    for number, (name, lines) in enumerate(PANELS):
        parts += _panel(samples, name, lines, 40 + number * (PANEL + GAP))
    return "\n".join([*parts, "</svg>\n"])


def _panel(samples: Sequence[Sample], name: str, lines: Sequence[Line], top: int) -> list[str]:
    right, bottom = WIDTH - 20, top + PANEL
    end = samples[-1].seconds or 1.0
    most = max(value(s) for _, _, value in lines for s in samples) or 1.0
    parts = [
        f'<line x1="{LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}" stroke="#888"/>',
        f'<line x1="{LEFT}" y1="{top}" x2="{LEFT}" y2="{bottom}" stroke="#888"/>',
        f'<text x="{LEFT - 8}" y="{top + 10}" text-anchor="end">{most:,.0f}</text>',
        f'<text x="{LEFT - 8}" y="{bottom}" text-anchor="end">0</text>',
        f'<text x="{LEFT - 8}" y="{top + PANEL // 2}" text-anchor="end">{name}</text>',
        f'<text x="{right}" y="{bottom + 16}" text-anchor="end">{end:,.0f} s</text>',
    ]
    for i, (label, colour, value) in enumerate(lines):
        points = " ".join(
            f"{LEFT + s.seconds / end * (right - LEFT):.1f},{bottom - value(s) / most * PANEL:.1f}"
            for s in samples
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        if label:
            parts.append(f'<text x="{LEFT + 10 + 110 * i}" y="{top - 6}" fill="{colour}">{label}</text>')
    return parts
