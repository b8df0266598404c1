"""Pictures of boards: rounded rectangles and numbers, smooth at any size, with numpy alone.

A shape is a distance: how far each pixel's middle is inside or outside of it. A pixel is covered by
as much as its distance says, so edges are smooth and nothing is ever scaled up. Numbers are strokes
of a round pen, on a grid of their own:

    (0, 0) ───────── x 0.6
       │   ╭───╮
       │   │   │         polylines; arcs are cut into short pieces
       │   ╰───╯
    y 1.0
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Picture: TypeAlias = NDArray[np.uint8]
"""(height, width, 3)."""
Colour: TypeAlias = tuple[int, int, int]
Coverage: TypeAlias = NDArray[np.float32]
"""(height, width), 0 ... 1: how much of each pixel a shape covers."""
_Stroke: TypeAlias = list[tuple[float, float]]

_WALL: Colour = (250, 248, 239)
PEN = 0.17
"""The width of a stroke, where a digit is 1 high."""
_ADVANCE = 0.7


def _arc(x: float, y: float, rx: float, ry: float, start: float, end: float) -> _Stroke:
    """Part of an ellipse, from one angle to another: degrees, clockwise from the right."""
    pieces = max(2, math.ceil(abs(end - start) / 12))
    angles = np.radians(np.linspace(start, end, pieces + 1))
    return [(x + rx * math.cos(a), y + ry * math.sin(a)) for a in angles]


_TOP, _BOTTOM = 0.085, 0.915
_DIGITS: dict[str, list[_Stroke]] = {
    "0": [_arc(0.3, 0.5, 0.215, 0.415, 0, 360)],
    "1": [[(0.13, 0.25), (0.34, _TOP), (0.34, _BOTTOM)]],
    "2": [
        [
            *_arc(0.3, 0.315, 0.205, 0.23, 188, 390),
            (0.09, _BOTTOM),
            (0.53, _BOTTOM),
        ]
    ],
    "3": [
        _arc(0.285, 0.285, 0.2, 0.2, 205, 450),
        _arc(0.285, 0.7, 0.225, 0.215, 270, 515),
    ],
    "4": [[(0.4, _BOTTOM), (0.4, _TOP), (0.06, 0.68), (0.56, 0.68)]],
    "5": [
        [
            (0.49, _TOP),
            (0.15, _TOP),
            (0.12, 0.44),
            *_arc(0.285, 0.64, 0.23, 0.275, 235, 510),
        ]
    ],
    "6": [
        [(0.43, _TOP), *_arc(0.44, 0.62, 0.36, 0.42, 243, 186)],
        _arc(0.3, 0.655, 0.22, 0.26, 0, 360),
    ],
    "7": [[(0.07, _TOP), (0.52, _TOP), (0.22, _BOTTOM)]],
    "8": [
        _arc(0.3, 0.285, 0.185, 0.2, 0, 360),
        _arc(0.3, 0.7, 0.225, 0.215, 0, 360),
    ],
    "9": [
        _arc(0.3, 0.345, 0.22, 0.26, 0, 360),
        [(0.17, _BOTTOM), *_arc(0.16, 0.38, 0.36, 0.42, 63, 6)],
    ],
}


def _cover(distance: NDArray[np.floating]) -> Coverage:
    """How much of a pixel is inside, by how far its middle is outside."""
    covered: Coverage = np.clip(0.5 - distance, 0, 1).astype(np.float32)
    return covered


def rounded_rectangle(height: int, width: int, radius: float, inset: float = 0) -> Coverage:
    """A rectangle that fills (height, width) but for `inset` pixels on all sides."""
    y = np.abs(np.arange(height)[:, None] + 0.5 - height / 2) - (height / 2 - inset - radius)
    x = np.abs(np.arange(width)[None, :] + 0.5 - width / 2) - (width / 2 - inset - radius)
    outside = np.hypot(np.maximum(x, 0), np.maximum(y, 0))
    return _cover(outside + np.minimum(np.maximum(x, y), 0) - radius)


def stripes(size: int, distance: float) -> Coverage:
    """Two crossing sets of diagonal lines over a square, so far apart."""
    x, y = np.arange(size)[None, :] + 0.5, np.arange(size)[:, None] + 0.5
    lines = np.full((size, size), np.inf)
    for across in (x + y - size, x - y):
        offset = np.abs((across / math.sqrt(2) + distance / 2) % distance - distance / 2)
        np.minimum(lines, offset, out=lines)
    return _cover(lines - distance / 8)


def number(text: str, height: int, width: int, tallest: float, widest: float) -> Coverage:
    """Digits in the middle of (height, width), at most so tall and so wide."""
    length = (len(text) - 1) * _ADVANCE + 0.6
    scale = min(tallest, widest / length)
    left, top = (width - length * scale) / 2, (height - scale) / 2
    y = (np.arange(height)[:, None] + 0.5 - top) / scale
    x = (np.arange(width)[None, :] + 0.5 - left) / scale
    nearest = np.full((height, width), np.inf)
    for place, digit in enumerate(text):
        for stroke in _DIGITS[digit]:
            points = np.array(stroke) + np.array([place * _ADVANCE, 0])
            for start, end in itertools.pairwise(points):
                np.minimum(nearest, _segment(x, y, start, end), out=nearest)
    return _cover((nearest - PEN / 2) * scale)


def _segment(
    x: NDArray[np.floating],
    y: NDArray[np.floating],
    start: NDArray[np.floating],
    end: NDArray[np.floating],
) -> NDArray[np.floating]:
    """The distance of each point to the straight line between two others."""
    along = end - start
    length = float(along @ along)
    at = np.clip(((x - start[0]) * along[0] + (y - start[1]) * along[1]) / length, 0, 1)
    away: NDArray[np.floating] = np.hypot(
        x - start[0] - at * along[0], y - start[1] - at * along[1]
    )
    return away


def fill(height: int, width: int, colour: Colour) -> Picture:
    """One colour."""
    picture: Picture = np.full((height, width, 3), colour, np.uint8)
    return picture


def paint(picture: Picture, coverage: Coverage, colour: Colour) -> None:
    """Lays a colour over a picture of the same height and width, where the shape covers it."""
    share = coverage[..., None]
    picture[:] = np.rint(picture * (1 - share) + np.array(colour, np.float32) * share)


@functools.lru_cache(maxsize=512)
def tile(
    size: int, ground: Colour, face: Colour, text: str = "", ink: Colour = (0, 0, 0)
) -> Picture:
    """A rounded square with a number on it, on a ground; not to be written to."""
    picture = fill(size, size, ground)
    paint(picture, rounded_rectangle(size, size, size * 0.07), face)
    if text:
        paint(picture, number(text, size, size, size * 0.46, size * 0.8), ink)
    picture.flags.writeable = False
    return picture


class Grid:
    """Where rows x columns square cells lie in a picture.

    Edges fall between pixels, so all cells and all gaps are alike; what is left over goes to the
    margins. Height and width are even, which video codecs ask for.

    Args:
        rows: Rows of cells.
        columns: Columns of cells.
        size: Pixels along the longer side of the picture; odd numbers lose one.
        gap: The gap's share of a cell.
    """

    def __init__(self, rows: int, columns: int, size: int, gap: float) -> None:
        longer, shorter = max(rows, columns), min(rows, columns)
        size -= size % 2
        self.gap = max(1, round(size / (longer / gap + longer + 1)))
        self.cell = max(1, (size - self.gap * (longer + 1)) // longer)
        pitch = self.cell + self.gap
        other = shorter * pitch + self.gap + size - (longer * pitch + self.gap)
        other += other % 2
        self.height, self.width = (size, other) if rows >= columns else (other, size)
        self._top = (self.height - rows * pitch + self.gap) // 2
        self._left = (self.width - columns * pitch + self.gap) // 2

    def place(self, picture: Picture, row: int, column: int, cell: Picture) -> None:
        """Puts a square of `cell` pixels into its place."""
        top = self._top + row * (self.cell + self.gap)
        left = self._left + column * (self.cell + self.gap)
        picture[top : top + self.cell, left : left + self.cell] = cell


def grid(pictures: Sequence[Picture], columns: int, gap: int) -> Picture:
    """Pictures of one size, with even sides, side by side, row by row; `gap` is even too."""
    height, width = pictures[0].shape[:2]
    rows = -(-len(pictures) // columns)
    whole = fill(rows * (height + gap) + gap, columns * (width + gap) + gap, _WALL)
    for index, picture in enumerate(pictures):
        top = gap + index // columns * (height + gap)
        left = gap + index % columns * (width + gap)
        whole[top : top + height, left : left + width] = picture
    return whole
