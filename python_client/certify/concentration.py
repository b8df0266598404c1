"""Compares Twofold's Concentration with POPGym's, transition by transition.

peers/popgym_games.py plays POPGym in a separate virtual environment and records everything. Twofold
gets the same decks and plays the same actions. It must return the same observations, rewards,
terminations and truncations. POPGym's rewards are float64; Twofold's are the nearest float32.

    python concentration.py     # writes short recordings to Tests/Fixtures/popgym, for `make test`
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from checks import Check, count
from numpy.typing import NDArray
from packages import run_peer

import twofold
from twofold.policies import PerfectMemory

Array = NDArray[Any]

REQUIREMENTS = ("popgym==1.0.7",)
# The arguments for the same environment in Twofold, by POPGym's name.
VARIANTS: dict[str, dict[str, Any]] = {
    "Easy": {"preset": "popgym-easy"},
    "Medium": {"preset": "popgym-medium"},
    "Hard": {"preset": "popgym-hard"},
}
REPOSITORY = Path(__file__).resolve().parents[2]
RECORDINGS = REPOSITORY / "Tests" / "Fixtures" / "popgym"
_DTYPES = {"rewards": np.float64, "terminated": np.bool_, "truncated": np.bool_}


def record(variant: str, out: Path, *, episodes: int) -> dict[str, Any]:
    """Plays and records POPGym's environment, as `run_peer` does."""
    file = out / f"popgym-{variant.lower()}.npz"
    return run_peer("popgym", REQUIREMENTS, file, variant, episodes, 7)


def load_short(variant: str) -> dict[str, Any]:
    """Returns a short recording from Tests/Fixtures, with the dtypes of a full recording."""
    content = json.loads((RECORDINGS / f"{variant.lower()}.json").read_text())
    arrays = {name: np.array(value, _DTYPES.get(name)) for name, value in content.items()}
    # One character for each card.
    digits = [[list(map(_code, told)) for told in episode] for episode in content["observations"]]
    return {**arrays, "observations": np.array(digits)}


def save_short(variant: str, recording: dict[str, Any]) -> None:
    """Saves a recording as the JSON file that `load_short` reads."""
    content = {name: array.tolist() for name, array in recording.items()}
    content["observations"] = [
        ["".join(_CODES[code] for code in told) for told in episode]
        for episode in content["observations"]
    ]
    RECORDINGS.mkdir(exist_ok=True)
    text = json.dumps(content, separators=(",", ":"))
    (RECORDINGS / f"{variant.lower()}.json").write_text(text + "\n")


_CODES = "0123456789abcdef"


def _code(character: str) -> int:
    return int(character, 16)


def compare(
    variant: str, recording: dict[str, Any], endpoint: str | None = None
) -> Iterator[Check]:
    """Compares a POPGym recording with Twofold on the same decks.

    In the recording, a policy with a perfect memory plays every third episode.
    """
    episodes, steps = recording["actions"].shape
    envs = twofold.ConcentrationVectorEnv(episodes, endpoint=endpoint, **VARIANTS[variant])
    policy = PerfectMemory(envs)
    shape = envs.single_observation_space.shape or ()
    options = {"boards": recording["decks"].reshape(episodes, *shape)}
    theirs = {name: recording[name] for name in ("terminated", "truncated")}
    theirs["reward"] = recording["rewards"].astype(np.float32)
    differs: dict[str, list[Array]] = {name: [] for name in ("observation", *theirs)}
    returns = np.zeros(episodes)
    try:
        observations, _ = envs.reset(seed=0, options=options)
        told = observations.reshape(episodes, -1)
        differs["observation"].append((told != recording["observations"][:, 0]).any(axis=1))
        for step in range(steps):
            # A finished episode continues here; its results are ignored.
            running = recording["lengths"] > step
            actions = np.where(running, recording["actions"][:, step], 0)
            observations, rewards, terminations, truncations, _ = envs.step(actions)
            told = observations.reshape(episodes, -1) != recording["observations"][:, step + 1]
            differs["observation"].append(told.any(axis=1) & running)
            ours = {"reward": rewards, "terminated": terminations, "truncated": truncations}
            for name, array in ours.items():
                differs[name].append((array != theirs[name][:, step]) & running)
            returns += np.where(running, rewards, 0)
        for name, parts in differs.items():
            yield count(f"transitions with a different {name}", np.concatenate(parts))

        perfect = np.arange(episodes) % 3 == 2
        expected = theirs["reward"].sum(axis=1, dtype=np.float64)[perfect].mean()
        yield Check("a perfect memory's return", float(expected), float(returns[perfect].mean()))
        played = play(envs, policy, options)
        yield Check("the return of PerfectMemory", expected, played[perfect].mean())
    finally:
        envs.close()


def play(
    envs: twofold.ConcentrationVectorEnv,
    policy: PerfectMemory,
    options: dict[str, Any],
) -> Array:
    """Plays one episode on each deck in `options`. Returns the episode returns, float64 (N,)."""
    policy.reset(np.ones(envs.num_envs, np.bool_))
    observations, infos = envs.reset(options=options)
    returns, running = np.zeros(envs.num_envs), np.ones(envs.num_envs, np.bool_)
    while running.any():
        actions = policy(observations, infos["action_mask"])
        observations, rewards, terminations, truncations, infos = envs.step(actions)
        returns += np.where(running, rewards, 0)
        running &= ~(terminations | truncations)
    return returns


if __name__ == "__main__":
    folder = REPOSITORY / ".build" / "certify"
    folder.mkdir(parents=True, exist_ok=True)
    for name in VARIANTS:
        short = record(name, folder, episodes=3)
        save_short(name, short)
        print(f"{RECORDINGS / name.lower()}.json")
