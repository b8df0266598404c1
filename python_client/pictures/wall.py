"""A wall of boards, on which the service's expectimax plays from two tiles to 2048 and beyond."""

from __future__ import annotations

from pathlib import Path

import animation
import numpy as np

import twofold

# With this seed, no game on the wall ends before the last step, and all boards reach 2048.
SEED = 1000
MILLISECONDS = 100


def draw(
    path: Path,
    rows: int = 3,
    columns: int = 5,
    width: int = 800,
    steps: int = 1880,
    shown: int = 21,
    still: int = 10,
) -> None:
    """Writes the animation, which loops seamlessly.

    Each board shows `shown` positions of its game, with growing gaps between them, and then
    keeps the last position for `still` more periods. A period is two frames. Each board is one
    frame behind its left and its upper neighbour, so neighbours never change in the same frame.

    Args:
        path: The file.
        rows: The number of boards in a column.
        columns: The number of boards in a row.
        width: The width of the animation, in pixels.
        steps: The number of steps in each game.
        shown: The number of positions of each game to show.
        still: The number of further periods that show the last position.
    """
    envs = twofold.Game2048VectorEnv(rows * columns)
    envs.reset(seed=SEED)
    boards = envs.rollout(steps, policy=twofold.policies.Expectimax(depth=3)).observations
    times = np.rint(steps * np.linspace(0, 1, shown) ** 2).astype(int)
    times = np.append(times, [steps] * still)
    row, column = np.divmod(np.arange(rows * columns), columns)
    frames = []
    for frame in range(2 * len(times)):
        time = times[(frame - row - column) % (2 * len(times)) // 2]
        envs.reset(options={"boards": boards[time, np.arange(rows * columns)]})
        frames.append(envs.render_grid(columns, width))
    envs.close()
    animation.save(path, frames, MILLISECONDS)
