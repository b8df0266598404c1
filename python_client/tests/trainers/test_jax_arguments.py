"""Tests of seeds, searches and wrong arguments in JAX."""

import functools
import pickle
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("jax", reason="`make trainers` has it")

import jax
import jax.numpy as jnp
from jax_runs import CONCENTRATION, GAME2048, assert_array, assert_same

import twofold.jax
from twofold import rules
from twofold.errors import InvalidArgument

FAILED = (ValueError, jax.errors.JaxRuntimeError)
"""The errors of JAX for a program that fails."""


@pytest.fixture
def env() -> twofold.jax.JaxEnv:
    return twofold.jax.make(GAME2048, 3)


def boards_of(seeds: Any, num_envs: int) -> Any:
    """Returns the boards that the vector environment makes from seeds."""
    envs = gym.make_vec(GAME2048, num_envs=num_envs, endpoint="embedded")
    boards, _ = envs.reset(seed=seeds)
    envs.close()
    return boards


# ---- seeds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "seeds",
    [
        0,
        2**32 + 5,
        2**64 - 1,
        2**64 + 7,
        [1, 2**63, 2**64 - 1],
        (2**32, 2**32 + 1, 0),
        np.array([2**33, 2**63 + 1, 1], np.uint64),
        np.array([3, 2**40, 5], np.int64),
        np.array([1, 2, 3], np.uint8),
        np.uint64(2**64 - 2),
    ],
    ids=repr,
)
def test_seeds_keep_their_64_bits(env: twofold.jax.JaxEnv, seeds: Any) -> None:
    state, timestep = env.reset(seeds=seeds)
    assert_array(state.board, boards_of(seeds, 3))
    assert_array(timestep.observation, state.board)


def test_compiled_code_takes_seeds_as_words(env: twofold.jax.JaxEnv) -> None:
    seeds = np.array([5, 2**32, 2**63 + 9], np.uint64)
    words = seeds.view(np.uint32).reshape(3, 2)  # the low word first
    reset = jax.jit(lambda words: env.reset(seeds=words))
    assert_same(reset(jnp.asarray(words)), env.reset(seeds=seeds))
    jax.config.update("jax_enable_x64", True)
    try:
        assert_same(reset(jnp.asarray(seeds)), env.reset(seeds=seeds))
    finally:
        jax.config.update("jax_enable_x64", False)


@pytest.mark.parametrize(
    "seeds",
    [
        jnp.arange(3),
        jnp.arange(3, dtype=jnp.uint32),
        jnp.zeros(3),
        -1,
        [1, -1, 2],
        np.array([1, -1, 2]),
        [1, None, 2],
        [1.0, 2.0, 3.0],
        [[1, 2], [3]],
        True,
        "7",
    ],
    ids=repr,
)
def test_wrong_seeds_are_refused(env: twofold.jax.JaxEnv, seeds: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        env.reset(seeds=seeds)
    assert caught.value.field == "seeds"
    with pytest.raises(InvalidArgument) as caught:
        env.spawn(np.zeros((3, 4, 4), np.uint8), seeds=seeds)
    assert caught.value.field == "seeds"


@pytest.mark.parametrize(
    "key",
    [jax.random.split(jax.random.key(0), 3), jax.random.split(jax.random.PRNGKey(0), 3), 7, "key"],
    ids=["keys", "old keys", "int", "str"],
)
def test_anything_but_a_single_key_is_refused(env: twofold.jax.JaxEnv, key: Any) -> None:
    boards = np.zeros((3, 4, 4), np.uint8)
    for call in (env.reset, lambda key: env.spawn(boards, key)):
        with pytest.raises(InvalidArgument, match=r"single key of jax\.random") as caught:
            call(key)
        assert caught.value.field == "key"


def test_a_key_and_seeds_exclude_each_other(env: twofold.jax.JaxEnv) -> None:
    boards = np.zeros((3, 4, 4), np.uint8)
    for call in (env.reset, lambda *key, **seeds: env.spawn(boards, *key, **seeds)):
        with pytest.raises(InvalidArgument, match="either key or seeds"):
            call(jax.random.key(0), seeds=0)
        with pytest.raises(InvalidArgument, match="either key or seeds"):
            call()


def test_each_key_gives_other_boards() -> None:
    env = twofold.jax.make(GAME2048, 20)
    first, _ = env.reset(jax.random.key(0))
    assert_same(env.reset(jax.random.key(0))[0], first)
    assert_same(env.reset(jax.random.PRNGKey(0))[0], first)
    second, _ = env.reset(jax.random.key(1))
    assert len({board.tobytes() for board in np.asarray(first.board)}) > 15
    assert (np.asarray(first.generator) != np.asarray(second.generator)).any(-1).all()
    keys = jnp.stack([jax.random.key(0), jax.random.key(1)])
    both, _ = jax.vmap(env.reset)(keys)
    assert_same(both, jax.tree.map(lambda *each: jnp.stack(each), first, second))


# ---- search --------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [{}, {"dialect": "pgx"}, {"size": (3, 5)}], ids=repr)
def test_afterstates_spawns_and_chances_are_those_of_the_rules(arguments: dict[str, Any]) -> None:
    env = twofold.jax.make(GAME2048, **arguments)
    shape = (40, env.game.rows, env.game.columns)
    generator = np.random.default_rng(0)
    boards = generator.integers(0, 5, shape, np.uint8) * generator.integers(0, 2, shape, np.uint8)
    boards[0] = 1 + np.arange(boards[0].size).reshape(shape[1:]) % 2  # full
    boards[1].flat[:4] = 26
    expected = rules.afterstates(boards)
    order = np.arange(4) if env.game.server_order is None else env.game.server_order
    found = env.afterstates(boards)
    assert_same(found, tuple(each[:, order] for each in expected))
    folded = jax.jit(env.afterstates)(boards.reshape(5, 8, *shape[1:]))
    assert_same(folded, tuple(each.reshape(5, 8, *each.shape[1:]) for each in found))
    assert_same(jax.vmap(env.afterstates)(boards), found)
    assert_same(env.afterstates(boards[7]), tuple(each[7] for each in found))

    seeds = generator.integers(0, 2**64, 40, np.uint64)
    assert_same(env.spawn(boards, seeds=seeds), tuple(rules.spawn(boards, seeds)))
    assert_same(env.spawn(boards, seeds=2**64 - 3), tuple(rules.spawn(boards, 2**64 - 3)))
    assert_same(env.spawn(boards[2], seeds=9), tuple(rules.spawn(boards[2], 9)))
    two = boards.reshape(5, 8, *shape[1:]), seeds.reshape(5, 8)
    assert_same(env.spawn(two[0], seeds=two[1]), tuple(rules.spawn(*two)))
    new, outcomes = env.spawn(boards, jax.random.key(0))
    assert_array(new, rules.place(boards, outcomes))
    assert int(outcomes[0]) == -1

    chances = np.asarray(env.chance(boards))
    np.testing.assert_allclose(chances, rules.chance(boards), rtol=1e-6)
    assert not chances[0].any()
    assert env.chance(boards[:0]).shape == (0, 2 * boards[0].size)


def test_a_spawn_has_the_four_probability_of_the_environment() -> None:
    env = twofold.jax.make(GAME2048, four_probability=0.7)
    boards, seeds = np.zeros((50, 4, 4), np.uint8), np.arange(50)
    expected = rules.spawn(boards, seeds, four_probability=0.7)
    assert_same(env.spawn(boards, seeds=seeds), tuple(expected))
    chances = rules.chance(boards, four_probability=0.7)
    np.testing.assert_allclose(np.asarray(env.chance(boards)), chances, rtol=1e-6)


def test_concentration_has_no_afterstates() -> None:
    env = twofold.jax.make(CONCENTRATION)
    boards = np.zeros((4, 4), np.uint8)
    for call in (env.afterstates, env.chance, lambda boards: env.spawn(boards, seeds=0)):
        with pytest.raises(InvalidArgument, match="no afterstates"):
            call(boards)


def test_boards_of_another_dtype_or_shape_are_refused(env: twofold.jax.JaxEnv) -> None:
    wrong = np.zeros((4, 4), np.int32), np.zeros((3, 4), np.uint8), np.zeros(4, np.uint8)
    for call in (env.afterstates, env.chance, lambda boards: env.spawn(boards, seeds=0)):
        for boards in wrong:
            with pytest.raises(InvalidArgument) as caught:
                call(boards)
            assert caught.value.field == "boards"
    for seeds in ([1, 2], np.zeros((3, 1), np.int64), jnp.zeros((2, 2), jnp.uint32)):
        with pytest.raises(InvalidArgument) as caught:
            env.spawn(np.zeros((3, 4, 4), np.uint8), seeds=seeds)
        assert caught.value.field == "seeds"
    with pytest.raises(FAILED, match=r"27"):
        jax.block_until_ready(env.afterstates(np.full((2, 4, 4), 27, np.uint8)))


# ---- wrong actions and states --------------------------------------------------------------------


@pytest.mark.parametrize("dialect", [None, "pgx"])
@pytest.mark.parametrize(
    ("action", "named"), [(4, 4), (5, 5), (254, 254), (-1, 255), (256, 255), (2**31 - 1, 255)]
)
def test_a_wrong_action_fails_with_its_board_and_the_next_call_works(
    dialect: str | None, action: int, named: int
) -> None:
    env = twofold.jax.make(GAME2048, 3, dialect=dialect)
    state, _ = env.reset(seeds=0)
    good, bad = jnp.array([0, 1, 2], jnp.int32), jnp.array([0, action, 2], jnp.int32)
    expected = env.step(state, good)
    for step in (env.step, jax.jit(env.step)):
        with pytest.raises(FAILED, match=f"action {named} of lane 1 is outside 0...3"):
            jax.block_until_ready(step(state, bad))
        assert_same(step(state, good), expected)
    scanned = jax.jit(lambda state: jax.lax.scan(env.step, state, jnp.stack([good, bad, good])))
    with pytest.raises(FAILED, match=f"action {named} of lane 1"):
        jax.block_until_ready(scanned(state))


@pytest.mark.parametrize(
    ("kind", "action"),
    [
        (np.array, 4),
        (np.array, -1),
        (np.array, 256),
        (np.array, 2**32 + 1),
        (list, 2**31),
        (tuple, 2**63 - 1),
    ],
)
def test_a_wrong_action_outside_jax_is_named(kind: Callable[[Any], Any], action: int) -> None:
    env = twofold.jax.make(GAME2048, 2)
    state, _ = env.reset(seeds=0)
    numbers = kind([np.int64(0), np.int64(action)])
    one = jax.tree.map(lambda array: array[1], state)
    compiled = jax.jit(lambda state: env.step(state, numbers))
    for step in (lambda state: env.step(state, numbers), compiled):
        with pytest.raises(InvalidArgument, match=rf"actions\[1\] is {action}; ") as caught:
            step(state)
        assert (caught.value.field, caught.value.lane) == ("actions", 1)
    with pytest.raises(InvalidArgument, match=rf"actions\[0\] is {action}; expected 0 \.\.\. 3"):
        env.step(one, np.int64(action))


def test_actions_may_be_a_list_of_arrays_and_numbers() -> None:
    env = twofold.jax.make(GAME2048, 3)
    state, _ = env.reset(seeds=0)
    expected = env.step(state, jnp.array([0, 1, 2]))
    for actions in ([0, 1, 2], [jnp.array(0), 1, np.int64(2)], np.array([0, 1, 2])):
        assert_same(env.step(state, actions), expected)
    with pytest.raises(InvalidArgument, match="integers"):
        env.step(state, [0.0, 1.0, 2.0])


def test_arrays_may_have_either_byte_order(env: twofold.jax.JaxEnv) -> None:
    state, _ = env.reset(seeds=0)
    arrays = map(np.asarray, state)
    swapped = type(state)(*(array.astype(array.dtype.newbyteorder()) for array in arrays))
    expected = env.step(state, jnp.array([0, 1, 2]))
    for actions in (np.array([0, 1, 2], ">i4"), np.array([0, 1, 2], "<i4")):
        assert_same(env.step(state, actions), expected)
        assert_same(env.step(swapped, actions), expected)
        compiled = jax.jit(functools.partial(env.step, actions=actions))
        assert_same(compiled(state), expected)


@pytest.mark.parametrize(
    "change",
    [
        lambda array: array.astype(object),
        lambda array: array.astype(str),
        lambda array: np.zeros(array.shape, [("a", int)]),
        lambda array: [1, [2, 3]],
        lambda array: "abc",
        lambda array: {"a": array},
    ],
    ids=["object", "string", "structured", "ragged", "text", "dict"],
)
def test_values_that_jax_can_not_read_are_refused(env: twofold.jax.JaxEnv, change: Any) -> None:
    state, _ = env.reset(seeds=0)
    actions, boards = np.zeros(3, np.int32), np.zeros((3, 4, 4), np.uint8)
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("actions", lambda: env.step(state, change(actions))),
        ("state", lambda: env.step(change(actions), actions)),
        ("state.board", lambda: env.step(state._replace(board=change(boards)), actions)),
        ("seeds", lambda: env.reset(seeds=change(actions))),
        ("boards", lambda: env.afterstates(change(boards))),
        ("boards", lambda: env.chance(change(boards))),
        ("boards", lambda: env.spawn(change(boards), seeds=0)),
    ]
    for field, call in calls:
        with pytest.raises(InvalidArgument) as caught:
            call()
        assert caught.value.field == field


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("generator", 0, "random stream of zeros"),
        ("phase", 7, "phase 7"),
        ("phase", 3, "phase 3"),
        ("episode_length", -1, "episode_length -1"),
        ("score", -1, "score"),
        ("moves", -2, "-2 moves"),
        ("board", 40, "tiles that add up to 2"),
        ("board", 255, "tiles that add up to 2"),
    ],
)
def test_a_state_of_2048_that_no_game_has_is_refused(field: str, value: int, message: str) -> None:
    env = twofold.jax.make(GAME2048, 70)
    state, _ = env.reset(seeds=0)
    actions = jnp.zeros(70, jnp.int32)
    for lane in (0, 1, 63, 64, 69):
        array = getattr(state, field)
        wrong = state._replace(**{field: array.at[lane].set(jnp.asarray(value, array.dtype))})
        with pytest.raises(FAILED, match=f"the state of lane {lane} has .*{message}"):
            jax.block_until_ready(env.step(wrong, actions))
    jax.block_until_ready(env.step(state, actions))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("generator", 0),
        ("phase", 3),
        ("episode_length", -1),
        ("open_card", 16),
        ("open_card", -2),
        ("turns", -1),
        ("peeks", -1),
        ("last_action", 99),
        ("deck", 200),
        ("deck", 0),
        ("matched", 1),
        ("visible", 2**31),
    ],
)
def test_a_state_of_cards_that_no_game_has_is_refused(field: str, value: int) -> None:
    env = twofold.jax.make(CONCENTRATION, 3)
    state, _ = env.reset(seeds=0)
    array = getattr(state, field)
    wrong = state._replace(**{field: array.at[1].set(jnp.asarray(value, array.dtype))})
    with pytest.raises(FAILED, match="the state of lane 1 has"):
        jax.block_until_ready(env.step(wrong, jnp.zeros(3, jnp.int32)))


def test_a_state_of_another_type_dtype_or_shape_is_refused(env: twofold.jax.JaxEnv) -> None:
    state, _ = env.reset(seeds=0)
    actions = jnp.zeros(3, jnp.int32)
    other, _ = twofold.jax.make(CONCENTRATION, 3).reset(seeds=0)
    larger, _ = twofold.jax.make(GAME2048, 3, size=5).reset(seeds=0)
    wrong = {
        "state": [tuple(state), other, None],
        "state.board": [larger, state._replace(board=state.board.astype(jnp.int8))],
        "state.score": [state._replace(score=state.score[:2])],
        "state.moves": [state._replace(moves=state.moves.astype(jnp.float32))],
    }
    for field, states in wrong.items():
        for each in states:
            with pytest.raises(InvalidArgument) as caught:
                env.step(each, actions)
            assert caught.value.field == field
    for wrong_actions in (actions[:2], actions[:, None], jnp.zeros(3), actions == 0):
        with pytest.raises(InvalidArgument) as caught:
            env.step(state, wrong_actions)
        assert caught.value.field == "actions"


# ---- arguments of make ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("endpoint", {"endpoint": "embedded"}),
        ("render_mode", {"render_mode": "ansi"}),
        ("copy", {"copy": False}),
        ("obs", {"obs": "dict"}),
        ("obs", {"obs": "planes"}),
        ("mask_key", {"mask_key": "mask"}),
        ("autoreset_mode", {"autoreset_mode": "NEVER"}),
        ("size", {"size": 9}),
        ("reward.nothing", {"reward": {"nothing": 1}}),
        ("num_envs", {"num_envs": 0}),
        ("extra_infos", {"extra_infos": ("nothing",)}),
        ("extra_infos", {"extra_infos": ("episode_return",)}),
        ("extra_infos", {"extra_infos": ("episode",)}),
        ("extra_infos", {"extra_infos": ("optimal_value",), "size": 2}),
        ("extra_infos", {"extra_infos": ("action_values",), "size": 2}),
        ("extra_infos", {"extra_infos": ("chance", "regret"), "size": 2}),
    ],
    ids=repr,
)
def test_arguments_without_a_meaning_are_refused_by_name(
    field: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        twofold.jax.make(GAME2048, **arguments)
    assert caught.value.field == field
    name = arguments.get("extra_infos", (field,))[-1]
    assert name.removeprefix("reward.") in str(caught.value)


def test_unknown_environments_and_arguments_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="expected one of 'twofold/Game2048-v0'"):
        twofold.jax.make("twofold/Game2049-v0")
    with pytest.raises(TypeError, match="'sizes'; did you mean 'size'"):
        twofold.jax.make(GAME2048, sizes=4)


def test_planes_of_observations_with_the_last_action_are_refused() -> None:
    for obs in ("one_hot", "one_hot_last"):
        with pytest.raises(InvalidArgument) as caught:
            twofold.jax.make(CONCENTRATION, obs=obs, observe_last_action=True)
        assert caught.value.field == "obs"


def test_an_equal_environment_is_not_compiled_again() -> None:
    def play(**arguments: Any) -> twofold.jax.JaxEnv:
        env = twofold.jax.make(GAME2048, 8, **arguments)
        env.step(env.reset(seeds=1)[0], np.zeros(8, int))
        return env

    first = play()
    compiled = twofold.jax.JaxEnv._step._cache_size()
    assert play() == first == pickle.loads(pickle.dumps(first))
    assert twofold.jax.JaxEnv._step._cache_size() == compiled
    assert twofold.jax.make("twofold:twofold/Game2048", 8) == first
    others = [
        play(obs="one_hot"),
        play(dialect="pgx"),
        play(autoreset_mode="Disabled"),
        play(goal=16),
        play(reward={"merge_exponent": 0.1}),
        play(max_episode_steps=3),
        twofold.jax.make(GAME2048, 9),
    ]
    assert len({first, *others}) == 8


@pytest.mark.parametrize("promotion", ["standard", "strict"])
def test_chances_are_float32_under_either_promotion(promotion: Any) -> None:
    env = twofold.jax.make(GAME2048, 8)
    with jax.numpy_dtype_promotion(promotion):
        assert env.chance(env.reset(seeds=1)[0].board).dtype == np.float32
