"""A wall of boards of 2048, played by the service's expectimax from two tiles to 2048 and above."""

from __future__ import annotations

from pathlib import Path

import animation
import numpy as np

import twofold

# With it no game on the wall ends before the last step, and all boards reach 2048.
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
    """Writes the animation, which repeats without a seam.

    A board shows `shown` of its positions, further and further apart, and stays for `still` more of
    these times on the last. It changes in every second frame, its neighbours in the frames between;
    and each begins a frame after its left and its upper neighbour.

    Args:
        path: The file.
        rows: Boards in a column.
        columns: Boards in a row.
        width: Pixels.
        steps: The steps that each game is played for.
        shown: How many positions of a game are shown.
        still: How long the last one stays.
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
