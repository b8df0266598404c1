"""Tests of the documents' pictures, which `make pictures` makes."""

from pathlib import Path

import animation
import numpy as np
import pytest
import wall
from PIL import Image

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
ANIMATIONS = ["concentration.gif", "game2048.gif", "wall.png"]
CHARTS = ["benchmark.png", "learning_curve.png", "regret.png", "training.png"]


def test_every_picture_exists_and_is_small() -> None:
    sizes = {path.name: path.stat().st_size for path in PICTURES.iterdir()}
    assert sizes.keys() >= {*ANIMATIONS, *CHARTS, "replay.png"}
    assert sizes["wall.png"] < 1e6
    assert sizes["game2048.gif"] < 250e3
    assert sizes["concentration.gif"] < 250e3
    assert sum(sizes.values()) < 2.5e6


@pytest.mark.parametrize("name", ANIMATIONS)
def test_an_animation_repeats_forever(name: str) -> None:
    with Image.open(PICTURES / name) as picture:
        assert picture.n_frames > 10
        assert picture.info["loop"] == 0


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_has_a_transparent_background(name: str) -> None:
    with Image.open(PICTURES / name) as picture:
        assert picture.convert("RGBA").getpixel((0, 0))[3] == 0


@pytest.mark.parametrize("suffix", ["gif", "png"])
def test_the_frames_of_an_animation_equal_its_pictures(tmp_path: Path, suffix: str) -> None:
    rng = np.random.default_rng(0)
    colours = rng.integers(0, 256, (255, 3), np.uint8)
    frames = [colours[rng.integers(0, 255, (20, 30))] for _ in range(3)]
    frames[1][:10] = frames[0][:10]
    frames[2][5:] = frames[1][5:]
    path = tmp_path / f"animation.{suffix}"
    animation.save(path, frames, 80)
    with Image.open(path) as picture:
        for number, frame in enumerate(frames):
            picture.seek(number)
            np.testing.assert_array_equal(picture.convert("RGB"), frame)


def test_the_wall_is_the_same_each_time(tmp_path: Path) -> None:
    paths = [tmp_path / "one.png", tmp_path / "two.png"]
    for path in paths:
        wall.draw(path, rows=1, columns=2, width=160, steps=30, shown=6, still=2)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    with Image.open(paths[0]) as picture:
        assert picture.width == 160
        assert picture.n_frames >= 10
