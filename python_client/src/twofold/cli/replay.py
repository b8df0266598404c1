"""`twofold replay`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twofold.games.game2048 import Game2048
from twofold.recordings import Recording
from twofold.recordings.replay import ACTIONS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add = parser.add_argument
    add("file", type=Path, help="recording of a game")
    add("--html", type=Path, metavar="FILE", help="write a page that plays it")
    add("--verify", action="store_true", help="only verify; exit with 1 if it is wrong")
    add("--boards", action="store_true", help="print every board, without waiting")
    add("--speed", type=float, default=8.0, help="moves per second on a terminal (default: 8)")


def run(arguments: argparse.Namespace) -> int:
    """Verifies the recording and shows it."""
    recording = Recording.load(arguments.file)
    verification = recording.verify()
    if arguments.html:
        arguments.html.write_text(recording.to_html())
    elif arguments.boards:
        _show(recording, None)
    elif sys.stdout.isatty() and not arguments.verify:
        _show(recording, max(arguments.speed, 0.01))
    elif not arguments.verify:
        print(Game2048.text(recording.board))
    print(verification)
    return 0 if verification.spawns_fit else 1


def _show(recording: Recording, speed: float | None) -> None:
    """Prints all boards one below the other; with a speed, each over the one before."""
    board, score = recording.first_board(), 0
    _print(board, "start", 0, 0)
    for number, step in enumerate(recording.steps(), 1):
        board = np.array(step.board, np.uint8).reshape(board.shape)
        score += step.reward
        if speed is not None:
            time.sleep(1 / speed)
            print(f"\x1b[{len(board) + 2}A", end="")
        _print(board, ACTIONS[step.action], number, score)


def _print(board: NDArray[np.uint8], action: str, step: int, score: int) -> None:
    lines = [f"step {step}  {action}  score {score:,}", *Game2048.text(board).splitlines(), ""]
    print("\n".join(f"{line:40}" for line in lines))  # overwrites the longer lines of before
