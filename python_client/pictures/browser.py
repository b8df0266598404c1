"""Takes screenshots of HTML pages in Chromium."""

from __future__ import annotations

import shutil
from pathlib import Path

# Documents show a picture 800 pixels wide. High-density screens use four pixels for each of them.
WIDTH, SCALE = 800, 2


def screenshot(page: Path, path: Path, scrubbed: int | None = None) -> None:
    """Saves a screenshot of a page.

    Args:
        page: The page's file.
        path: The image file.
        scrubbed: The step to show on a replay page; None for other pages.
    """
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("Chromium is missing; on Debian: apt install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        opened = browser.new_page(
            viewport={"width": WIDTH, "height": 300}, device_scale_factor=SCALE
        )
        opened.goto(page.as_uri())
        if scrubbed is not None:
            opened.fill("#scrubber", str(scrubbed))
            opened.locator("#scrubber").blur()
        opened.screenshot(path=path, full_page=True)
        browser.close()
