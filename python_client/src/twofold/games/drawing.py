"""Draws boards with Pillow, as rounded squares with numbers.

A square is drawn at several times its size and scaled down, so that its edges are smooth. Squares
are cached, because a board contains only a few different ones. Drawing the first square imports
Pillow.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL import Image, ImageDraw

Picture: TypeAlias = NDArray[np.uint8]
"""A picture, uint8 (height, width, 3)."""
Colour: TypeAlias = tuple[int, int, int]

_WALL: Colour = (250, 248, 239)

# Pixels of a drawing per pixel of the picture, along each side; fewer for large pictures.
_SCALE = 4
_LARGEST_DRAWING = 4096
# The gap between two cells as a share of a cell.
_GAP = 0.13


@functools.lru_cache(maxsize=512)
def tile(
    size: int, ground: Colour, face: Colour, text: str = "", ink: Colour = (0, 0, 0)
) -> Picture:
    """Draws a rounded square with text, on a background; the picture is read-only."""
    from PIL import ImageDraw

    image = _rounded_square(size, ground, face)
    if text:
        _write(ImageDraw.Draw(image), text, ink, image.width)
    return _scaled_down(image, size)


@functools.lru_cache(maxsize=64)
def striped_tile(size: int, ground: Colour, face: Colour, pattern: Colour) -> Picture:
    """Draws a rounded square with a diagonal grid, on a background; the picture is read-only."""
    from PIL import Image, ImageDraw

    image = _rounded_square(size, ground, face)
    side = image.width
    stripes = Image.new("RGB", image.size, face)
    draw = ImageDraw.Draw(stripes)
    for line in range(-5, 6):
        start = line * 0.21 * side
        draw.line((start, 0, start + side, side), pattern, round(0.0375 * side))
        draw.line((side - start, 0, -start, side), pattern, round(0.0375 * side))
    field = Image.new("L", image.size)
    inset = 0.1 * side, 0.1 * side, 0.9 * side, 0.9 * side
    ImageDraw.Draw(field).rounded_rectangle(inset, 0.04 * side, 255)
    image.paste(stripes, mask=field)
    return _scaled_down(image, size)


def _rounded_square(size: int, ground: Colour, face: Colour) -> Image.Image:
    """Draws a rounded square at several times `size`, for `_scaled_down`."""
    from PIL import Image, ImageDraw

    side = size * min(_SCALE, max(1, _LARGEST_DRAWING // size))
    image = Image.new("RGB", (side, side), ground)
    ImageDraw.Draw(image).rounded_rectangle((0, 0, side - 1, side - 1), 0.07 * side, face)
    return image


def _scaled_down(image: Image.Image, size: int) -> Picture:
    picture: Picture = np.array(image.reduce(image.width // size))
    picture.flags.writeable = False
    return picture


def _write(draw: ImageDraw.ImageDraw, text: str, ink: Colour, side: int) -> None:
    """Writes a number in a square's centre. The number of digits determines the font size."""
    from PIL import ImageFont

    def font_of(size: float) -> ImageFont.FreeTypeFont:
        font = ImageFont.load_default(size)
        assert isinstance(font, ImageFont.FreeTypeFont), "Pillow was built without FreeType"
        return font

    widest = "8" * len(text)
    _, top, width, _ = font_of(100).getbbox(widest, anchor="ls")
    font = font_of(100 * side * min(0.42 / -top, 0.84 / width))
    _, top, _, _ = font.getbbox(widest, anchor="ls")
    left, _, right, _ = font.getbbox(text, anchor="ls")
    start = (side - left - right) / 2, (side - top) / 2
    draw.text(start, text, ink, font, "ls", stroke_width=round(font.size / 24))


def draw_board(
    board: NDArray[np.uint8], size: int, ground: Colour, draw_cell: Callable[[int, int], Picture]
) -> Picture:
    """Draws a board (rows, columns). Its longer side has `size` pixels, or size - 1 if size is odd.

    `draw_cell` draws one square. Its arguments are the number in the cell, and the square's side in
    pixels. All squares have the same size in whole pixels, and so do all gaps; the remaining pixels
    go to the margins. Height and width are even, as video codecs require.
    """
    rows, columns = board.shape
    longer, shorter = max(rows, columns), min(rows, columns)
    size -= size % 2
    gap = max(1, round(size / (longer / _GAP + longer + 1)))
    cell = max(1, (size - gap * (longer + 1)) // longer)
    pitch = cell + gap
    other = shorter * pitch + gap + size - (longer * pitch + gap)
    other += other % 2
    height, width = (size, other) if rows >= columns else (other, size)
    picture: Picture = np.full((height, width, 3), ground, np.uint8)
    for (row, column), number in np.ndenumerate(board):
        top = (height - rows * pitch + gap) // 2 + row * pitch
        left = (width - columns * pitch + gap) // 2 + column * pitch
        picture[top : top + cell, left : left + cell] = draw_cell(int(number), cell)
    return picture


def side_by_side(pictures: Sequence[Picture], columns: int, gap: int) -> Picture:
    """Draws pictures of equal size in a grid, row by row. The size and `gap` must be even."""
    height, width = pictures[0].shape[:2]
    rows = -(-len(pictures) // columns)
    shape = rows * (height + gap) + gap, columns * (width + gap) + gap, 3
    whole: Picture = np.full(shape, _WALL, np.uint8)
    for index, picture in enumerate(pictures):
        top = gap + index // columns * (height + gap)
        left = gap + index % columns * (width + gap)
        whole[top : top + height, left : left + width] = picture
    return whole
