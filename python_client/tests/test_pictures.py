"""Tests of the documents' pictures, which `make pictures` generates."""

import re
from pathlib import Path

import animation
import make
import numpy as np
import palette
import plot
import pytest
import wall
from PIL import Image, ImageColor

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
ANIMATIONS = ["concentration.webp", "game2048.webp", "wall.webp"]
CHARTS = [
    "benchmark.png",
    "memory.png",
    "ppo.png",
    "regret.png",
    "score_per_second.png",
    "training.png",
]
SHOWN = 800
"""The pixels on which documents show a chart: the width of the text on code hosts, at most."""
SMALLEST_TEXT = 11


def test_each_picture_has_a_maker_and_each_maker_a_picture() -> None:
    assert {path.name for path in PICTURES.iterdir()} == set(make.MAKERS)


@pytest.mark.parametrize("name", make.MAKERS)
def test_a_document_shows_each_picture_and_describes_it(name: str) -> None:
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    shown = [
        description
        for document in documents
        for description in re.findall(
            rf"!\[([^\]]*)\]\([^)]*pictures/{re.escape(name)}\)", document.read_text()
        )
    ]
    assert shown
    assert all(len(description.split()) >= 4 for description in shown)


def test_the_pictures_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in PICTURES.iterdir()}
    assert sizes.pop("wall.webp") < 400e3
    assert max(sizes.values()) < 250e3


@pytest.mark.parametrize("name", ANIMATIONS)
def test_an_animation_repeats_forever(name: str) -> None:
    with Image.open(PICTURES / name) as picture:
        assert picture.n_frames > 10
        assert picture.info["loop"] == 0


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_a_card_with_two_pixels_for_each_that_is_shown(name: str) -> None:
    with Image.open(PICTURES / name) as picture:
        assert picture.width == 2 * SHOWN
        assert picture.convert("RGBA").getpixel((0, 0)) == (*ImageColor.getrgb(palette.CARD), 255)


@pytest.mark.parametrize("color", [palette.INK, *palette.COLORS])
def test_a_color_of_the_palette_is_legible_on_the_card(color: str) -> None:
    darker, lighter = luminance(color), luminance(palette.CARD)
    assert (lighter + 0.05) / (darker + 0.05) >= 4.5  # the contrast that WCAG asks for


def luminance(color: str) -> float:
    """The relative luminance that WCAG defines."""
    channels = np.array(ImageColor.getrgb(color)[:3]) / 255
    linear = np.where(channels <= 0.03928, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_the_text_of_charts_and_of_the_diagram_is_large_enough_where_it_is_shown() -> None:
    assert palette.FONT_SIZE / 72 * SHOWN / plot.WIDTH >= SMALLEST_TEXT
    diagram = (PICTURES / "carriers.svg").read_text()
    assert f'width="{SHOWN}"' in diagram
    assert min(map(int, re.findall(r"(\d+)px", diagram))) >= SMALLEST_TEXT


def test_the_frames_of_an_animation_are_the_pictures(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frames = [rng.integers(0, 256, (20, 30, 3), np.uint8) for _ in range(3)]
    frames[1][:10] = frames[0][:10]
    frames[2][5:] = frames[1][5:]
    path = tmp_path / "animation.webp"
    animation.save(path, frames, 80)
    with Image.open(path) as picture:
        for number, frame in enumerate(frames):
            picture.seek(number)
            np.testing.assert_array_equal(picture.convert("RGB"), frame)


def test_the_wall_is_the_same_each_time(tmp_path: Path) -> None:
    paths = [tmp_path / "one.webp", tmp_path / "two.webp"]
    for path in paths:
        wall.draw(path, rows=1, columns=2, width=160, steps=30, shown=6, still=2)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    with Image.open(paths[0]) as picture:
        assert picture.width == 160
        assert picture.n_frames >= 10
