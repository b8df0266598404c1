"""Tests of Stable-Baselines3 and sb3-contrib with one batch of boards."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from loops import hurried
from servers import Server

import twofold
from twofold import errors

pytest.importorskip("stable_baselines3", reason="`make trainers` has it")

import torch
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecFrameStack, VecMonitor, VecNormalize

from twofold.integrations.sb3 import make_sb3_vec

torch.set_num_threads(1)

GAME = "twofold/Game2048-v0"


@pytest.fixture
def boards() -> Any:
    made = make_sb3_vec(GAME, 6, size=2, endpoint="embedded", max_episode_steps=12)
    yield made
    made.close()


def test_steps_match_the_batch(boards: Any) -> None:
    plain = twofold.Game2048VectorEnv(
        6, size=2, endpoint="embedded", max_episode_steps=12, autoreset_mode="same_step"
    )
    boards.seed(5)
    observations, (expected, infos) = boards.reset(), plain.reset(seed=5)
    rng = np.random.default_rng(0)
    returns, lengths, ends, cut = np.zeros(6), np.zeros(6, int), 0, 0
    for _ in range(200):
        np.testing.assert_array_equal(observations, twofold.one_hot(expected, planes=6))
        np.testing.assert_array_equal(boards.action_masks(), infos["action_mask"] == 1)
        actions = rng.integers(0, 4, 6)
        observations, rewards, dones, of_boards = boards.step(actions)
        expected, wanted, terminations, truncations, infos = plain.step(actions)
        returns, lengths = returns + wanted, lengths + 1
        np.testing.assert_array_equal(rewards, wanted)
        np.testing.assert_array_equal(dones, terminations | truncations)
        for lane, info in enumerate(of_boards):
            if not dones[lane]:
                assert info == {}
                continue
            ends += 1
            final = twofold.one_hot(infos["final_obs"][lane], planes=6)
            np.testing.assert_array_equal(info["terminal_observation"], final)
            assert info["TimeLimit.truncated"] == (truncations[lane] and not terminations[lane])
            cut += info["TimeLimit.truncated"]
            assert info["score"] == infos["final_info"]["score"][lane]
            assert info["episode"]["r"] == returns[lane]
            assert info["episode"]["l"] == lengths[lane]
            assert list(map(type, info["episode"].values())) == [float, int, float]
            returns[lane], lengths[lane] = 0, 0
    assert ends > 20
    assert 0 < cut < ends
    plain.close()


def test_seeds_and_options_apply_to_the_next_reset_only(boards: Any) -> None:
    boards.seed(1)
    first = boards.reset()
    boards.step(np.zeros(6, int))
    second = boards.reset()
    assert (first != second).any()
    boards.seed(1)
    np.testing.assert_array_equal(boards.reset(), first)
    boards.set_options({"board": np.array([[1, 2], [3, 0]], np.uint8)})
    assert boards.reset().argmax(axis=1).tolist() == [[[1, 2], [3, 0]]] * 6
    assert boards.reset().argmax(axis=1).tolist() != [[[1, 2], [3, 0]]] * 6


def test_some_environments_start_from_given_boards_and_the_others_from_their_seeds(
    boards: Any,
) -> None:
    boards.seed(1)
    first = boards.reset()
    for action in range(4):
        boards.step(np.full(6, action))
    board = np.array([[1, 2], [3, 0]], np.uint8)
    boards.seed(1)
    boards.set_options([{}, {"board": board}, {}, {"board": board.T}, {}, {}])
    second = boards.reset()
    assert second[[1, 3]].argmax(axis=1).tolist() == [board.tolist(), board.T.tolist()]
    np.testing.assert_array_equal(second[[0, 2, 4, 5]], first[[0, 2, 4, 5]])
    assert all(info["score"] == 0 for info in boards.reset_infos)


def test_a_seed_decides_the_tiles_that_follow_a_given_board(boards: Any) -> None:
    """They are the same whether the other environments have boards or not."""
    board = np.array([[1, 1], [2, 0]], np.uint8)

    def played(seed: int, lanes: list[int]) -> Any:
        boards.seed(seed)
        boards.set_options([{"board": board} if lane in lanes else {} for lane in range(6)])
        boards.reset()
        return np.array([boards.step(np.full(6, action))[0][[1, 3]] for action in range(4)])

    np.testing.assert_array_equal(played(3, [1, 3]), played(3, [*range(6)]))
    assert (played(4, [1, 3]) != played(3, [1, 3])).any()


def test_a_reset_drops_a_pending_step(server: Server) -> None:
    boards, twin = (make_sb3_vec(GAME, 6, endpoint=server.ipc) for _ in range(2))
    for each in (boards, twin):
        each.seed(5)
        each.reset()
    boards.step_async(np.zeros(6, int))
    twin.step(np.zeros(6, int))
    np.testing.assert_array_equal(boards.reset(), twin.reset())
    results = [each.step(np.zeros(6, int)) for each in (boards, twin)]
    for array, expected in zip(*(result[:3] for result in results), strict=True):
        np.testing.assert_array_equal(array, expected)
    boards.close()
    twin.close()


def test_a_reset_follows_a_step_without_an_answer(own_server: Server) -> None:
    boards = make_sb3_vec(GAME, 6, endpoint=own_server.ipc)
    boards.reset()
    with own_server.stopped(), hurried(boards.envs):
        with pytest.raises(errors.DeadlineExceeded):
            boards.step(np.zeros(6, int))
        with pytest.raises(errors.DeadlineExceeded):
            boards.reset()
    boards.reset()
    boards.step(np.zeros(6, int))
    boards.close()


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"size": 3}, "options"),
        (
            [{"board": np.zeros((2, 2), np.uint8)}, *[{"board": np.zeros(4, np.uint8)}] * 5],
            "boards",
        ),
    ],
)
def test_wrong_options_are_refused(boards: Any, options: Any, field: str) -> None:
    boards.set_options(options)
    with pytest.raises(errors.InvalidArgument) as caught:
        boards.reset()
    assert caught.value.field == field


def test_a_board_has_the_attributes_that_sb3_requires(boards: Any) -> None:
    assert boards.get_attr("action_space", 0) == [gym.spaces.Discrete(4)]
    assert boards.get_attr("observation_space") == [boards.observation_space] * 6
    assert boards.env_is_wrapped(Monitor) == [True] * 6
    assert boards.get_attr("render_mode", [0, 2]) == [None, None]
    assert boards.has_attr("action_masks")
    assert boards.get_attr("action_masks", [0, 2]) == [boards.action_masks] * 2
    assert not boards.has_attr("nothing")
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        boards.action_masks()
    boards.reset()
    assert boards.action_masks().dtype == np.bool_
    masks = np.stack(boards.env_method("action_masks", indices=[1, 3]))
    np.testing.assert_array_equal(masks, boards.action_masks()[[1, 3]])
    with pytest.raises(AttributeError, match="one batch"):
        boards.env_method("step", 0)
    assert boards.env_method("render", indices=[1, 3]) == [None, None]
    with pytest.raises(AttributeError, match="one batch"):
        boards.set_attr("goal", 8)


@pytest.mark.filterwarnings("ignore:Your observation", "ignore:It seems that your observation")
@pytest.mark.parametrize("obs", ["array", "one_hot", "flat", "dict"])
@pytest.mark.parametrize("game", ["Game2048", "Concentration"])
def test_sb3s_checker_accepts_a_single_board(game: str, obs: str) -> None:
    env = gym.make(f"twofold/{game}-v0", obs=obs)
    check_env(env.unwrapped)
    env.close()


@pytest.mark.parametrize("name", ["autoreset_mode", "copy"])
def test_arguments_that_the_adapter_decides_are_refused(name: str) -> None:
    arguments: Any = {name: True}
    with pytest.raises(errors.InvalidArgument) as caught:
        make_sb3_vec(GAME, 2, **arguments)
    assert caught.value.field == name


def test_the_info_that_the_adapter_adds_may_also_be_requested() -> None:
    boards = make_sb3_vec(GAME, 2, extra_infos=["episode"])
    boards.reset()
    boards.close()


def test_closing_the_adapter_closes_its_boards() -> None:
    boards = make_sb3_vec(GAME, 2)
    boards.close()
    assert boards.envs.closed


def test_infos_that_are_not_names_are_refused() -> None:
    arguments: Any = {"extra_infos": None}
    with pytest.raises(errors.InvalidArgument) as caught:
        make_sb3_vec(GAME, 2, **arguments)
    assert caught.value.field == "extra_infos"


def test_pictures_show_all_boards() -> None:
    boards = make_sb3_vec(GAME, 4, endpoint="embedded", render_mode="rgb_array", render_size=64)
    boards.reset()
    assert boards.render().shape == (128, 128, 3)
    assert boards.metadata["render_fps"] == 4  # VecVideoRecorder reads it
    boards.close()


@pytest.mark.parametrize("wrapper", [VecMonitor, VecNormalize, lambda envs: VecFrameStack(envs, 2)])
def test_wrappers_of_sb3_accept_the_boards(boards: Any, wrapper: Any) -> None:
    wrapped = wrapper(boards)
    wrapped.reset()
    for _ in range(50):
        _, _, dones, infos = wrapped.step(np.random.default_rng(0).integers(0, 4, 6))
    assert all("terminal_observation" in infos[lane] for lane in np.flatnonzero(dones))


FEW: dict[str, dict[str, Any]] = {
    "PPO": {"n_steps": 32, "batch_size": 64},
    "A2C": {},
    "DQN": {"learning_starts": 32, "buffer_size": 500},
    "MaskablePPO": {"n_steps": 32, "batch_size": 64},
    "RecurrentPPO": {"n_steps": 32, "batch_size": 64},
    "QRDQN": {"learning_starts": 32, "buffer_size": 500},
}


@pytest.mark.parametrize(
    ("algorithm", "obs"),
    [*((algorithm, "one_hot") for algorithm in FEW), ("PPO", "flat"), ("MaskablePPO", "dict")],
)
def test_an_algorithm_trains_and_reports_episodes(algorithm: str, obs: str) -> None:
    contrib = pytest.importorskip("sb3_contrib")
    make = {"PPO": PPO, "A2C": A2C, "DQN": DQN}.get(algorithm) or getattr(contrib, algorithm)
    policy = "MultiInputPolicy" if obs == "dict" else "MlpPolicy"
    if algorithm == "RecurrentPPO":
        policy = policy.replace("Policy", "LstmPolicy")
    # Algorithms without masks would try the same illegal action forever.
    boards = make_sb3_vec(GAME, 8, size=2, endpoint="embedded", obs=obs, illegal_action="terminate")
    model = make(policy, boards, device="cpu", seed=0, **FEW[algorithm])
    model.learn(600)
    assert len(model.ep_info_buffer) > 20
    if algorithm == "MaskablePPO":
        assert min(info["r"] for info in model.ep_info_buffer) > 0  # no illegal action
    else:
        returns, _ = evaluate_policy(model, boards, n_eval_episodes=20)
        assert returns >= 0
    boards.close()


class AlwaysUp:
    """An unmasked deterministic agent."""

    def predict(self, observations: Any, state: Any = None, **_: Any) -> Any:
        return np.zeros(len(observations), int), state


def test_an_evaluation_of_an_agent_that_repeats_an_illegal_action_ends() -> None:
    boards = make_sb3_vec(GAME, 8, size=2, endpoint="embedded")
    agent: Any = AlwaysUp()
    _, lengths = evaluate_policy(agent, boards, n_eval_episodes=8, return_episode_rewards=True)
    boards.close()
    assert max(lengths) == 65_536


def test_maskable_ppo_learns_four_by_four() -> None:
    contrib = pytest.importorskip("sb3_contrib")
    boards = make_sb3_vec(GAME, 64, endpoint="embedded", reward={"merge_exponent": 0.1})
    model = contrib.MaskablePPO(
        "MlpPolicy", boards, n_steps=32, batch_size=512, learning_rate=1e-3, n_epochs=3, seed=0
    )
    model.learn(150_000)
    boards.close()
    with_score = make_sb3_vec(GAME, 64, endpoint="embedded")
    from sb3_contrib.common.maskable.evaluation import evaluate_policy as evaluate

    mean, _ = evaluate(model, with_score, n_eval_episodes=128)
    with_score.close()
    assert mean > 1.5 * 1095  # random play scores 1,095
