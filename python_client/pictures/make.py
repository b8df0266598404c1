"""Makes the documents' pictures, in docs/pictures, from real runs.

python python_client/pictures/make.py                   all pictures, in ten minutes
python python_client/pictures/make.py wall.png          only this one
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))

import boards
import figures
import learning_curve
import oxipng
import plot
import regret_curves
import replay_page
import training_curves
import wall

REPOSITORY = Path(__file__).resolve().parents[2]
PICTURES = REPOSITORY / "docs" / "pictures"
RUNS = REPOSITORY / "runs"


def benchmark(path: Path) -> None:
    """Draws the benchmark's figures from docs/figures."""
    measured = figures.read("bench")
    plot.draw(measured["rows"], measured["machine"], path)


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description="Makes the pictures in docs/pictures.")
    parser.add_argument("pictures", nargs="*", help="names of pictures (default: all)")
    parser.add_argument(
        "--seconds", type=float, default=120, help="duration of each training run (default 120)"
    )
    arguments = parser.parse_args()
    learn = partial(learning_curve.draw, seconds=arguments.seconds, reports=RUNS / "learning_curve")
    # Pictures that need other results come first, and the picture that takes minutes comes last.
    draw: dict[str, Callable[[Path], None]] = {
        "benchmark.png": benchmark,
        "training.png": partial(training_curves.draw, runs=RUNS / "training"),
        "regret.png": partial(regret_curves.draw, runs=RUNS / "regret"),
        "replay.png": replay_page.draw,
        "wall.png": wall.draw,
        "game2048.gif": boards.draw_game2048,
        "concentration.gif": boards.draw_concentration,
        "learning_curve.png": learn,
    }
    if unknown := set(arguments.pictures) - set(draw):
        parser.error(f"there is no picture {', '.join(unknown)}; choose from {', '.join(draw)}")
    PICTURES.mkdir(exist_ok=True)
    for name in arguments.pictures or draw:
        path = PICTURES / name
        draw[name](path)
        if path.suffix == ".png":
            oxipng.optimize(path, level=6, strip=oxipng.StripChunks.safe())
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
