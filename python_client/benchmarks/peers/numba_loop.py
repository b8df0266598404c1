"""An in-process numba loop as a capable user would write it, without transport, server or copies.

    numba_loop.py N

It steps the boards one by one, cell by cell. Each line is read in the direction of the slide,
looked up in a row table and written back. Each board has a SplitMix64 stream, and the next step
resets a finished board. All outputs are written into arrays that are allocated once. The boards
themselves are the observation.
"""

from __future__ import annotations

from typing import Any

import numba  # type: ignore[import-not-found]
import numpy as np
from numpy.typing import NDArray
from row_tables import MOVES, ROWS, SCORE, SLID, next_word
from worker import serve

# LINES[action, line] are the cells of one of a slide's four lines, starting at the edge.
CELLS = np.arange(16).reshape(4, 4)
LINES = np.stack([CELLS.T, CELLS[:, ::-1], CELLS.T[:, ::-1], CELLS]).astype(np.int64)


def _spawn(board: Any, streams: Any, lane: int) -> None:
    """Adds a 2 or, one time in ten, a 4 in a random empty cell."""
    empties = 0
    for cell in range(16):
        empties += board[cell] == 0
    word = random(streams, lane)
    k = np.int64(((word >> np.uint64(32)) * np.uint64(empties)) >> np.uint64(32))
    tile = 2 if (word & np.uint64(0xFFFFFFFF)) < np.uint64(429496730) else 1
    for cell in range(16):
        if board[cell] == 0:
            if k == 0:
                board[cell] = tile
                return
            k -= 1


def _line(board: Any, lines: Any, action: int, line: int) -> Any:
    """Returns the index of a line of the board in the row tables."""
    return (
        board[lines[action, line, 0]]
        | board[lines[action, line, 1]] << 4
        | board[lines[action, line, 2]] << 8
        | board[lines[action, line, 3]] << 12
    )


def _step(
    actions: Any,
    boards: Any,
    streams: Any,
    lines: Any,
    slid: Any,
    score: Any,
    moves: Any,
    rewards: Any,
    terminated: Any,
    masks: Any,
    scores: Any,
    lengths: Any,
) -> None:
    """Steps all boards; actions are 0 up, 1 right, 2 down, 3 left."""
    for lane in range(len(boards)):
        board = boards[lane]
        if terminated[lane]:
            board[:] = 0
            spawn(board, streams, lane)
            spawn(board, streams, lane)
            rewards[lane] = scores[lane] = lengths[lane] = 0
        else:
            action = actions[lane]
            reward = np.float32(0)
            has_moved = False
            for line in range(4):
                before = line_of(board, lines, action, line)
                after = slid[before]
                if after != before:
                    has_moved = True
                    reward += score[before]
                    board[lines[action, line, 0]] = after & 15
                    board[lines[action, line, 1]] = after >> 4 & 15
                    board[lines[action, line, 2]] = after >> 8 & 15
                    board[lines[action, line, 3]] = after >> 12
            if has_moved:
                spawn(board, streams, lane)
            rewards[lane] = reward
            scores[lane] += np.int32(reward)
            lengths[lane] += 1
        along = across = 0
        for line in range(4):
            along |= moves[line_of(board, lines, 0, line)]
            across |= moves[line_of(board, lines, 3, line)]
        masks[lane, 0] = along & 1
        masks[lane, 1] = across >> 1
        masks[lane, 2] = along >> 1
        masks[lane, 3] = across & 1
        terminated[lane] = (across | along) == 0


random, line_of = numba.njit(next_word), numba.njit(_line)
spawn = numba.njit(_spawn)
step = numba.njit(_step)


class NumbaLoop:
    """N boards and their outputs, which are allocated once."""

    action_dtype = np.int64

    def __init__(self, num_envs: int) -> None:
        boards = np.zeros((num_envs, 16), np.uint8)
        terminated = np.ones(num_envs, np.bool_)  # the first step starts the games
        rewards = np.zeros(num_envs, np.float32)
        masks = np.zeros((num_envs, 4), np.int8)
        scores, lengths = np.zeros((2, num_envs), np.int32)
        streams = np.random.default_rng(0).integers(0, 2**64, num_envs, np.uint64)
        tables = LINES, SLID[:ROWS], SCORE, MOVES
        self._arguments = (boards, streams, *tables, rewards, terminated, masks, scores, lengths)
        truncated = np.zeros(num_envs, np.bool_)
        observations = boards.reshape(num_envs, 4, 4)
        self._outputs = observations, rewards, terminated, truncated, masks, scores, lengths
        self.details = {
            "numba": numba.__version__,
            "threads": "1",
            "outputs": "observation uint8, reward, terminated, truncated, mask, score, length; "
            "in the same arrays each time",
        }

    def step(self, actions: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Steps all boards."""
        step(actions, *self._arguments)
        return self._outputs

    def mask(self, outputs: tuple[NDArray[Any], ...]) -> NDArray[Any]:
        """Returns the mask, which is one of the outputs."""
        return outputs[4]


if __name__ == "__main__":
    serve(NumbaLoop)
