"""A screenshot of the page that `twofold replay --html` writes, in the middle of a game."""

from __future__ import annotations

import tempfile
from pathlib import Path

from browser import screenshot

import twofold


def draw(path: Path) -> None:
    """Records a game, and writes the picture of its page."""
    recording = twofold.evaluate("expectimax", episodes=1, record=True).recording(0)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "game.html")
        page.write_text(recording.to_html())
        screenshot(page, path, scrubbed=len(recording.actions) // 2)
