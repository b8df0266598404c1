"""The programs in docs/rules.md run, and do what they say."""

import os
import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def programs(page: str) -> list[str]:
    """The Python programs of a page."""
    return re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


def test_the_expectimax_of_the_page_plays_far_better_than_random() -> None:
    (program,) = programs("rules.md")
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "TWOFOLD_ENDPOINT": "embedded"},
        timeout=100,
    )
    assert ran.stderr == ""
    score = re.fullmatch(r"mean score after 300 moves: ([\d.]+)\n", ran.stdout)
    # Random play has ended long before, at 1,095 on the mean; 300 moves without a loss are worth
    # about 5,000.
    assert score is not None
    assert float(score[1]) > 3000
