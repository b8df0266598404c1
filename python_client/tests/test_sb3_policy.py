"""Models of Stable-Baselines3: their algorithm is recognised, they play their best legal action."""

import json
import zipfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from twofold import cli, errors
from twofold.policies import sb3


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"clip_range": 0.2, "policy_class": {"__module__": "a.b"}}, "stable_baselines3.PPO"),
        (
            {"clip_range": 0.2, "policy_class": {"__module__": "c.maskable.p"}},
            "sb3_contrib.MaskablePPO",
        ),
        ({"exploration_fraction": 0.1, "policy_class": {}}, "stable_baselines3.DQN"),
        ({"exploration_fraction": 0.1, "policy_class": "sb3_contrib.qrdqn.p"}, "sb3_contrib.QRDQN"),
        ({"gae_lambda": 1.0, "n_steps": 5}, "stable_baselines3.A2C"),
    ],
)
def test_the_algorithm_follows_from_the_settings(
    settings: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.writestr("data", json.dumps(settings))
    assert ".".join(sb3.algorithm_of(tmp_path / "model.zip")) == expected


def test_an_unknown_algorithm_is_reported(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.writestr("data", json.dumps({"tau": 1}))
    with pytest.raises(errors.InvalidArgument, match="known are PPO, MaskablePPO"):
        sb3.algorithm_of(tmp_path / "model.zip")


def space_of(shape: tuple[int, ...]) -> gym.Space[Any]:
    return gym.spaces.Box(0, 31, shape, np.float32)


@pytest.mark.parametrize("shape", [(4, 4), (16,), (18, 4, 4), (4, 4, 18)])
def test_boards_take_the_form_that_the_model_was_trained_on(shape: tuple[int, ...]) -> None:
    boards = np.random.default_rng(0).integers(0, 12, (5, 4, 4), dtype=np.uint8)
    fitted = sb3.fit_observations(boards, space_of(shape))
    assert fitted.shape == (5, *shape)
    assert fitted.dtype == np.float32
    exponents = {1: fitted, 2: fitted}.get(len(shape))
    if exponents is None:
        exponents = fitted.argmax(axis=1 if shape[0] == 18 else 3)
    np.testing.assert_array_equal(exponents.reshape(5, 4, 4), boards)


def test_a_model_of_another_shape_is_reported() -> None:
    with pytest.raises(ValueError, match=r"shape \(5, 5\); the environment's have shape \(4, 4\)"):
        sb3.fit_observations(np.zeros((1, 4, 4), np.uint8), space_of((5, 5)))


@pytest.mark.parametrize("name", ["PPO", "A2C", "DQN", "MaskablePPO", "QRDQN"])
def test_a_trained_model_plays_whole_games(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = pytest.importorskip(
        "sb3_contrib" if name in ("MaskablePPO", "QRDQN") else "stable_baselines3",
        reason="`make test-sb3` has it",
    )

    class WithMasks(gym.Wrapper[Any, Any, Any, Any]):
        def action_masks(self) -> Any:
            env: Any = self.env.unwrapped
            return env.observe()[1]["action_mask"].astype(bool)

    env = WithMasks(gym.make("twofold/Game2048-v0", endpoint="embedded"))
    few = {"learning_starts": 8, "buffer_size": 64} if "DQN" in name else {"n_steps": 16}
    model = getattr(package, name)("MlpPolicy", env, device="cpu", **few)
    model.learn(32)
    env.close()
    path = str(tmp_path / "model.zip")
    model.save(path)
    command = ["evaluate", path, "--trust-pickle", "--episodes", "10", "--endpoint", "embedded"]
    assert cli.main([*command, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["policy"] == f"model.zip ({name})"
    assert printed["score"]["mean"] > 100
