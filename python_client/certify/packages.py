"""Compares each dialect with the package whose rules it follows, transition by transition.

A script in peers/ plays the package in a separate virtual environment and records every transition:
board, action, reward, flags, next board, masks. Twofold then replays each transition. It starts
from the package's board and takes the package's action. Its seed is chosen so that Twofold spawns
the same tile as the package. All results of the step must be the same.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
from checks import Check, alike, count, mean, movable, share
from foreseer import drawn, seeded
from numpy.typing import NDArray

import twofold

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))

import environments
from contestants import ENVIRONMENTS

Array = NDArray[Any]
Dialect = Literal["jumanji", "envpool", "pgx"]

DIALECTS: tuple[Dialect, ...] = ("jumanji", "envpool", "pgx")
START_TILES = {"jumanji": 1, "envpool": 1, "pgx": 2}
PEERS = Path(__file__).resolve().parent / "peers"
RECORDINGS = PEERS.parents[2] / "Tests" / "Fixtures" / "dialects"
CHUNK = 4096


def record(dialect: Dialect, out: Path, *, boards: int, steps: int, given: int) -> dict[str, Any]:
    """Plays and records the package, as `run_peer` does."""
    options = ("--boards", boards, "--steps", steps, "--given", given, "--seed", 1)
    return run_peer(dialect, ENVIRONMENTS[dialect], out / f"{dialect}.npz", *options)


def run_peer(
    name: str, requirements: tuple[str, ...], file: Path, *arguments: object
) -> dict[str, Any]:
    """Runs peers/NAME_games.py in a virtual environment, which is created if it is missing.

    Returns the recording that the script writes to `file`.

    Raises:
        environments.InstallationFailed: The package could not be installed.
        subprocess.CalledProcessError: The script failed.
    """
    python = environments.python_of(environments.VENVS / name, requirements)
    command: list[str | Path] = [python, PEERS / f"{name}_games.py", file, *map(str, arguments)]
    with file.with_suffix(".log").open("wb") as log:
        subprocess.run(command, check=True, stdout=log, stderr=log, timeout=1800)
    with np.load(file) as recording:
        return {column: recording[column] for column in recording.files}


def load_short(dialect: Dialect) -> dict[str, Any]:
    """Returns a short recording from Tests/Fixtures, with the dtypes of a full recording."""
    content = json.loads((RECORDINGS / f"{dialect}.json").read_text())
    boards = {name: np.array(content[name], np.uint8).reshape(-1, 4, 4) for name in _BOARDS}
    flags = ("mask", "mask_after", "terminated", "truncated")
    masks = {name: np.array(content[name], np.bool_) for name in flags}
    rest = {"action": np.array(content["action"]), "reward": np.array(content["reward"], "f4")}
    return {**content, **boards, **masks, **rest}


def compare(
    dialect: Dialect, recording: dict[str, Any], endpoint: str | None = None
) -> Iterator[Check]:
    """Compares the package's recording with the dialect.

    pgx spawns a tile even after an illegal action, and returns a mask of ones at the end of an
    episode. The comparison ignores both differences.
    """
    envs = twofold.Game2048VectorEnv(
        CHUNK, endpoint=endpoint, dialect=dialect, autoreset_mode="disabled"
    )
    try:
        # No episode can start from a board without a legal action.
        is_stuck = ~movable(recording["before"])
        stuck = recording["mask"][is_stuck].any(axis=1)
        yield count("boards without a legal action where the package's mask has one", stuck)
        recording = recording | {name: recording[name][~is_stuck] for name in _COLUMNS}
        total = len(recording["action"])
        names = ("mask", "slide", "reward", "terminated", "truncated", "after", "mask_after")
        differs: dict[str, list[Array]] = {name: [] for name in names}
        places, rooms, fours = [], [], []
        illegal = 0
        for first in range(0, total, CHUNK):
            rows = np.minimum(np.arange(first, first + CHUNK), total - 1)  # repeats the last row
            fresh = min(CHUNK, total - first)
            part = {name: recording[name][rows] for name in _COLUMNS}
            legal, place, room, four, found = _play(envs, dialect, part)
            for name, is_different in found.items():
                differs[name].append(is_different[:fresh])
            illegal += int((~legal[:fresh]).sum())
            spawned = (legal & ~found["slide"])[:fresh]
            places.append(place[:fresh][spawned])
            rooms.append(room[:fresh][spawned])
            fours.append(four[:fresh][spawned])
        for name, parts in differs.items():
            yield count(f"transitions with a different {_NAMES[name]}", np.concatenate(parts))
        yield Check("1 if illegal actions are among the transitions", 1.0, float(illegal > 0))
        room, place = np.concatenate(rooms), np.concatenate(places)
        yield share("share of 4s that the package places", 0.1, np.concatenate(fours))
        # If all n cells are equally likely, the tile's place is uniform, with a known spread.
        choice = room > 1
        centred = ((place + 0.5) / room - 0.5) / np.sqrt((1 - 1 / np.maximum(room, 2) ** 2) / 12)
        yield mean("place of the tile among the empty cells", 0.0, centred[choice])
        yield from _starts(envs, dialect, recording["starts"])
    finally:
        envs.close()


_BOARDS = ("starts", "before", "after")
_COLUMNS = ("before", "mask", "action", "reward", "terminated", "truncated", "after", "mask_after")
_NAMES = {
    "mask": "mask before the action",
    "slide": "slide",
    "reward": "reward",
    "terminated": "terminated",
    "truncated": "truncated",
    "after": "next board",
    "mask_after": "next mask",
}


def _play(
    envs: twofold.Game2048VectorEnv, dialect: Dialect, part: dict[str, Array]
) -> tuple[Array, Array, Array, Array, dict[str, Array]]:
    """Replays CHUNK transitions.

    Returns:
        Four arrays (CHUNK,) and a dict. The arrays are: whether the action is legal, the new tile's
        place among the empty cells, the number of empty cells, and whether the new tile is a 4. The
        dict maps the name of each compared value to an array, True where the values differ.
    """
    lanes, actions = np.arange(CHUNK), part["action"]
    _, infos = envs.reset(seed=0, options={"boards": part["before"]})
    found = {"mask": (infos["action_mask"] != part["mask"]).any(axis=1)}
    boards, _, _ = envs.afterstates()
    legal = infos["action_mask"][lanes, actions] == 1
    slid = boards[lanes, actions].reshape(CHUNK, 16)
    theirs = part["after"].reshape(CHUNK, 16)
    new = (slid != theirs) & legal[:, np.newaxis]
    cell = new.argmax(axis=1)
    tile = theirs[lanes, cell]
    # A legal action must leave one new tile, a 2 or a 4, on an empty cell.
    right = (new.sum(axis=1) == 1) & (slid[lanes, cell] == 0) & ((tile == 1) | (tile == 2))
    found["slide"] = legal & ~right
    room = np.where(legal, (slid == 0).sum(axis=1), 1)
    place = np.where(legal, ((slid == 0).cumsum(axis=1) - 1)[lanes, cell], 0)
    four = tile == 2
    seeds = seeds_for(np.maximum(room, 1), np.maximum(place, 0), four)
    envs.reset(seed=seeds, options={"boards": part["before"]})
    observations, rewards, terminations, truncations, infos = envs.step(actions)
    found["reward"] = rewards != part["reward"]
    found["terminated"] = terminations != part["terminated"]
    found["truncated"] = truncations != part["truncated"]
    compared = legal | (dialect != "pgx")
    found["after"] = (observations != part["after"]).any(axis=(1, 2)) & compared
    compared = ~terminations | (dialect != "pgx")
    found["mask_after"] = (infos["action_mask"] != part["mask_after"]).any(axis=1) & compared
    return legal, place, room, four, found


def _starts(envs: twofold.Game2048VectorEnv, dialect: Dialect, theirs: Array) -> Iterator[Check]:
    ours, _ = envs.reset(seed=1)
    tiles = START_TILES[dialect]
    for whose, boards in (("the package's", theirs), ("Twofold's", ours)):
        flat = boards.reshape(len(boards), 16)
        yield count(f"{whose} start boards without {tiles} tiles", (flat > 0).sum(1) != tiles)
        yield share(f"share of 4s on {whose} start boards", 0.1, flat[flat > 0] == 2)
        yield alike(f"unevenness of the cells of {whose} start tiles", (flat > 0).sum(axis=0))


def check_envpool_limits(recording: dict[str, Any]) -> Iterator[Check]:
    """Checks two known defects of EnvPool's step limit, described in docs/environments/dialects.md.

    An episode continues beyond the limit. When the rules then end the episode, EnvPool reports it
    as truncated.
    """
    past = float(recording["steps_past_limit"])
    yield Check("steps that EnvPool continues after max_episode_steps, up to 100", 100.0, past)
    told = {tuple(flags) for flags in recording["told_as"].tolist()}
    other = np.array([told != {(False, True)}])
    yield count("1 if EnvPool then reports a game over other than by `truncated`", other)


# ---- seeds that place a tile in a given cell -----------------------------------------------------

_SEEDS = 50_000
_FOURS = 429496730  # 0.1 * 2^32


def seeds_for(room: Array, place: Array, four: Array) -> NDArray[np.uint64]:
    """Returns a seed for each board whose first spawn is the given tile in the given cell.

    The tile spawns in empty cell number `place` of `room` empty cells. It is a 4 where `four` is
    True, else a 2. The generator's first word selects the cell, and the second word selects the
    value (docs/reference/determinism.md).
    """
    return _seed_table()[room, place, four.astype(np.intp)]


@functools.cache
def _seed_table() -> NDArray[np.uint64]:
    words = []
    for seed in range(_SEEDS):
        first, state = drawn(seeded(seed))
        words.append((first, drawn(state)[0]))
    w0, w1 = np.array(words, np.uint64).T
    table = np.zeros((17, 16, 2), np.uint64)
    for room in range(1, 17):
        place = w0 * np.uint64(room) >> np.uint64(32)
        outcome = place * np.uint64(2) + (w1 < np.uint64(_FOURS))
        outcomes, seeds_found = np.unique(outcome, return_index=True)
        if len(outcomes) != 2 * room:
            raise AssertionError(f"no seed found for some tile in {room} empty cells")
        table[room, :room] = seeds_found.reshape(room, 2)
    return table
