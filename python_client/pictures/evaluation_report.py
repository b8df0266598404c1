"""A screenshot of an evaluation's report as notebooks show it, with its plot."""

from __future__ import annotations

import tempfile
from pathlib import Path

import matplotlib.style
from browser import screenshot
from palette import CARD, INK
from plot import STYLE

import twofold

# The plot is 11 inches wide, whereas the documents' charts are 8.
LARGER = {"font.size": 12.5, "axes.titlesize": 13.5, "legend.frameon": True}
PAGE = f"""<!doctype html>
<meta charset="utf-8">
<style>
body {{ margin: 0; padding: 12px 20px; background: {CARD}; color: {INK};
  font: 13px 'DejaVu Sans', Verdana, sans-serif; }}
table {{ border-collapse: collapse; margin: 10px 0; }}
th, td {{ padding: 3px 9px; text-align: right; }}
tr:nth-child(even) {{ background: #efebdd; }}
td:first-child, th:first-child {{ text-align: left; }}
pre {{ font: 12px 'DejaVu Sans Mono', monospace; white-space: pre-wrap; }}
img {{ width: 100%; }}
</style>
"""


def draw(path: Path) -> None:
    """Evaluates a policy and a baseline, and writes the picture of their report."""
    policy = twofold.evaluate("expectimax:1", episodes=500, name="search")
    baseline = twofold.evaluate("fixed-order", episodes=500, name="fixed order")
    with tempfile.TemporaryDirectory() as folder:
        with matplotlib.style.context([STYLE, LARGER]):
            policy.plot(Path(folder, "plot.svg"), baseline)
        parts = policy._repr_html_(), policy.compare(baseline)._repr_html_()
        page = Path(folder, "report.html")
        page.write_text(PAGE + "".join(parts) + '<img src="plot.svg">')
        screenshot(page, path)
