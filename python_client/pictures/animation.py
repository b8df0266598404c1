"""Animations as lossless WebP."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from twofold.games.drawing import Picture


def save(path: Path, frames: Sequence[Picture], milliseconds: int | Sequence[int]) -> None:
    """Writes an animation that loops forever.

    Args:
        path: The file, .webp.
        frames: Pictures of the same size.
        milliseconds: The duration of every frame in milliseconds, or a list with the duration of
            each frame.
    """
    first, *others = (Image.fromarray(frame) for frame in frames)
    first.save(
        path,
        save_all=True,
        append_images=others,
        duration=milliseconds,
        loop=0,
        lossless=True,
        method=4,
        quality=80,
    )
