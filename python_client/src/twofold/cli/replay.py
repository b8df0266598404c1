"""The subcommand `twofold replay`."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twofold import _text
from twofold.cli.common import Result, add_output_arguments, check_outputs, numeric
from twofold.games.game2048 import DIRECTIONS, Game2048
from twofold.recordings import Recording

# In seconds. time.sleep refuses 300 years.
_MAX_PAUSE = 1e6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = "Example: twofold replay best.json --html best.html"
    parser.add_argument("file", type=Path, help="recording of a game")
    add = parser.add_mutually_exclusive_group().add_argument
    add("--html", type=Path, metavar="FILE", help="write a web page that plays the game")
    add("--verify", action="store_true", help="verify the recording without showing the game")
    add("--speed", **numeric(8.0, "moves per second on a terminal", "N"))
    add_output_arguments(parser)


def run(arguments: argparse.Namespace) -> Iterator[Result]:
    """Shows the recording and verifies it."""
    if arguments.html:
        check_outputs([arguments.html], arguments.file)
    recording = Recording.load(arguments.file)
    verification = recording.verify()
    if arguments.html:
        with _text.whole_file(arguments.html) as file:
            # A name from the command line may contain bytes that are not text.
            file.write(recording.to_html().encode("utf-8", "xmlcharrefreplace"))
    elif not (arguments.verify or arguments.json):
        is_animated = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        _show(recording, arguments.speed if is_animated else None)
    fits = verification.spawns_fit
    yield Result(str(verification), dataclasses.asdict(verification) | {"spawns_fit": fits}, fits)


def _show(recording: Recording, speed: float | None) -> None:
    """Prints all boards in sequence. With a speed, each board overwrites the previous one."""
    board, score = recording.first_board(), 0
    _print(board, "start", 0, 0)
    for number, step in enumerate(recording.steps(), 1):
        board = np.array(step.board, np.uint8).reshape(board.shape)
        score += step.reward
        if speed is not None:
            time.sleep(min(1 / speed, _MAX_PAUSE))
            print(f"\x1b[{len(board) + 2}A", end="")
        _print(board, DIRECTIONS[step.action], number, score)


def _print(board: NDArray[np.uint8], action: str, step: int, score: int) -> None:
    lines = [f"step {step}  {action}  score {score:,}", *Game2048.text(board).splitlines(), ""]
    print("\n".join(f"{line:40}" for line in lines))  # padded to overwrite longer lines
