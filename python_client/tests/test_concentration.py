"""Concentration from Python: rules, presets, exact expectations."""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import reference_concentration
from exact_concentration import decks, fewest_turns, random_turns
from gymnasium.vector import AutoresetMode

import twofold
from twofold import ConcentrationEnv, ConcentrationVectorEnv, errors
from twofold.policies import PerfectMemory

ID = "twofold/Concentration-v0"


@pytest.fixture
def envs() -> Iterator[ConcentrationVectorEnv]:
    """Two 2 x 2 games with known decks."""
    envs = ConcentrationVectorEnv(2, size=2, endpoint="embedded")
    envs.reset(seed=0, options={"boards": [[[0, 1], [0, 1]], [[1, 1], [0, 0]]]})
    yield envs
    envs.close()


# ---- the environment as Gymnasium has it ---------------------------------------------------------


def test_make_vec_makes_the_playground() -> None:
    envs = gym.make_vec(ID, num_envs=3, preset="playground")
    assert envs.single_observation_space == gym.spaces.Box(0, 9, (4, 4), np.uint8)
    assert envs.single_action_space == gym.spaces.Discrete(17)
    observations, infos = envs.reset(seed=0)
    assert (observations == 8).all()
    assert infos["action_mask"].all()
    observations, rewards, *_, infos = envs.step([16, 16, 5])
    assert (np.sort(observations[0].ravel()) == np.repeat(np.arange(8), 2)).all()
    assert (observations[0] != observations[1]).any()
    assert infos["peeks"].tolist() == [1, 1, 0]
    assert infos["open_card"].tolist() == [-1, -1, 5]
    assert rewards.tolist() == [-0.5, -0.5, 0]
    envs.close()


@pytest.mark.parametrize(
    ("preset", "cards", "symbols", "steps"),
    [("popgym-easy", 52, 2, 104), ("popgym-medium", 104, 2, 208), ("popgym-hard", 52, 13, 104)],
)
def test_popgym_presets_have_its_spaces_and_lengths(
    preset: str, cards: int, symbols: int, steps: int
) -> None:
    assert steps == math.ceil(2 * cards - cards / (2 * cards - 1))
    env = gym.make(ID, preset=preset)
    assert isinstance(env.observation_space, gym.spaces.Box)
    assert math.prod(env.observation_space.shape) == cards
    assert env.observation_space.high.max() == symbols
    assert env.action_space == gym.spaces.Discrete(cards)
    env.reset(seed=0)
    for step in range(1, steps + 1):
        *_, truncated, _ = env.step(step % 2)
        assert truncated == (step == steps)
    env.close()


@pytest.mark.parametrize("preset", ["popgym-easy", "popgym-medium", "popgym-hard"])
def test_popgym_rewards_add_up_to_one_for_all_pairs(preset: str) -> None:
    env = gym.make(ID, preset=preset, deck_info=True)
    _, info = env.reset(seed=1)
    total = 0.0
    for card in info["deck"].ravel().argsort():
        _, reward, terminated, truncated, _ = env.step(card)
        total += float(reward)
    assert terminated
    assert not truncated
    assert total == pytest.approx(1)
    env.close()


# ---- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("preset", {"preset": "popgym-harder"}),
        ("preset", {"preset": None}),
        ("size", {"size": 3}),
        ("size", {"size": (0, 2)}),
        ("size", {"size": (10, 13)}),
        ("size", {"size": (2, 2, 2)}),
        ("size", {"size": 4.0}),
        ("symbols", {"symbols": 3}),
        ("symbols", {"symbols": 0}),
        ("symbols", {"symbols": 16}),
        ("peeks", {"peeks": -1}),
        ("peeks", {"peeks": 2**31}),
        ("peeks", {"peeks": "many"}),
        ("matched_cards", {"matched_cards": "gone"}),
        ("illegal_action", {"illegal_action": "end"}),
        ("observe_last_action", {"observe_last_action": 1}),
        ("deck_info", {"deck_info": "yes"}),
        ("max_episode_steps", {"max_episode_steps": 0}),
        ("render_mode", {"render_mode": "human"}),
        ("render_size", {"render_size": 8}),
    ],
    ids=str,
)
def test_a_wrong_argument_is_refused_by_its_name(field: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidArgument) as caught:
        ConcentrationVectorEnv(2, endpoint="embedded", **arguments)
    assert caught.value.field == field


def test_gymnasiums_make_can_not_lengthen_a_presets_episodes() -> None:
    def length(env: gym.Env[Any, Any]) -> int:
        env.reset(seed=0)
        for step in range(1, 201):  # flips one card again and again
            *_, terminated, truncated, _ = env.step(0)
            if terminated or truncated:
                return step
        return 201

    arguments: Any = {"preset": "popgym-easy", "max_episode_steps": 200, "endpoint": "embedded"}
    assert length(ConcentrationEnv(**arguments)) == 200
    assert length(gym.make(ID, **arguments)) == 104


def test_the_error_of_wrong_peeks_names_the_word_for_any_number() -> None:
    with pytest.raises(errors.InvalidArgument, match='0 or more, or "unlimited"'):
        ConcentrationVectorEnv(2, endpoint="embedded", peeks="many")  # type: ignore[arg-type]


def test_an_unknown_argument_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        ConcentrationVectorEnv(2, goal=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        twofold.ConcentrationEnv(autoreset_mode="NEXT_STEP")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("decks", "lane"),
    [
        ([[[0, 1], [1, 0]], [[0, 0], [0, 1]]], 1),
        ([[[0, 2], [0, 2]], [[0, 0], [1, 1]]], 0),
        ([[[0, 1], [1, 0]], [[-1, -1], [0, 0]]], 1),
    ],
)
def test_a_deck_that_does_not_fit_is_refused_with_its_lane(
    envs: ConcentrationVectorEnv, decks: Any, lane: int
) -> None:
    before, _ = envs.observe()
    with pytest.raises(errors.InvalidArgument) as caught:
        envs.reset(options={"boards": decks})
    assert caught.value.field == "boards"
    assert caught.value.lane == lane
    assert (envs.observe()[0] == before).all()


def test_concentration_has_no_afterstates(envs: ConcentrationVectorEnv) -> None:
    with pytest.raises(errors.InvalidArgument):
        envs.afterstates()


# ---- observations and infos ----------------------------------------------------------------------


def test_given_decks_are_played(envs: ConcentrationVectorEnv) -> None:
    envs.step([0, 0])
    observations, rewards, *_ = envs.step([2, 2])
    assert observations.tolist() == [[[0, 2], [0, 2]], [[1, 2], [0, 2]]]
    assert rewards.tolist() == [1, np.float32(-0.1)]
    observations, *_, infos = envs.step([1, 1])
    assert observations.tolist() == [[[3, 1], [3, 2]], [[2, 1], [2, 2]]]
    assert infos["pairs"].tolist() == [1, 0]
    assert infos["turns"].tolist() == [1, 1]


def test_the_last_action_is_observed_on_request() -> None:
    envs = ConcentrationVectorEnv(2, size=2, observe_last_action=True, endpoint="embedded")
    assert envs.single_observation_space == gym.spaces.Box(0, 5, (5,), np.uint8)
    observations, _ = envs.reset(seed=0, options={"boards": [[[0, 1], [0, 1]], [[1, 1], [0, 0]]]})
    assert observations.tolist() == [[2, 2, 2, 2, 5]] * 2
    observations, *_ = envs.step([3, 4])
    assert observations.tolist() == [[2, 2, 2, 1, 3], [1, 1, 0, 0, 4]]
    envs.close()


def test_the_deck_is_returned_only_on_request() -> None:
    envs = ConcentrationVectorEnv(
        3, size=(1, 4), deck_info=True, max_episode_steps=3, endpoint="embedded"
    )
    _, infos = envs.reset(seed=4)
    games = [
        reference_concentration.Game(4 + lane, 1, 4, 2, max_episode_steps=3) for lane in range(3)
    ]
    for step in range(20):
        assert infos["deck"].reshape(3, 4).tolist() == [game.deck for game in games]
        *_, infos = envs.step([step % 4] * 3)
        for game in games:
            game.step(step % 4)
    envs.close()
    without = ConcentrationVectorEnv(1, endpoint="embedded")
    assert "deck" not in without.reset(seed=0)[1]
    without.close()


# ---- exact mathematics ---------------------------------------------------------------------------


def turns_of_perfect_memory(boards: Any, **arguments: Any) -> list[int]:
    """Returns the number of turns that the policy takes on each of these decks."""
    boards = np.array(boards, np.uint8)
    envs = ConcentrationVectorEnv(
        len(boards), size=boards.shape[1:], endpoint="embedded", **arguments
    )
    policy = PerfectMemory(envs)
    observations, infos = envs.reset(seed=0, options={"boards": boards})
    turns = np.zeros(len(boards), np.int64)
    while (turns == 0).any():
        observations, _, terminations, _, infos = envs.step(
            policy(observations, infos["action_mask"])
        )
        ended = terminations & (turns == 0)
        turns[ended] = infos["turns"][ended]
    envs.close()
    return list(map(int, turns))


@pytest.mark.parametrize("pairs", [2, 3, 4])
@pytest.mark.parametrize("arguments", [{}, {"peeks": 0, "observe_last_action": True}], ids=str)
def test_no_strategy_beats_perfect_memory_over_all_decks(
    pairs: int, arguments: dict[str, Any]
) -> None:
    boards = np.array(decks(pairs)).reshape(-1, 2, pairs)
    turns = turns_of_perfect_memory(boards, **arguments)
    assert Fraction(sum(turns), len(turns)) == fewest_turns(0, 0, 2 * pairs)


@pytest.mark.parametrize("pairs", [2, 3, 4])
def test_random_play_takes_the_square_of_the_pairs_in_turns(pairs: int) -> None:
    episodes = 4000
    envs = ConcentrationVectorEnv(episodes, size=(2, pairs), peeks=0, endpoint="embedded")
    rng = np.random.default_rng(pairs)
    _, infos = envs.reset(seed=pairs)
    turns = np.zeros(episodes, np.int64)
    while (turns == 0).any():
        weights = rng.random((episodes, 2 * pairs)) * infos["action_mask"]
        *_, terminations, _, infos = envs.step(weights.argmax(1))
        ended = terminations & (turns == 0)
        turns[ended] = infos["turns"][ended]
    envs.close()
    mean, variance = random_turns(pairs)
    assert mean == pairs**2
    error = math.sqrt(variance / episodes)
    assert abs(turns.mean() - float(mean)) < 4.5 * error
    assert turns.var() == pytest.approx(float(variance), rel=0.15)


@pytest.mark.parametrize("pairs", [2, 3, 4])
def test_perfect_memory_takes_as_long_on_shuffled_decks_as_on_all_decks(pairs: int) -> None:
    episodes = 4000
    envs = ConcentrationVectorEnv(episodes, size=(2, pairs), deck_info=True, endpoint="embedded")
    _, infos = envs.reset(seed=0)
    boards = infos["deck"]
    envs.close()
    of_all = turns_of_perfect_memory(np.array(decks(pairs)).reshape(-1, 2, pairs))
    turns = turns_of_perfect_memory(boards)
    error = np.std(of_all) / math.sqrt(episodes)
    assert abs(np.mean(turns) - np.mean(of_all)) < 4.5 * error


# ---- the policy ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        {"preset": "playground"},
        {"preset": "playground", "obs": "dict", "observation_key": "cards"},
        {"preset": "popgym-easy"},
        {"preset": "popgym-hard", "observe_last_action": True},
        {"preset": "popgym-medium"},
    ],
    ids=str,
)
def test_perfect_memory_never_flips_a_card_in_vain(arguments: dict[str, Any]) -> None:
    env = gym.make(ID, **arguments)
    policy = PerfectMemory(env)
    for seed in range(2):
        observation, info = env.reset(seed=seed)
        terminated = truncated = False
        while not (terminated or truncated):
            action = policy(observation, info["action_mask"])
            assert info["action_mask"][action] == 1
            observation, _, terminated, truncated, info = env.step(action)
        assert terminated
        assert info["peeks"] == 0
    env.close()


def test_perfect_memory_forgets_between_episodes() -> None:
    envs = ConcentrationVectorEnv(64, size=(2, 4), endpoint="embedded")
    policy = PerfectMemory(envs)
    observations, infos = envs.reset(seed=5)
    episodes, turns = 0, 0
    for _ in range(400):
        observations, _, terminations, _, infos = envs.step(
            policy(observations, infos["action_mask"])
        )
        episodes += int(terminations.sum())
        turns += int(infos["turns"][terminations].sum())
    envs.close()
    assert abs(turns / episodes - float(fewest_turns(0, 0, 8))) < 0.15


def test_perfect_memory_plays_no_other_game() -> None:
    envs = twofold.Game2048VectorEnv(2, endpoint="embedded")
    with pytest.raises(errors.InvalidArgument):
        PerfectMemory(envs)
    envs.close()


# ---- rewards and flips ---------------------------------------------------------------------------

# On the deck 0 1 / 0 1 with one peek: actions, and each term's value for each. A second peek is not
# available and leaves the open card open.
PLAYED = [0, 3, 0, 0, 2, 4, 4, 0, 1, 3]
TERMS: dict[str, dict[str, list[float]]] = {
    "noop": {
        "match": [0, 0, 0, 0, 1, 0, 0, 0, 0, 1],
        "mismatch": [0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        "face_up_touch": [0, 0, 0, 1, 0, 0, 0, 1, 0, 0],
        "cleared": [0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        "peek": [0, 0, 0, 0, 0, 1, 0, 0, 0, 0],
        "survival": [1, 1, 1, 0, 1, 1, 0, 0, 1, 0],
    },
    "end_turn": {
        "match": [0, 0, 0, 0, 0, 0, 0, 1, 0, 1],
        "mismatch": [0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        "face_up_touch": [0, 0, 0, 2, 0, 0, 0, 0, 0, 0],
        "cleared": [0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        "peek": [0, 0, 0, 0, 0, 1, 0, 0, 0, 0],
        "survival": [1, 1, 1, 0, 1, 1, 0, 1, 1, 0],
    },
}


@pytest.mark.parametrize("illegal_action", ["noop", "end_turn"])
def test_each_reward_term_has_the_value_of_its_formula(illegal_action: Any) -> None:
    terms = TERMS[illegal_action]
    weights = {name: float(index + 1) for index, name in enumerate(terms)}
    envs = ConcentrationVectorEnv(
        1,
        size=2,
        peeks=1,
        illegal_action=illegal_action,
        reward=weights,
        extra_infos=("reward_terms",),
        endpoint="embedded",
    )
    assert envs.reward_terms == tuple(terms)
    envs.reset(seed=0, options={"boards": [[[0, 1], [0, 1]]]})
    for step, action in enumerate(PLAYED):
        _, rewards, terminations, _, infos = envs.step([action])
        expected = [weights[name] * terms[name][step] for name in terms]
        assert infos["reward_terms"][0].tolist() == expected, step
        assert rewards[0] == sum(expected)
    assert terminations[0]
    envs.close()


def test_a_term_of_another_game_is_refused_by_name() -> None:
    with pytest.raises(errors.InvalidArgument, match="merge_score") as caught:
        ConcentrationVectorEnv(1, reward={"match": 1, "merge_score": 1}, endpoint="embedded")
    assert caught.value.field is not None
    assert caught.value.field.startswith("reward")
    with pytest.raises(errors.InvalidArgument, match="mismatch"):
        twofold.Game2048VectorEnv(1, reward={"mismatch": 1}, endpoint="embedded")


def test_flips_report_what_happened_to_each_card() -> None:
    envs = ConcentrationVectorEnv(1, size=2, extra_infos=("flips",), endpoint="embedded")
    envs.reset(seed=0, options={"boards": [[[0, 1], [0, 1]]]})
    none, turned, hidden, matched, shown = range(5)
    for action, expected in [
        (0, [turned, none, none, none]),
        (3, [none, none, none, turned]),
        (3, [hidden, none, none, turned]),  # it turned back, and is flipped again
        (4, [shown, shown, shown, none]),
        (3, [hidden, hidden, hidden, none]),  # a touch; the open card stays open
        (1, [none, matched, none, matched]),
        (0, [turned, none, none, none]),
        (2, [matched, none, matched, none]),
        (2, [none, none, none, none]),  # the next episode's start
    ]:
        *_, infos = envs.step([action])
        assert infos["flips"].ravel().tolist() == expected, action
    envs.close()


# ---- autoreset -----------------------------------------------------------------------------------


def episodes_by_mode(mode: AutoresetMode) -> list[list[tuple[float, int, bytes]]]:
    """Returns the return, length and last observation of each board's first three episodes."""
    envs = ConcentrationVectorEnv(
        8, size=(2, 3), autoreset_mode=mode, max_episode_steps=9, endpoint="embedded"
    )
    policy = PerfectMemory(envs)
    observations, infos = envs.reset(seed=21)
    episodes: list[list[tuple[float, int, bytes]]] = [[] for _ in range(8)]
    returns, lengths = np.zeros(8), np.zeros(8, np.int64)
    was_over = np.zeros(8, np.bool_)
    while min(map(len, episodes)) < 3:
        observations, rewards, terminations, truncations, infos = envs.step(
            policy(observations, infos["action_mask"])
        )
        returns += rewards
        lengths += ~was_over
        over = terminations | truncations
        for lane in np.flatnonzero(over):
            last = observations[lane]
            if mode is AutoresetMode.SAME_STEP:
                last = infos["final_obs"][lane]
                assert infos["final_info"]["episode_length"][lane] == lengths[lane]
            episodes[lane].append((float(returns[lane]), int(lengths[lane]), last.tobytes()))
        returns[over] = lengths[over] = 0
        was_over = over if mode is AutoresetMode.NEXT_STEP else was_over
        if mode is AutoresetMode.DISABLED and over.any():
            observations, infos = envs.reset(options={"reset_mask": over})
    envs.close()
    return [of_lane[:3] for of_lane in episodes]


def test_the_three_autoreset_modes_play_the_same_episodes() -> None:
    next_step = episodes_by_mode(AutoresetMode.NEXT_STEP)
    assert episodes_by_mode(AutoresetMode.SAME_STEP) == next_step
    assert episodes_by_mode(AutoresetMode.DISABLED) == next_step
    lengths = {length for of_lane in next_step for _, length, _ in of_lane}
    assert 9 in lengths, "some are truncated"
    assert min(lengths) < 9, "some are played to their end"
