"""Plays the games of golden files in environments."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from games import GAMES

from twofold import TwofoldVectorEnv

Golden = dict[str, Any]

EXTRA_INFOS = ("reward_terms", "merges", "chance", "afterstates")


def load(path: Path, endpoint: str) -> tuple[Golden, TwofoldVectorEnv]:
    """Returns a golden file, and an environment with its config."""
    golden: Golden = json.loads(path.read_text())
    config = dict(golden["config"])
    size = (config.pop("rows"), config.pop("columns"))
    if "peeks" in config and config["peeks"] is None:
        config["peeks"] = "unlimited"
    if "reward" in golden:
        config |= {"reward": golden["reward"], "extra_infos": EXTRA_INFOS}
    make: Any = GAMES[golden["environment_id"].removeprefix("twofold/").removesuffix("-v0")]
    return golden, make(len(golden["lanes"]), size=size, endpoint=endpoint, **config)


def play(golden: Golden, envs: TwofoldVectorEnv) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Plays the games. Yields the results of each reset and step, and the step's number.

    A reset has the number of the step that follows it.
    """
    lanes = golden["lanes"]
    yield 0, envs.reset(seed=[lane["seed"] for lane in lanes])
    for step in range(len(lanes[0]["actions"])):
        ended = [bool(entry(lane, "resets", step)) for lane in lanes]
        if any(ended):
            yield step, envs.reset(options={"reset_mask": np.array(ended)})
        yield step, envs.step([lane["actions"][step] for lane in lanes])


def check(golden: Golden, envs: TwofoldVectorEnv) -> None:
    """Plays the games, and checks that the results are the ones in the file."""

    def check_lane(told: dict[str, Any], lane: int, expected: dict[str, Any]) -> None:
        for name, value in expected.items():
            assert told[name][lane].ravel().tolist() == np.ravel(value).tolist(), (step, name)

    for step, (observations, *flags, infos) in play(golden, envs):
        told = {"observation": observations, **infos}
        told |= zip(("reward", "terminated", "truncated"), flags, strict=False)
        for index, lane in enumerate(golden["lanes"]):
            if not flags:
                expected = entry(lane, "resets", step) if step else lane.get("initial", {})
                check_lane(told, index, expected)
                continue
            check_lane(told, index, {name: column[step] for name, column in lane["steps"].items()})
            final = entry(lane, "finals", step)
            assert ("final_obs" in infos and infos["_final_obs"][index]) == bool(final)
            if final:
                finals = {"observation": infos["final_obs"], **infos["final_info"]}
                check_lane(finals, index, final)
    envs.close()


def entry(lane: dict[str, Any], key: str, step: int) -> dict[str, Any]:
    """Returns a lane's values under `key` for a step, or an empty dict."""
    found = (entry for entry in lane.get(key, ()) if entry["step"] == step)
    return {name: value for name, value in next(found, {}).items() if name != "step"}
