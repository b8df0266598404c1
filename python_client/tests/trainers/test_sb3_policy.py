"""Stable-Baselines3 models: their algorithms are recognised, and they play legal actions."""

import json
import pickle
import sys
import types
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from loops import assert_same

import twofold
from twofold import cli, errors
from twofold.policies import sb3
from twofold.policies.lookup import load


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
        ({"gae_lambda": 1.0, "n_steps": 5, "cg_max_steps": 1}, "sb3_contrib.TRPO"),
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
    with pytest.raises(errors.InvalidArgument, match="expected PPO, MaskablePPO"):
        sb3.algorithm_of(tmp_path / "model.zip")


@pytest.mark.parametrize("error", [MemoryError(), OSError(5, "Input/output error")])
def test_a_lack_of_memory_and_an_unreadable_file_are_raised_as_such(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.writestr("data", json.dumps({"tau": 1}))
    monkeypatch.setattr(zipfile.ZipFile, "read", fail)
    with pytest.raises(type(error)) as caught:
        sb3.algorithm_of(tmp_path / "model.zip")
    assert caught.value is error


def test_a_damaged_offset_is_not_taken_for_an_unreadable_file(tmp_path: Path) -> None:
    file = tmp_path / "model.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("data", json.dumps({"tau": 1}))
    content = bytearray(file.read_bytes())
    end = content.index(b"PK\x05\x06")
    content[end + 16] += 9  # the directory's place, from which zipfile computes an entry's
    file.write_bytes(content)
    with pytest.raises(errors.InvalidArgument, match="is not a Stable-Baselines3 model"):
        sb3.algorithm_of(file)


@pytest.fixture
def fake_ppo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Path]:
    """A function that makes a file, which PPO loads by raising an error or returning an object."""

    class PPO:
        made: Any = None

        @classmethod
        def load(cls, path: str, device: str) -> Any:
            if isinstance(cls.made, Exception):
                raise cls.made
            return cls.made

    monkeypatch.setitem(sys.modules, "stable_baselines3", types.SimpleNamespace(PPO=PPO))

    def make(made: Any) -> Path:
        PPO.made = made
        with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
            archive.writestr("data", json.dumps({"clip_range": 0.2}))
        return tmp_path / "model.zip"

    return make


@pytest.mark.parametrize("error", [KeyError("policy"), RuntimeError("size mismatch")])
def test_a_file_that_the_library_refuses_is_a_wrong_argument(
    error: Exception, fake_ppo: Callable[[Any], Path]
) -> None:
    with pytest.raises(
        errors.InvalidArgument, match=r"model\.zip cannot be loaded as PPO: "
    ) as info:
        sb3.SB3Policy.load(fake_ppo(error), trust_pickle=True)
    assert (info.value.field, info.value.__cause__) == ("policy", error)


@pytest.mark.parametrize("error", [MemoryError(), OSError(5, "Input/output error")])
def test_an_error_of_the_system_is_not_a_wrong_argument(
    error: Exception, fake_ppo: Callable[[Any], Path]
) -> None:
    with pytest.raises(type(error)) as caught:
        sb3.SB3Policy.load(fake_ppo(error), trust_pickle=True)
    assert caught.value is error


@pytest.mark.parametrize("content", [b"no pickle", pickle.dumps([1])], ids=["text", "a list"])
def test_a_file_that_is_no_vec_normalize_is_named(
    content: bytes, fake_ppo: Callable[[Any], Path], tmp_path: Path
) -> None:
    (tmp_path / "norm.pkl").write_bytes(content)
    with pytest.raises(errors.InvalidArgument, match=r"norm\.pkl cannot be loaded as Vec") as info:
        sb3.SB3Policy.load(fake_ppo(object), trust_pickle=True, vec_normalize=tmp_path / "norm.pkl")
    assert info.value.field == "vec_normalize"


BOARDS = np.random.default_rng(0).integers(0, 12, (5, 4, 4), dtype=np.uint8)
MASK = np.array([[1, 0, 1, 1]] * 5, np.int8)


def space_of(shape: tuple[int, ...], high: float) -> gym.Space[Any]:
    return gym.spaces.Box(0, high, shape, np.float32)


@pytest.mark.parametrize(
    ("shape", "high"), [((4, 4), 31), ((16,), 31), ((18, 4, 4), 1), ((4, 4, 18), 1)]
)
def test_boards_are_converted_to_the_form_that_the_model_was_trained_on(
    shape: tuple[int, ...], high: float
) -> None:
    space = space_of(shape, high)
    fitted = sb3.fit_observations(BOARDS, MASK, space)
    assert fitted.dtype == np.float32
    assert all(each in space for each in fitted)
    np.testing.assert_array_equal(sb3.fit_observations(fitted, MASK, space), fitted)
    exponents = fitted
    if len(shape) == 3:
        exponents = fitted.argmax(axis=1 if shape[0] == 18 else 3)
    np.testing.assert_array_equal(exponents.reshape(5, 4, 4), BOARDS)


@pytest.mark.parametrize("preset", ["playground", "popgym-easy", "popgym-hard"])
@pytest.mark.parametrize("observe_last_action", [False, True])
def test_a_model_of_concentration_gets_its_observations(
    preset: str, observe_last_action: bool
) -> None:
    forms: dict[str, Any] = {}
    for obs in ("array", "flat"):
        envs = twofold.ConcentrationVectorEnv(
            5, preset=preset, obs=obs, observe_last_action=observe_last_action
        )
        forms[obs], infos = envs.reset(seed=0)
        space, mask = envs.single_observation_space, infos["action_mask"]
        envs.close()
        np.testing.assert_array_equal(sb3.fit_observations(forms["array"], mask, space), forms[obs])
    scaled = gym.spaces.Box(0, 1, space.shape, np.float32)
    with pytest.raises(errors.InvalidArgument, match=r"0 to 1; .* symbols in Concentration"):
        sb3.fit_observations(forms["array"], mask, scaled)


def test_a_model_of_dicts_also_gets_the_mask() -> None:
    space = gym.spaces.Dict(
        {"observation": space_of((18, 4, 4), 1), "action_mask": gym.spaces.MultiBinary(4)}
    )
    fitted = sb3.fit_observations(BOARDS, MASK, space)
    assert fitted["observation"].shape == (5, 18, 4, 4)
    np.testing.assert_array_equal(fitted["action_mask"], MASK)
    assert sb3.fit_observations(fitted, MASK, space) is fitted


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (space_of((5, 5), 31), r"of shape \(5, 5\); the environment's have shape \(4, 4\)"),
        (space_of((4, 4), 1), r"shape \(4, 4\) with values from 0 to 1; .* from 0 to 31"),
        (space_of((16,), 17), r"values from 0 to 17"),
        (space_of((18, 4, 4), 2), r"from 0 to 2; Twofold's have values from 0 to 1\."),
        (gym.spaces.Box(-np.inf, np.inf, (18, 4, 4), np.float32), r"from -inf to inf"),
        (gym.spaces.Box(-1, 1, (18, 4, 4), np.float32), r"from -1 to 1"),
        (gym.spaces.MultiDiscrete([18] * 16), "MultiDiscrete"),
    ],
    ids=str,
)
def test_a_model_trained_on_other_observations_is_refused(space: Any, message: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=message) as caught:
        sb3.fit_observations(BOARDS, MASK, space)
    assert caught.value.field == "policy"


def test_a_model_with_a_memory_is_refused(tmp_path: Path) -> None:
    settings = {"clip_range": 0.2, "policy_class": {"__module__": "sb3_contrib.common.recurrent"}}
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.writestr("data", json.dumps(settings))
    with pytest.raises(errors.InvalidArgument, match="RecurrentPPO"):
        sb3.algorithm_of(tmp_path / "model.zip")


@pytest.mark.parametrize("name", ["PPO", "A2C", "DQN", "MaskablePPO", "QRDQN", "TRPO"])
def test_a_trained_model_plays_whole_games(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = pytest.importorskip(
        "sb3_contrib" if name in ("MaskablePPO", "QRDQN", "TRPO") else "stable_baselines3",
        reason="`make trainers` has it",
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
    policy = twofold.policies.SB3Policy.load(path, trust_pickle=True)
    assert twofold.evaluate(policy, episodes=1, endpoint="embedded").policy == name


def test_dropout_is_off_in_play() -> None:
    package = pytest.importorskip("stable_baselines3", reason="`make trainers` has it")
    import torch
    from stable_baselines3.common.torch_layers import FlattenExtractor

    class WithDropout(FlattenExtractor):  # type: ignore[misc]  # mypy does not see the library
        def forward(self, observations: Any) -> Any:
            return torch.nn.functional.dropout(super().forward(observations), 0.5, self.training)

    env = gym.make("twofold/Game2048-v0", endpoint="embedded")
    extractor = {"features_extractor_class": WithDropout}
    model = package.PPO("MlpPolicy", env, device="cpu", policy_kwargs=extractor, seed=0)
    env.close()
    model.policy.set_training_mode(True)
    policy = sb3.SB3Policy(model, "PPO")
    boards = np.repeat(BOARDS, 20, axis=0)
    mask = np.ones((100, 4), np.int8)
    np.testing.assert_array_equal(policy(boards, mask), policy(boards, mask))
    assert not model.policy.training
    with pytest.raises(errors.InvalidArgument, match="trained on 4 actions; the environment has 5"):
        policy(boards, np.ones((100, 5), np.int8))


@pytest.mark.parametrize("pickler", [pickle, cloudpickle])
@pytest.mark.parametrize("name", ["PPO", "DQN"])
def test_a_pickled_model_plays_the_same_games(name: str, pickler: Any, tmp_path: Path) -> None:
    package = pytest.importorskip("stable_baselines3", reason="`make trainers` has it")
    env = gym.make("twofold/Game2048-v0", endpoint="embedded")
    package.__dict__[name]("MlpPolicy", env, device="cpu").save(tmp_path / "model.zip")
    env.close()
    policy = load(str(tmp_path / "model.zip"), trust_pickle=True)
    again = pickle.loads(pickler.dumps(policy))
    envs, twin = (twofold.Game2048VectorEnv(8, endpoint="embedded") for _ in range(2))
    envs.reset(seed=1), twin.reset(seed=1)
    rollout = envs.rollout(60, again)
    assert_same(rollout, twin.rollout(60, policy))
    assert len(np.unique(rollout.actions)) > 1
    envs.close()
    twin.close()


@pytest.mark.parametrize("name", ["PPO", "A2C", "DQN", "MaskablePPO", "QRDQN", "TRPO"])
def test_a_model_plays_what_it_predicts(name: str) -> None:
    package = pytest.importorskip(
        "sb3_contrib" if name in ("MaskablePPO", "QRDQN", "TRPO") else "stable_baselines3",
        reason="`make trainers` has it",
    )
    env = gym.make("twofold/Game2048-v0", endpoint="embedded")
    model = getattr(package, name)("MlpPolicy", env, device="cpu", seed=0)
    env.close()
    boards = np.random.default_rng(0).integers(0, 12, (100, 4, 4), dtype=np.uint8)
    expected, _ = model.predict(boards, deterministic=True)
    assert len(np.unique(expected)) > 1
    played = sb3.SB3Policy(model, name)(boards, np.ones((100, 4), np.int8))
    np.testing.assert_array_equal(played, expected)


def test_observations_are_normalised_as_in_training(tmp_path: Path) -> None:
    package = pytest.importorskip("stable_baselines3", reason="`make trainers` has it")
    from stable_baselines3.common.vec_env import VecNormalize

    from twofold.integrations.sb3 import make_sb3_vec

    envs = VecNormalize(make_sb3_vec("twofold/Game2048-v0", 8, endpoint="embedded"))
    model = package.PPO("MlpPolicy", envs, n_steps=16, device="cpu", seed=0)
    model.learn(128)
    envs.close()
    model.save(tmp_path / "model.zip")
    envs.save(tmp_path / "norm.pkl")
    boards = np.random.default_rng(0).integers(0, 12, (100, 4, 4), dtype=np.uint8)
    mask = np.ones((100, 4), np.int8)
    load = sb3.SB3Policy.load
    played = load(tmp_path / "model.zip", trust_pickle=True, vec_normalize=tmp_path / "norm.pkl")(
        boards, mask
    )
    planes = sb3.fit_observations(boards, mask, model.observation_space)
    expected, _ = model.predict(envs.normalize_obs(planes), deterministic=True)
    np.testing.assert_array_equal(played, expected)
    assert (played != load(tmp_path / "model.zip", trust_pickle=True)(boards, mask)).any()


def test_a_models_file_may_be_named_without_its_suffix(tmp_path: Path) -> None:
    package = pytest.importorskip("stable_baselines3", reason="`make trainers` has it")
    env = gym.make("twofold/Game2048-v0", endpoint="embedded")
    package.A2C("MlpPolicy", env, device="cpu").save(tmp_path / "model")
    env.close()
    assert sb3.SB3Policy.load(tmp_path / "model", trust_pickle=True).__name__ == "A2C"
