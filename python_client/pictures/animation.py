"""Animations with few colours, as GIF or as WebP (a third of the size)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from twofold.games.drawing import Picture

# The palette's last entry is transparent: the pixel of the previous frame stays visible.
_UNCHANGED = 255


def save(path: Path, frames: Sequence[Picture], milliseconds: int | Sequence[int]) -> None:
    """Writes an animation that loops forever. WebP is lossless, and GIF has 255 colours.

    Args:
        path: The file, .gif or .webp.
        frames: Pictures of the same size.
        milliseconds: The duration of every frame in milliseconds, or a list with the duration of
            each frame.
    """
    if path.suffix == ".gif":
        images = _gif_frames(frames)
        # Each frame is drawn over the previous one.
        how: dict[str, Any] = {"transparency": _UNCHANGED, "disposal": 1}
    else:
        images = [Image.fromarray(frame) for frame in frames]
        how = {"lossless": True, "method": 4, "quality": 80}
    images[0].save(
        path, save_all=True, append_images=images[1:], duration=milliseconds, loop=0, **how
    )


def _gif_frames(frames: Sequence[Picture]) -> list[Image.Image]:
    """Converts frames to images with a palette. Pixels that do not change become transparent."""
    number_of, palette = _palette(frames)
    images = []
    before = np.full(frames[0].shape[:2], _UNCHANGED, np.uint8)
    for frame in frames:
        numbers = number_of[_codes(frame)]
        image = Image.fromarray(np.where(numbers == before, np.uint8(_UNCHANGED), numbers))
        image.putpalette(palette)
        images.append(image)
        before = numbers
    return images


def _palette(frames: Sequence[Picture]) -> tuple[NDArray[np.uint8], bytes]:
    """Returns each colour's index in the palette, uint8 (2^24,), and the palette of 256 colours.

    The palette contains the most frequent colours. Other colours, which occur on smooth edges, get
    the index of the nearest colour in the palette.
    """
    counts: Counter[int] = Counter()
    for frame in frames:
        codes, count = np.unique(_codes(frame), return_counts=True)
        counts.update(dict(zip(codes.tolist(), count.tolist(), strict=True)))
    codes = np.array([code for code, _ in counts.most_common()])
    colours = np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=1)
    chosen = colours[:_UNCHANGED]
    number_of = np.zeros(1 << 24, np.uint8)
    number_of[codes] = ((colours[:, np.newaxis] - chosen) ** 2).sum(axis=2).argmin(axis=1)
    return number_of, chosen.astype(np.uint8).tobytes().ljust(3 * 256, b"\0")


def _codes(frame: Picture) -> NDArray[np.uint32]:
    """Encodes the colours of a picture as integers, uint32 (height, width)."""
    return np.asarray(frame @ np.array([1 << 16, 1 << 8, 1], np.uint32), np.uint32)
