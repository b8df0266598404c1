"""Tests that boards in JAX are the boards of the vector environment."""

import hashlib
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

pytest.importorskip("jax", reason="`make trainers` has it")

import jax
import jax.numpy as jnp
from hypothesis import given, settings
from hypothesis import strategies as st
from jax_runs import CONCENTRATION, GAME2048, Pair, assert_array, assert_same

import twofold.jax
from twofold.envs.snapshots import generators

SAME_STEP = AutoresetMode.SAME_STEP
INFOS = ("reward_terms", "merges", "chance", "afterstates")
REWARD = {
    "terms": {
        "merge_score": 0.5,
        "empty_cells": {"weight": 0.25, "gamma": 0.99},
        "monotonicity": {"weight": 0.125, "gamma": 0.99},
        "game_over": -3,
        "illegal_action": -1,
    },
    "scale": 0.1,
    "clip": (-2, 20),
}
CASES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "2 x 2": (GAME2048, 200, {"size": 2}),
    "2 x 3": (GAME2048, 1, {"size": (2, 3), "max_episode_steps": 20}),
    "3 x 3": (GAME2048, 63, {"size": 3, "extra_infos": INFOS}),
    "4 x 4": (GAME2048, 64, {"max_episode_steps": 40}),
    "5 x 4": (GAME2048, 65, {"size": (5, 4), "max_episode_steps": 50}),
    "8 x 8": (GAME2048, 65, {"size": 8, "max_episode_steps": 30, "extra_infos": INFOS}),
    "jumanji": (GAME2048, 65, {"dialect": "jumanji", "size": 3}),
    "envpool": (GAME2048, 63, {"dialect": "envpool", "max_episode_steps": 33}),
    "pgx": (GAME2048, 65, {"dialect": "pgx", "extra_infos": INFOS}),
    "a declared reward": (GAME2048, 64, {"size": 3, "reward": REWARD, "extra_infos": INFOS}),
    "a declared reward of 65 boards of 5 x 4": (
        GAME2048,
        65,
        {"size": (5, 4), "reward": REWARD, "extra_infos": INFOS, "max_episode_steps": 40},
    ),
    "one_hot": (GAME2048, 3, {"size": 3, "obs": "one_hot"}),
    "one_hot_last": (GAME2048, 3, {"size": (2, 3), "obs": "one_hot_last"}),
    "flat": (GAME2048, 3, {"size": (3, 2), "obs": "flat"}),
    "a goal": (GAME2048, 64, {"goal": 32, "stop_at_goal": True}),
    "terminate": (GAME2048, 65, {"illegal_action": "terminate", "size": (3, 4)}),
    "other spawns": (GAME2048, 7, {"size": 3, "start_tiles": 5, "four_probability": 0.7}),
    "cards": (CONCENTRATION, 64, {"max_episode_steps": 40}),
    "cards of two symbols": (CONCENTRATION, 65, {"size": (2, 4), "symbols": 2, "peeks": 2}),
    "an open deck": (
        CONCENTRATION,
        1,
        {"size": (1, 6), "deck_info": True, "max_episode_steps": 25, "illegal_action": "end_turn"},
    ),
    "the last action": (
        CONCENTRATION,
        63,
        {"size": (2, 3), "observe_last_action": True, "matched_cards": "face_up"},
    ),
    "128 cards": (
        CONCENTRATION,
        200,
        {"size": (8, 16), "max_episode_steps": 30, "reward": {"match": 2, "peek": -0.5}},
    ),
    "popgym-hard": (CONCENTRATION, 5, {"preset": "popgym-hard", "extra_infos": ("reward_terms",)}),
    "planes of cards": (CONCENTRATION, 3, {"size": (2, 2), "obs": "one_hot", "peeks": 0}),
    "flat cards": (
        CONCENTRATION,
        3,
        {"size": (2, 2), "obs": "flat", "observe_last_action": True},
    ),
}


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: str(mode.name))
@pytest.mark.parametrize("case", CASES)
def test_the_same_seeds_and_actions_give_the_bytes_of_the_vector_environment(
    case: str, mode: AutoresetMode
) -> None:
    env, num_envs, arguments = CASES[case]
    pair = Pair(env, num_envs, mode, **arguments)
    pair.play(130)
    assert pair.episodes > 0


@pytest.mark.parametrize("env", [GAME2048, CONCENTRATION])
def test_a_finished_board_waits_if_autoreset_is_disabled(env: str) -> None:
    pair = Pair(env, 2, AutoresetMode.DISABLED, size=2, max_episode_steps=3)
    state, _ = pair.env.reset(seeds=0)
    for _ in range(3):
        state, ended = pair.env.step(state, np.zeros(2, np.int32))
    assert np.asarray(ended.terminated | ended.truncated).all()
    for _ in range(3):
        again, timestep = pair.env.step(state, np.ones(2, np.int32))
        assert_same(again, state)
        no = np.zeros(2, np.bool_)
        expected = ended._replace(reward=no.astype(np.float32), terminated=no, truncated=no)
        assert_same(timestep, expected)


def test_a_reset_has_the_extra_infos_of_a_step_that_only_starts_a_new_episode() -> None:
    arguments: dict[str, Any] = {"size": 2, "extra_infos": INFOS, "reward": REWARD}
    env = twofold.jax.make(
        GAME2048, 1, autoreset_mode="NEXT_STEP", max_episode_steps=1, **arguments
    )
    state, reset = env.reset(seeds=0)
    state, _ = env.step(state, np.zeros(1, np.int32))
    _, started = env.step(state, np.zeros(1, np.int32))
    for name in INFOS:
        assert_array(reset.info[name], started.info[name], name)


# ---- the ways to run a program -------------------------------------------------------------------

STEPS = 40
ARGUMENTS: dict[str, dict[str, Any]] = {
    GAME2048: {"size": 3, "max_episode_steps": 30, "extra_infos": INFOS},
    CONCENTRATION: {"size": 2, "max_episode_steps": 12},
}


class Run:
    """A run of six boards, step by step."""

    def __init__(self, env: str) -> None:
        self.env = twofold.jax.make(env, 6, **ARGUMENTS[env])
        self.start, _ = self.env.reset(seeds=2**40)
        numbers = np.random.default_rng(0).integers(0, self.env.num_actions, (STEPS, 6))
        self.actions = jnp.asarray(numbers, jnp.int32)
        state, timesteps = self.start, []
        for actions in self.actions:
            state, timestep = self.env.step(state, actions)
            timesteps.append(timestep)
        self.end = state
        self.timesteps = jax.tree.map(lambda *each: jnp.stack(each), *timesteps)

    def scan(self, state: Any, actions: Any) -> Any:
        return jax.lax.scan(self.env.step, state, actions)


@pytest.fixture(scope="module", params=[GAME2048, CONCENTRATION])
def run(request: pytest.FixtureRequest) -> Run:
    return Run(request.param)


def in_rows(tree: Any, axis: int = 0) -> Any:
    """Returns the tree with the axis of six boards split into (2, 3)."""
    return jax.tree.map(
        lambda leaf: leaf.reshape(*leaf.shape[:axis], 2, 3, *leaf.shape[axis + 1 :]), tree
    )


def test_compiled_steps_and_a_scan_give_the_same_bytes(run: Run) -> None:
    state, step = run.start, jax.jit(run.env.step)
    for index, actions in enumerate(run.actions):
        state, timestep = step(state, actions)
        assert_same(timestep, jax.tree.map(lambda each, index=index: each[index], run.timesteps))
    assert_same(state, run.end)
    assert_same(run.scan(run.start, run.actions), (run.end, run.timesteps))
    assert_same(jax.jit(run.scan)(run.start, run.actions), (run.end, run.timesteps))


def test_steps_without_compilation_give_the_same_bytes(run: Run) -> None:
    with jax.disable_jit():
        _, timestep = run.env.step(run.start, run.actions[0])
    assert_same(timestep, jax.tree.map(lambda each: each[0], run.timesteps))


def test_vmap_over_an_outer_axis_gives_the_same_bytes(run: Run) -> None:
    start, actions = in_rows(run.start), in_rows(run.actions, 1)
    expected = in_rows(run.end), in_rows(run.timesteps, 1)
    outer = jax.vmap(run.scan, in_axes=(0, 1), out_axes=(0, 1))
    assert_same(jax.jit(outer)(start, actions), expected)
    inner = jax.vmap(jax.vmap(run.env.step))
    assert_same(jax.lax.scan(inner, start, actions), expected)
    same = jax.vmap(run.env.step, in_axes=(None, 0))(run.start, run.actions[:1].repeat(2, 0))
    for copy in range(2):
        timestep = jax.tree.map(lambda each, copy=copy: each[copy], same[1])
        assert_same(timestep, jax.tree.map(lambda each: each[0], run.timesteps))


def test_leading_axes_from_the_shape_of_the_seeds_give_the_same_bytes(run: Run) -> None:
    start, _ = run.env.reset(seeds=(2**40 + np.arange(6, dtype=np.uint64)).reshape(2, 3))
    assert_same(start, in_rows(run.start))
    ran = run.scan(start, in_rows(run.actions, 1))
    assert_same(ran, (in_rows(run.end), in_rows(run.timesteps, 1)))


def test_one_board_out_of_the_batch_plays_the_same_game(run: Run) -> None:
    def lane(tree: Any, axis: int = 0) -> Any:
        return jax.tree.map(lambda leaf: leaf.take(4, axis), tree)

    ran = run.scan(lane(run.start), run.actions[:, 4])
    assert_same(ran, (lane(run.end), lane(run.timesteps, 1)))


def test_gradients_of_something_else_with_and_without_remat_agree(run: Run) -> None:
    def loss(weight: Any, body: Any) -> Any:
        def step(state: Any, actions: Any) -> Any:
            state, timestep = run.env.step(state, actions)
            value = (timestep.observation.astype(jnp.float32) * weight).sum()
            return state, (value * jax.lax.stop_gradient(timestep.reward).sum(), timestep)

        end, (values, timesteps) = jax.lax.scan(body(step), run.start, run.actions)
        return values.sum(), (end, timesteps)

    plain, remat = (
        jax.jit(jax.grad(partial(loss, body=body), has_aux=True))(0.5)
        for body in (lambda step: step, jax.checkpoint)
    )
    assert_same(plain, remat)
    assert_same(plain[1], (run.end, run.timesteps))
    assert float(plain[0]) != 0


def test_actions_that_come_from_differentiated_weights_can_be_played(run: Run) -> None:
    def loss(weights: Any) -> Any:
        scores = weights * jnp.ones((6, run.env.num_actions))
        _, timestep = run.env.step(run.start, scores.argmax(-1))
        return (jax.nn.log_softmax(scores)[:, 1] * timestep.reward).sum()

    weights = jnp.zeros(run.env.num_actions).at[1].set(1)
    gradient = jax.grad(loss)(weights)
    assert gradient.shape == weights.shape
    assert jnp.isfinite(gradient).all()


def test_donated_states_give_the_same_bytes(run: Run) -> None:
    step = jax.jit(run.env.step, donate_argnums=0)
    state = jax.tree.map(jnp.copy, run.start)
    for actions in run.actions:
        state, _ = step(state, actions)
    assert_same(state, run.end)


def test_a_step_changes_no_argument_and_may_be_repeated_or_dropped(run: Run) -> None:
    before = jax.tree.map(lambda leaf: np.array(leaf, copy=True), run.start)
    first = run.env.step(run.start, run.actions[0])
    run.env.step(run.start, run.actions[1])
    assert_same(run.env.step(run.start, run.actions[0]), first)
    assert_same(run.start, before)

    def twice(state: Any) -> Any:
        run.env.step(state, run.actions[1])
        return run.env.step(state, run.actions[0]), run.env.step(state, run.actions[0]), state

    one, other, state = jax.jit(twice)(run.start)
    assert_same(one, first)
    assert_same(other, first)
    assert_same(state, before)


def test_an_array_without_boards_gives_arrays_without_boards(run: Run) -> None:
    for obs in ("array", "one_hot", "one_hot_last", "flat"):
        env = twofold.jax.make(run.env.game.environment_id, obs=obs)
        full = env.reset(seeds=[1])
        empty = env.reset(seeds=np.zeros(0, np.uint64))
        for state, timestep in (empty, env.step(empty[0], np.zeros(0, np.int32))):
            assert_same(state, jax.tree.map(lambda leaf: leaf[:0], full[0]))
            assert timestep.observation.shape == (0, *full[1].observation.shape[1:])


def test_observations_have_the_same_dtypes_with_64_bits(run: Run) -> None:
    for obs in ("array", "one_hot", "one_hot_last", "flat"):
        env = twofold.jax.make(run.env.game.environment_id, 2, obs=obs)
        state, _ = env.reset(seeds=0)
        expected = env.step(state, np.array([1, 2], np.int32))
        jax.config.update("jax_enable_x64", True)
        try:
            assert_same(env.step(state, np.array([1, 2], np.int64)), expected)
            # All of these would be 1 in the lowest 32 bits.
            with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match="lane 1"):
                jax.block_until_ready(env.step(state, jnp.array([1, 2**32 + 1])))
        finally:
            jax.config.update("jax_enable_x64", False)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
def test_actions_of_each_dtype_play_the_same(dtype: Any) -> None:
    for env, arguments in ((GAME2048, {"dialect": "pgx"}), (CONCENTRATION, {"size": (8, 16)})):
        boards = twofold.jax.make(env, 4, **arguments)
        state, _ = boards.reset(seeds=0)
        actions = [0, 1, 2, 3] if env == GAME2048 else [0, 100, 127, 64]
        expected = boards.step(state, jnp.asarray(actions, jnp.int32))
        assert_same(boards.step(state, np.asarray(actions, dtype)), expected)


# ---- long and random runs ------------------------------------------------------------------------

STATES = "82a173dad633bd641249252f7d60f6543c04f0ea579d6182a85f4cdb6271cae9"


def test_the_states_of_10000_scanned_steps_have_a_known_hash() -> None:
    actions = np.random.RandomState(0).randint(0, 4, (10_000, 8)).astype(np.uint8)
    pair = Pair(GAME2048, 8, SAME_STEP)
    start, _ = pair.env.reset(seeds=1)

    def step(state: Any, actions: Any) -> Any:
        state, _ = pair.env.step(state, actions)
        return state, state

    end, states = jax.jit(partial(jax.lax.scan, step))(start, actions)
    ours, theirs = hashlib.sha256(), hashlib.sha256()
    for name in ("board", "score", "moves", "episode_length"):
        ours.update(np.asarray(getattr(states, name)).tobytes())
    pair.vector.reset(seed=1)
    arrays: dict[str, list[Any]] = {"board": [], "score": [], "moves": [], "episode_length": []}
    for row in actions:
        observation, *_, infos = pair.vector.step(row)
        for name, each in arrays.items():
            each.append(observation if name == "board" else infos[name])
    for each in arrays.values():
        theirs.update(np.stack(each).tobytes())
    words = generators(pair.vector.snapshot())
    assert np.asarray(end.generator).tobytes() == words.tobytes()
    assert not np.asarray(states.phase).any()
    assert ours.hexdigest() == theirs.hexdigest() == STATES


@st.composite
def arguments_of_2048(draw: Any) -> dict[str, Any]:
    arguments = {
        "size": draw(st.tuples(st.integers(2, 5), st.integers(2, 5))),
        "goal": draw(st.sampled_from([8, 16, 2048])),
        "stop_at_goal": draw(st.booleans()),
        "four_probability": draw(st.sampled_from([0, 0.1, 0.5, 1])),
        "illegal_action": draw(st.sampled_from(["noop", "terminate"])),
        "max_episode_steps": draw(st.none() | st.integers(1, 12)),
        "extra_infos": draw(st.lists(st.sampled_from(INFOS), unique=True)),
        "obs": draw(st.sampled_from(["array", "one_hot", "one_hot_last", "flat"])),
    }
    if draw(st.booleans()):
        arguments["reward"] = REWARD
    return arguments


@st.composite
def arguments_of_concentration(draw: Any) -> dict[str, Any]:
    rows, columns = draw(st.sampled_from([(1, 2), (2, 2), (2, 3), (3, 4), (4, 5), (16, 8)]))
    pairs = rows * columns // 2
    return {
        "size": (rows, columns),
        "symbols": draw(st.sampled_from([n for n in range(1, pairs + 1) if pairs % n == 0])),
        "peeks": draw(st.sampled_from([0, 1, 3, "unlimited"])),
        "matched_cards": draw(st.sampled_from(["removed", "face_up"])),
        "illegal_action": draw(st.sampled_from(["noop", "end_turn", "terminate"])),
        "observe_last_action": draw(st.booleans()),
        "deck_info": draw(st.booleans()),
        "max_episode_steps": draw(st.none() | st.integers(1, 12)),
        "extra_infos": draw(st.sampled_from([(), ("reward_terms",)])),
    }


ENVS = st.tuples(st.just(GAME2048), arguments_of_2048()) | st.tuples(
    st.just(CONCENTRATION), arguments_of_concentration()
)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(ENVS, st.sampled_from(AutoresetMode), st.integers(1, 130), st.integers(0, 2**32))
def test_random_arguments_and_actions_give_the_bytes_of_the_vector_environment(
    chosen: tuple[str, dict[str, Any]], mode: AutoresetMode, num_envs: int, seed: int
) -> None:
    env, arguments = chosen
    pair = Pair(env, num_envs, mode, **arguments)
    pair.generator = np.random.default_rng(seed)
    pair.play(25)
