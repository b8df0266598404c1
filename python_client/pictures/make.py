"""Makes the documents' pictures in docs/pictures, from docs/figures and from played games.

python python_client/pictures/make.py                   all pictures: two minutes
python python_client/pictures/make.py wall.webp         only this one
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))

import boards
import carriers
import charts
import evaluation_report
import figures
import plot
import replay_page
import wall

FOLDER = figures.REPOSITORY / "docs" / "pictures"


def draw_benchmark(path: Path) -> None:
    """Draws the steps per second of each contestant."""
    measured = figures.read("bench")
    plot.draw(measured["rows"], measured["machine"], path)


MAKERS: dict[str, Callable[[Path], None]] = {
    "benchmark.png": draw_benchmark,
    "training.png": charts.draw_training,
    "ppo.png": charts.draw_ppo,
    "regret.png": charts.draw_regret,
    "score_per_second.png": charts.draw_score_per_second,
    "memory.png": charts.draw_memory,
    "carriers.svg": carriers.draw,
    "evaluation.png": evaluation_report.draw,
    "replay.png": replay_page.draw,
    "game2048.webp": boards.draw_game2048,
    "concentration.webp": boards.draw_concentration,
    "wall.webp": wall.draw,
}
"""The pictures, and the function that writes each."""


def main() -> None:
    """Runs the command."""
    import oxipng

    parser = argparse.ArgumentParser(description="Makes the pictures in docs/pictures.")
    parser.add_argument("pictures", nargs="*", help="picture names (default: all)")
    arguments = parser.parse_args()
    if unknown := set(arguments.pictures) - set(MAKERS):
        parser.error(f"no picture {', '.join(unknown)}; the pictures are {', '.join(MAKERS)}")
    for name in arguments.pictures or MAKERS:
        path = FOLDER / name
        MAKERS[name](path)
        if path.suffix == ".png":
            oxipng.optimize(path, level=6, strip=oxipng.StripChunks.safe())
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
