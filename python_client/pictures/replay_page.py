"""A screenshot of the page that `twofold replay --html` writes, in the middle of a game."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import twofold


def draw(path: Path) -> None:
    """Records a game, opens its page in Chromium, and writes the picture."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("there is no Chromium; on Debian: apt install chromium")
    recording = twofold.evaluate("expectimax", episodes=1, record=True).recording(0)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder, "game.html")
        file.write_text(recording.to_html())
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 560, "height": 400}, device_scale_factor=2)
        page.goto(file.as_uri())
        page.fill("#scrubber", str(len(recording.actions) // 2))
        page.locator("#scrubber").blur()
        page.screenshot(path=path, full_page=True)
        browser.close()
