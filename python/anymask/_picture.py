"""A plane of a mask as a picture: text for terminals, SVG for notebooks and files."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_SHADES = " ░▒▓█"
_FULL, _PARTIAL, _EMPTY = "#2f6f8f", "#e0a94a", "#f1efe9"


class Picture:
    """Cells of a plane, each with the share of its pairs that is kept; rows are queries, columns keys."""

    def __init__(self, title: str, cells: npt.NDArray[np.float32], s_q: int, s_kv: int, kept: float) -> None:
        self.title = title
        self.cells = cells
        self.s_q = s_q
        self.s_kv = s_kv
        self.kept = kept

    @property
    def text(self) -> str:
        """One character of two halves a cell: blank nothing kept, a full block all of it."""
        lines = [f"{self.title}   {self.s_q} queries x {self.s_kv} keys, {self.kept:.1%} kept"]
        for row in self.cells:
            lines.append("".join(2 * _shade(float(share)) for share in row).rstrip())
        return "\n".join(lines)

    @property
    def svg(self) -> str:
        """The picture as an SVG document."""
        rows, cols = self.cells.shape
        cell = max(3.0, min(14.0, 420.0 / max(rows, cols)))
        left, top = 12.0, 30.0
        width, height = max(260.0, cols * cell + 2 * left), rows * cell + top + 26
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" role="img" '
            'shape-rendering="crispEdges">',  # else rows of cells show as lines
            f"<title>{escape(self.title)}</title>",
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            f'<text x="{left:g}" y="18" font-family="monospace" font-size="12">'
            f"{escape(_cut(self.title, width))}</text>",
            f'<rect x="{left:g}" y="{top:g}" width="{cols * cell:g}" height="{rows * cell:g}" fill="{_EMPTY}"/>',
        ]
        for i, row in enumerate(self.cells):
            parts.extend(
                f'<rect x="{left + begin * cell:g}" y="{top + i * cell:g}" width="{(end - begin) * cell:g}" '
                f'height="{cell:g}" fill="{color}"/>'
                for begin, end, color in _stretches([float(x) for x in row])
            )
        parts.append(
            f'<text x="{left:g}" y="{height - 8:g}" font-family="monospace" font-size="11" fill="#555555">'
            f"{self.s_q} queries x {self.s_kv} keys, {self.kept:.1%} kept</text></svg>"
        )
        return "".join(parts)

    def save(self, path: str | Path) -> None:
        """Writes the SVG."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


def _shade(share: float) -> str:
    if share <= 0:
        return _SHADES[0]
    return _SHADES[4] if share >= 1 else _SHADES[1 + min(2, int(share * 3))]


def _color(share: float) -> str | None:
    return None if share <= 0 else _FULL if share >= 1 else _PARTIAL


def _stretches(shares: list[float]) -> list[tuple[int, int, str]]:
    """Neighbours of one colour as one rectangle."""
    found: list[tuple[int, int, str]] = []
    for j, share in enumerate(shares):
        color = _color(share)
        if color is None:
            continue
        if found and found[-1][1] == j and found[-1][2] == color:
            found[-1] = (found[-1][0], j + 1, color)
        else:
            found.append((j, j + 1, color))
    return found


def _cut(text: str, width: float) -> str:
    most = int(width / 7.4) - 3
    return text if len(text) <= most else text[: most - 3] + "..."
