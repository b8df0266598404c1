"""Animated games of 2048 and Concentration, for the environments' pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import animation
import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from palette import CARD, INK
from PIL import Image, ImageDraw, ImageFont

import twofold
from twofold.games.concentration import PEEK
from twofold.games.drawing import Picture
from twofold.games.game2048 import DIRECTIONS
from twofold.policies import PerfectMemory
from twofold.rules import Slide, explain

# The four cells and five gaps fill a board of this many pixels exactly.
SIZE, CELL, GAP = 288, 62, 8
MOVES = 30
# The height of the strip above a board.
STRIP = 38


def draw_game2048(path: Path) -> None:
    """Writes an animation of the last moves before a 2048 tile, with sliding tiles.

    Above each board are its score and the next action.
    """
    envs = twofold.Game2048VectorEnv(1, render_mode="rgb_array", render_size=SIZE)

    def render(board: NDArray[np.uint8]) -> Picture:
        envs.reset(options={"boards": board[np.newaxis]})
        rendered: Any = envs.render()
        return np.asarray(rendered[0])

    envs.reset(seed=0)
    game = envs.rollout(1200, policy="expectimax")
    boards, actions = game.observations[:, 0], game.actions[:, 0]
    scores = np.concatenate([[0], game.rewards[:, 0].cumsum()])
    last = int((boards.max(axis=(1, 2)) == 11).argmax())
    empty = render(boards[0])[_place(int(boards[0].argmin()))]
    frames, milliseconds = [], []
    for step in range(last - MOVES, last):
        board = render(boards[step])
        happened = explain(boards[step], actions[step], boards[step + 1])
        slides = [one for one in happened if isinstance(one, Slide)]
        words = f"score {scores[step]:,.0f}", DIRECTIONS[actions[step]]
        moving = [_under_way(board, slides, share, empty) for share in (0.3, 0.7)]
        frames += [_with_strip(picture, *words) for picture in (board, *moving)]
        milliseconds += [160, 40, 40]
    frames.append(_with_strip(render(boards[last]), f"score {scores[last]:,.0f}", "2048!"))
    envs.close()
    animation.save(path, frames, [*milliseconds, 2500])


def _under_way(board: Picture, slides: list[Slide], share: float, empty: Picture) -> Picture:
    """Returns a board's picture during a move, when tiles have moved `share` of the distance."""
    picture: Picture = board.copy()
    for slide in slides:
        picture[_place(slide.source)] = empty
    for slide in slides:
        picture[_place(slide.source, slide.target, share)] = board[_place(slide.source)]
    return picture


def _place(cell: int, target: int = 0, share: float = 0) -> tuple[slice, slice]:
    """Returns the pixel rows and columns of a cell, or of a tile that slides to `target`."""
    place = np.array(divmod(cell, 4)) * (1 - share) + np.array(divmod(target, 4)) * share
    top, left = map(int, GAP + np.rint(place * (CELL + GAP)))
    return slice(top, top + CELL), slice(left, left + CELL)


def draw_concentration(path: Path) -> None:
    """Writes an animation of a game with a perfect memory, which peeks after the third turn.

    Above each picture are the return so far and the action that led to the picture.
    """
    env: Any = gym.make("twofold/Concentration-v0", render_mode="rgb_array", render_size=SIZE)
    memory, peek = PerfectMemory(env), env.action_space.n - 1
    observation, info = env.reset(seed=0)
    total, frames = 0.0, [_with_strip(env.render(), "return 0.0", "")]
    milliseconds, is_over = [800], False
    while not is_over:
        action = memory(observation, info["action_mask"])
        if info["turns"] == 3 and info["peeks"] == 0:
            action = peek
        observation, reward, is_over, _, info = env.step(action)
        total += reward
        word = PEEK if action == peek else f"card {action}"
        frames.append(_with_strip(env.render(), f"return {total:.1f}", word))
        milliseconds.append(2000 if action == peek else 600)
    env.close()
    milliseconds[-1] = 2000
    animation.save(path, frames, milliseconds)


def _with_strip(board: Picture, left: str, right: str) -> Picture:
    """Returns a board's picture with a strip above it, with text on the left and right."""
    strip = Image.new("RGB", (SIZE, STRIP), CARD)
    draw, font = ImageDraw.Draw(strip), ImageFont.load_default(19)
    draw.text((GAP, STRIP / 2), left, INK, font, "lm")
    draw.text((SIZE - GAP, STRIP / 2), right, INK, font, "rm")
    return np.vstack([np.asarray(strip), board])
