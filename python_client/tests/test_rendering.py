"""Tests that render the boards of every game as text and as pictures."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import RecordVideo
from gymnasium.wrappers.vector import RecordVideo as VectorRecordVideo

import twofold
from twofold import errors
from twofold.games.drawing import Picture, draw_board, tile

IDS = ["twofold/Game2048-v0", "twofold/Concentration-v0"]
EMPTY, TWO, FOUR = (205, 193, 180), (238, 228, 218), (237, 224, 200)


def has(picture: Any, colour: tuple[int, int, int]) -> bool:
    return bool((picture == colour).all(axis=-1).any())


@pytest.mark.parametrize("game", IDS)
@pytest.mark.parametrize("size", [32, 33, 100, 512, 1000])
def test_a_picture_has_the_requested_size_and_even_sides(game: str, size: int) -> None:
    env = gym.make(game, render_mode="rgb_array", render_size=size)
    env.reset(seed=0)
    picture = env.render()
    assert isinstance(picture, np.ndarray)
    assert picture.dtype == np.uint8
    assert picture.shape == (size - size % 2, size - size % 2, 3)
    assert picture.flags.writeable
    env.close()


@pytest.mark.parametrize("size", [(2, 8), (8, 2), (3, 5)])
def test_a_picture_is_as_wide_as_its_board(size: tuple[int, int]) -> None:
    env = gym.make(IDS[0], render_mode="rgb_array", render_size=400, size=size)
    env.reset(seed=0)
    picture = env.render()
    assert isinstance(picture, np.ndarray)
    height, width = picture.shape[:2]
    assert max(height, width) == 400
    assert (height < width) == (size[0] < size[1])
    assert height % 2 == width % 2 == 0
    assert height / width == pytest.approx(size[0] / size[1], rel=0.12)
    env.close()


def test_tiles_have_the_colours_of_the_original_game() -> None:
    envs = twofold.Game2048VectorEnv(1, render_mode="rgb_array", endpoint="embedded", size=2)
    envs.reset(seed=0, options={"boards": [[[1, 0], [2, 0]]]})
    frames = envs.render()
    assert frames is not None
    picture: Any = frames[0]
    quarter = picture.shape[0] // 4
    # Away from the middle of each cell, where no digit is.
    corners = [
        picture[row, column]
        for row in (quarter // 2, 5 * quarter // 2)
        for column in (quarter // 2, 5 * quarter // 2)
    ]
    assert [tuple(corner) for corner in corners] == [TWO, EMPTY, FOUR, EMPTY]
    envs.close()


def test_every_tile_up_to_the_largest_can_be_drawn_and_no_two_look_the_same() -> None:
    envs = twofold.Game2048VectorEnv(20, render_mode="rgb_array", endpoint="embedded", size=2)
    boards = np.zeros((20, 2, 2), np.uint8)
    boards[:, 0, 0] = np.arange(1, 21)
    envs.reset(seed=0, options={"boards": boards})
    frames = envs.render()
    assert frames is not None
    assert len({np.asarray(frame).tobytes() for frame in frames}) == 20
    envs.close()


def test_the_same_board_gives_the_same_picture_and_rendering_changes_nothing() -> None:
    env = gym.make(IDS[1], render_mode="rgb_array")
    env.reset(seed=0)
    before = env.step(3)[0]
    first: Any = env.render()
    again: Any = env.render()
    assert (first == again).all()
    first[:] = 0
    assert (env.render() == again).all()
    assert env.unwrapped.observe()[0].tolist() == before.tolist()  # type: ignore[attr-defined]
    env.close()


def test_cards_look_different_face_down_face_up_and_removed() -> None:
    envs = twofold.ConcentrationVectorEnv(1, size=2, render_mode="rgb_array", endpoint="embedded")
    envs.reset(seed=0, options={"boards": [[[0, 1], [0, 1]]]})
    seen = []
    for action in (0, 2, 1):
        envs.step([action])
        frames = envs.render()
        assert frames is not None
        seen.append(np.array(frames[0]))
    back, face, gone = (45, 75, 130), (250, 248, 240), (34, 82, 62)
    assert has(seen[0], back)
    assert has(seen[0], face)
    assert not has(seen[0], gone)
    assert has(seen[2], gone)
    envs.close()


def test_cards_are_shown_as_text() -> None:
    envs = twofold.ConcentrationVectorEnv(
        1, size=2, render_mode="ansi", observe_last_action=True, endpoint="embedded"
    )
    envs.reset(seed=0, options={"boards": [[[0, 1], [0, 1]]]})
    for action in (0, 2, 1):
        envs.step([action])
    assert envs.render() == (".  2\n.  ?",)
    envs.close()


def test_a_grid_too_wide_for_a_picture_is_refused_with_the_number_of_columns() -> None:
    envs = twofold.Game2048VectorEnv(700)
    envs.reset(seed=0)
    with pytest.raises(
        errors.InvalidArgument, match="columns is 700; expected at most 682"
    ) as caught:
        envs.render_grid(columns=700)
    assert caught.value.field == "columns"
    assert envs.render_grid(columns=682, width=16384).shape[1] == 16376
    envs.close()


@pytest.mark.parametrize("size", [(1, 10), (4, 13), (16, 8)])
def test_no_card_of_the_smallest_boards_in_a_grid_is_cut_off(size: tuple[int, int]) -> None:
    envs = twofold.ConcentrationVectorEnv(2, size=size, endpoint="embedded")
    envs.reset(seed=0)
    with pytest.raises(errors.InvalidArgument, match="expected") as caught:
        envs.render_grid(width=40)
    smallest = int(re.findall(r"\d+", str(caught.value))[1])
    wall = envs.render_grid(width=smallest)
    # The smallest card is one pixel.
    cards = ((wall != (38, 92, 70)).any(axis=2) & (wall != (250, 248, 239)).any(axis=2)).sum()
    assert cards == 2 * size[0] * size[1]
    envs.close()


@pytest.mark.parametrize("game", IDS)
def test_all_boards_fit_into_a_grid(game: str) -> None:
    envs = gym.make_vec(game, num_envs=7)
    envs.reset(seed=0)
    unwrapped: Any = envs.unwrapped
    wall = unwrapped.render_grid(width=500)
    assert wall.dtype == np.uint8
    assert wall.shape[0] % 2 == wall.shape[1] % 2 == 0
    assert 480 <= wall.shape[1] <= 500
    in_a_row = unwrapped.render_grid(columns=7, width=500)
    assert in_a_row.shape[0] < in_a_row.shape[1] / 5
    for arguments in ({"columns": 0}, {"width": 40}, {"columns": 2.5}):
        with pytest.raises(errors.InvalidArgument) as caught:
            unwrapped.render_grid(**arguments)
        assert caught.value.field in arguments
    envs.close()


@pytest.mark.parametrize("game", IDS)
def test_record_video_works(tmp_path: Path, game: str) -> None:
    env = RecordVideo(
        gym.make(game, render_mode="rgb_array", render_size=64), str(tmp_path), video_length=5
    )
    env.reset(seed=0)
    for action in range(4):
        env.step(action)
    env.close()  # type: ignore[no-untyped-call]
    assert [path.stat().st_size > 500 for path in tmp_path.glob("*.mp4")] == [True]


def test_record_video_of_a_batch_works(tmp_path: Path) -> None:
    envs = gym.make_vec(IDS[1], num_envs=4, render_mode="rgb_array", render_size=64)
    recorded = VectorRecordVideo(envs, str(tmp_path), video_length=5)
    recorded.reset(seed=0)
    for action in range(6):
        recorded.step(np.full(4, action))
    recorded.close()
    assert [path.stat().st_size > 500 for path in tmp_path.glob("*.mp4")] == [True]


# ---- drawing -------------------------------------------------------------------------------------


def test_importing_the_package_does_not_import_pillow() -> None:
    code = "import sys, twofold; print('PIL' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


@pytest.mark.parametrize("size", [16, 41, 200, 1900])
def test_a_tile_is_a_rounded_square_with_smooth_edges(size: int) -> None:
    picture = tile(size, (0, 0, 0), (200, 200, 200))
    assert picture.shape == (size, size, 3)
    assert picture.dtype == np.uint8
    assert picture[0, 0, 0] < 200
    assert picture[size // 2, size // 2].tolist() == [200, 200, 200]
    corners = (4 - np.pi) * (0.07 * size) ** 2
    assert picture[..., 0].sum() / 200 == pytest.approx(size**2 - corners, rel=0.01)
    assert ((picture > 0) & (picture < 200)).any()


@pytest.mark.parametrize("text", ["4", "2048", "2147483648"])
def test_a_number_is_centred_and_fits_its_tile(text: str) -> None:
    picture = tile(200, (0, 0, 0), (0, 0, 0), text, (255, 255, 255))
    inked = picture[..., 0] > 127
    for axis, largest in ((0, 0.88 * 200), (1, 0.46 * 200)):
        places = np.flatnonzero(inked.any(axis))
        assert places[-1] - places[0] <= largest
        assert abs(places[-1] + places[0] - 199) <= 4


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (4, 4), (8, 16), (16, 2)])
def test_all_cells_of_a_board_have_the_same_size_and_are_inside(rows: int, columns: int) -> None:
    sides: list[int] = []

    def cell(_: int, side: int) -> Picture:
        sides.append(side)
        return np.ones((side, side, 3), np.uint8)

    for size in (32, 77, 512):
        sides.clear()
        picture = draw_board(np.zeros((rows, columns), np.uint8), size, (0, 0, 0), cell)
        assert picture.sum() == 3 * sum(side**2 for side in sides), "no two overlap, none is cut"
        assert len(sides) == rows * columns
        assert max(picture.shape) == size - size % 2
