"""Tests of snapshots, restores and forks: contents, refusals, and secrecy of the future."""

import copy
import pickle
import zlib
from collections.abc import Callable
from typing import Any, Literal

import exact
import gymnasium as gym
import numpy as np
import pytest
from loops import flat
from reference import Game, Xoshiro128PlusPlus, splitmix64

import twofold
from twofold import errors
from twofold.envs.seeding import fork_seeds

Make = Callable[..., twofold.Game2048VectorEnv]

# The client handles replies in the same way on every carrier.
in_this_process = pytest.mark.parametrize("endpoint", ["embedded"], indirect=True)


def play(envs: twofold.Game2048VectorEnv, first: int, last: int) -> list[bytes]:
    """Plays steps with actions that depend only on step and lane, and returns their results."""
    told = []
    for step in range(first, last):
        actions = (np.arange(envs.num_envs) * 5 + step * step // 2) % 4
        observations, *arrays, infos = envs.step(actions)
        told.append(b"".join([observations.tobytes(), *(a.tobytes() for a in arrays), flat(infos)]))
    return told


# ---- snapshot and restore ------------------------------------------------------------------------


@pytest.mark.parametrize("size", [4, (3, 5)])
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_restored_boards_continue_as_if_nothing_had_happened(
    make: Make, mode: str, size: Any
) -> None:
    arguments = {"size": size, "autoreset_mode": mode, "max_episode_steps": 25}
    envs = make(65, **arguments)
    envs.reset(seed=3)
    play(envs, 0, 40)
    before, _ = envs.observe()
    blob = envs.snapshot()
    expected = play(envs, 40, 80)
    other = make(65, **arguments)  # never reset
    for restored in (envs, other):
        observations, infos = restored.restore(blob)
        np.testing.assert_array_equal(observations, before)
        assert infos.keys() == envs.observe()[1].keys()
        assert restored.snapshot() == blob
        assert play(restored, 40, 80) == expected


def test_boards_can_be_selected_moved_and_copied(make: Make) -> None:
    envs = make(6)
    envs.reset(seed=0)
    play(envs, 0, 10)
    boards, _ = envs.observe()
    blob = envs.snapshot([5, 2])
    target = make(4)
    before, _ = target.reset(seed=50)
    observations, _ = target.restore(blob, [3, 0, 1], rows=[0, 1, 0])
    np.testing.assert_array_equal(observations, [boards[2], boards[5], before[2], boards[5]])
    assert target.np_random_seed == -1
    target.reset(seed=[9, 9, 9, 9])
    target.reset(seed=9)
    assert target.np_random_seed == 9


def test_a_restore_may_start_new_streams(make: Make) -> None:
    envs = make(1)
    board, _ = envs.reset(seed=0)
    blob = envs.snapshot()
    forks = make(3)
    forks.restore(blob, rows=[0, 0, 0], seed=40)
    assert forks.np_random_seed == 40
    games = [Game(40 + lane, start_tiles=0) for lane in range(3)]
    for game in games:
        game.board = tuple(board.ravel().tolist())
    for action in (0, 1, 2, 3, 0, 1, 2, 3):
        expected = [game.step(action) for game in games]
        observations, rewards, *_ = forks.step([action] * 3)
        assert observations.reshape(3, 16).tolist() == [list(game.board) for game in games]
        assert rewards.tolist() == expected


def test_reward_limits_mode_and_number_of_boards_may_differ(make: Make) -> None:
    envs = make(2, max_episode_steps=4)
    envs.reset(seed=0)
    envs.step([0, 1])
    other = make(
        5, autoreset_mode="disabled", reward={"merge_count": 2.0}, extra_infos=["reward_terms"]
    )
    other.restore(envs.snapshot(), rows=[0, 1, 0, 1, 0])
    *_, infos = other.step([2, 3, 2, 3, 2])
    expected = envs.step([2, 3])
    assert infos["score"].tolist() == expected[-1]["score"][[0, 1, 0, 1, 0]].tolist()


def test_a_snapshot_may_be_any_view_of_its_bytes(make: Make) -> None:
    envs = make()
    before, _ = envs.reset(seed=4)
    blob = envs.snapshot()
    views: list[Any] = [bytearray(blob), memoryview(blob), memoryview(blob[::-1])[::-1]]
    for view in views:
        envs.reset(seed=5)
        np.testing.assert_array_equal(envs.restore(view)[0], before)
    with pytest.raises(errors.InvalidArgument, match="not a snapshot"):
        envs.restore(views[1][::2])


def test_the_single_environment_also_has_snapshots(make: Make, endpoint: str) -> None:
    env = gym.make("twofold/Game2048-v0", endpoint=endpoint).unwrapped
    assert isinstance(env, twofold.TwofoldEnv)
    env.reset(seed=4)
    env.step(0)
    blob = env.snapshot()
    expected = [env.step(action)[1:] for action in (1, 2, 3, 0)]
    observation, info = env.restore(blob)
    assert observation.shape == (4, 4)
    assert type(info["score"]) is np.int64
    for step, told in zip((1, 2, 3, 0), expected, strict=True):
        assert str(env.step(step)[1:]) == str(told)
    envs = make(3)
    boards, _ = envs.reset(seed=0)
    for row in (6, -1, 2**63, 2**64):
        with pytest.raises(errors.InvalidArgument, match=r"^row is ") as caught:
            env.restore(envs.snapshot(), row=row)
        assert caught.value.field == "row"
    observation, _ = env.restore(envs.snapshot(), row=2, seed=1)
    np.testing.assert_array_equal(observation, boards[2])
    env.close()


def test_a_blob_has_the_documented_format(make: Make) -> None:
    envs = make(2, size=(2, 3), max_episode_steps=2)
    envs.reset(seed=[7, 8])
    envs.step([0, 0])
    envs.step([0, 1])
    blob = envs.snapshot()
    rules = (
        b"environment_id=twofold/Game2048-v0\nsize=2x3\ngoal=2048\nstop_at_goal=false\n"
        b"four_probability=429496730/2^32\nstart_tiles=2\nillegal_action=noop\n"
    )

    def number(value: int, size: int) -> bytes:
        return value.to_bytes(size, "little")

    head = b"TWOFOLDS" + number(1, 4) + number(len(rules), 4) + number(2, 8) + number(39, 4)
    records = streams = b""
    for seed, actions in ((7, (0, 0)), (8, (0, 1))):
        game = Game(seed, rows=2, columns=3)
        for action in actions:
            game.step(action)
        records += b"".join(number(word, 4) for word in game.generator.words)
        records += number(1 if game.terminated else 2, 1) + number(2, 4)
        records += number(game.score, 8) + number(game.moves, 4) + bytes(game.board)
        policy = Xoshiro128PlusPlus.seeded(seed ^ 0x706F6C6963790000)
        streams += b"".join(number(word, 4) for word in policy.words)
    expected = head + rules + records + streams
    assert blob == expected + number(zlib.crc32(expected), 4)


def test_the_policies_of_rollouts_continue_their_streams(make: Make) -> None:
    envs, other = make(), make()
    envs.reset(seed=3)
    envs.rollout(7, "random")
    blob = envs.snapshot()
    actions = envs.rollout(9, "random").actions.copy()
    envs.restore(blob)
    np.testing.assert_array_equal(envs.rollout(9, "random").actions, actions)
    other.restore(blob, rows=[5, 5, 5, 0, 0, 0])
    np.testing.assert_array_equal(other.rollout(9, "random").actions, actions[:, [5] * 3 + [0] * 3])
    # New seeds also apply to the policies.
    other.restore(blob, rows=[5] * 6, seed=1)
    assert len(np.unique(other.rollout(20, "random").actions, axis=1).T) == 6


# ---- refusals ------------------------------------------------------------------------------------


def broken(blob: bytes, kind: str) -> Any:
    at = int(kind.split()[-1]) if kind[-1].isdigit() else 0
    return {
        "empty": b"",
        "no": None,
        "text": "TWOFOLDS",
        "cut": blob[:at],
        "flipped": bytes([*blob[:at], blob[at] ^ 16, *blob[at + 1 :]]),
        "version": blob[:8] + b"\x03" + blob[9:],
        "longer": blob + b"\0",
    }[kind.split()[0]]


@in_this_process
@pytest.mark.parametrize(
    "kind",
    ["empty", "no", "text", "version", "longer"]
    + [f"cut {at}" for at in (7, 12, 27, 100, 300)]
    + [f"flipped {at}" for at in (0, 13, 17, 25, 60, 250, 300, -1)],
)
def test_an_invalid_snapshot_is_refused_and_changes_nothing(make: Make, kind: str) -> None:
    envs = make()
    before, _ = envs.reset(seed=0)
    blob = envs.snapshot()
    kind = kind.replace("-1", str(len(blob) - 1))
    with pytest.raises(errors.InvalidArgument) as caught:
        envs.restore(broken(blob, kind))
    assert caught.value.field == "blob"
    np.testing.assert_array_equal(envs.observe()[0], before)
    assert envs.snapshot() == blob


@in_this_process
@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("size", {"size": 3}),
        ("size", {"size": (4, 5)}),
        ("goal", {"goal": 64}),
        ("stop_at_goal", {"stop_at_goal": True}),
        ("four_probability", {"four_probability": 0.25}),
        ("start_tiles", {"start_tiles": 1}),
        ("illegal_action", {"illegal_action": "terminate"}),
    ],
    ids=str,
)
def test_other_rules_are_refused_by_name(make: Make, field: str, arguments: dict[str, Any]) -> None:
    source = make(2, **arguments)
    source.reset(seed=0)
    envs = make(2)
    with pytest.raises(errors.InvalidArgument, match="snapshot was taken with") as caught:
        envs.restore(source.snapshot())
    assert caught.value.field == field


def test_other_rules_are_named_by_their_arguments_values() -> None:
    source, envs = (
        twofold.ConcentrationVectorEnv(1, illegal_action=action, endpoint="embedded")
        for action in ("end_turn", "noop")
    )
    source.reset(seed=0)
    with pytest.raises(errors.InvalidArgument, match=r"illegal_action end_turn; .* has noop"):
        envs.restore(source.snapshot())
    source.close()
    envs.close()


@in_this_process
@pytest.mark.parametrize(
    ("lanes", "lane"),
    [
        ([], None),
        ([6], 6),
        ([0, -1], -1),
        ([1, 2, 1], 1),
        ([0.0], None),
        ([True, False], None),
        (3, None),
        ([[0, 1]], None),
        ([[0], [1, 2]], None),
        ("0", None),
    ],
    ids=str,
)
def test_wrong_lanes_are_refused(make: Make, lanes: Any, lane: int | None) -> None:
    envs = make()
    envs.reset(seed=0)
    blob = envs.snapshot()
    calls: list[Callable[[], Any]] = [
        lambda: envs.snapshot(lanes),
        lambda: envs.restore(blob, lanes),
        lambda: envs.fork(lanes),
    ]
    for call in calls:
        with pytest.raises(errors.InvalidArgument) as caught:
            call()
        assert (caught.value.field, caught.value.lane) == ("lanes", lane)


@in_this_process
@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("rows", {"rows": [0, 1]}),
        ("rows", {"rows": [0, 1, 2, 3, 4, 6]}),
        ("rows", {"rows": [0, 1, 2, 3, 4, -1]}),
        ("rows", {"rows": [0.0] * 6}),
        ("blob", {"lanes": [0, 1]}),
        ("seed", {"seed": -1}),
        ("seed", {"seed": [1, 2, 3, 4, 5, None]}),
    ],
    ids=str,
)
def test_wrong_arguments_of_a_restore_are_refused(
    make: Make, field: str, arguments: dict[str, Any]
) -> None:
    envs = make()
    before, _ = envs.reset(seed=0)
    with pytest.raises(errors.InvalidArgument) as caught:
        envs.restore(envs.snapshot(), **arguments)
    assert caught.value.field == field
    np.testing.assert_array_equal(envs.observe()[0], before)


def test_a_snapshot_before_the_first_reset_is_refused(make: Make) -> None:
    envs = make()
    with pytest.raises(errors.FailedPrecondition):
        envs.snapshot()
    with pytest.raises(errors.FailedPrecondition):
        envs.fork([0])
    source = make(2)
    source.reset(seed=0)
    with pytest.raises(errors.FailedPrecondition) as caught:
        envs.restore(source.snapshot(), [0, 2])
    assert (caught.value.field, caught.value.lane) == ("lanes", 1)


# ---- forks ---------------------------------------------------------------------------------------


def test_a_fork_has_copies_of_the_boards_in_their_order(make: Make) -> None:
    envs = make(6, reward={"merge_count": 1.0}, autoreset_mode="same_step", timeout=20)
    envs.reset(seed=0)
    play(envs, 0, 10)
    boards, infos = envs.observe()
    fork = envs.fork([4, 1], copies=3, seed=7)
    assert type(fork) is type(envs)
    assert fork.num_envs == 6
    assert fork.autoreset_mode == envs.autoreset_mode
    assert fork.reward_terms == envs.reward_terms
    assert fork._session._timeout == 20
    assert fork.np_random_seed == -1
    again = envs.fork([4, 1], copies=3, seed=7)
    np.testing.assert_array_equal(play_alike(again), play_alike(envs.fork([4, 1], 3, seed=7)))
    copies, copied = fork.observe()
    np.testing.assert_array_equal(copies, boards[[4, 4, 4, 1, 1, 1]])
    np.testing.assert_array_equal(copied["score"], infos["score"][[4, 4, 4, 1, 1, 1]])
    fork.step([0, 1, 2, 3, 0, 1])
    fork.close()
    np.testing.assert_array_equal(envs.observe()[0], boards)
    envs.step([0] * 6)


def test_copies_with_fresh_spawns_differ_and_copies_with_the_same_spawns_do_not(make: Make) -> None:
    envs = make(2)
    envs.reset(seed=0)
    fresh = [envs.fork([0, 1], copies=50) for _ in range(2)]
    same = envs.fork([0, 1], copies=50, spawns="same")
    told = {id(fork): play_alike(fork) for fork in (*fresh, same, envs)}
    for fork in fresh:
        assert len({board.tobytes() for board in told[id(fork)][:50]}) > 40
    assert not np.array_equal(*(told[id(fork)] for fork in fresh)), "seeds come from the system"
    np.testing.assert_array_equal(told[id(same)], told[id(envs)].repeat(50, axis=0))
    assert same.np_random_seed == -1
    for fork in (*fresh, same):
        fork.close()


def test_a_fork_never_meets_its_parents_future(make: Make) -> None:
    """This holds even if both are given the same seed."""
    envs = make(8)
    envs.reset(seed=0)
    blob = envs.snapshot()
    boards = np.repeat(envs.observe()[0][:1], 8, axis=0)
    for is_restored in (True, False):
        if is_restored:
            envs.restore(blob, seed=5)
        else:
            envs.reset(seed=5, options={"boards": boards})
        fork = envs.fork(range(8), seed=5)
        told, parents = play_alike(fork), play_alike(envs)
        is_same = (told == parents).reshape(8, -1).all(axis=1)
        assert not is_same.any()
        fork.close()


def play_alike(envs: twofold.Game2048VectorEnv) -> Any:
    for step in range(8):
        observations, *_ = envs.step(np.full(envs.num_envs, step % 4))
    return observations


@in_this_process
@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("copies", {"copies": 0}),
        ("copies", {"copies": 1.5}),
        ("copies", {"copies": 2**70}),
        ("spawns", {"spawns": "clairvoyant"}),
        ("seed", {"seed": 1, "spawns": "same"}),
        ("seed", {"seed": [1, 2, 3]}),
        ("num_envs", {"copies": 2**40}),
    ],
    ids=str,
)
def test_wrong_arguments_of_a_fork_are_refused(
    make: Make, field: str, arguments: dict[str, Any]
) -> None:
    envs = make()
    envs.reset(seed=0)
    with pytest.raises(twofold.RequestError) as caught:
        envs.fork([0, 1], **arguments)
    assert caught.value.field == field


@pytest.mark.parametrize("duplicate", [copy.deepcopy, pickle.dumps])
def test_copying_or_pickling_an_environment_names_the_alternative(
    make: Make, duplicate: Callable[[Any], Any], endpoint: str
) -> None:
    envs = make(2)
    envs.reset(seed=0)
    with pytest.raises(TypeError, match=r"Game2048VectorEnv can't be .*: fork\(\) .* snapshot\(\)"):
        duplicate(envs)
    envs.step([0, 1])
    env = twofold.Game2048Env(endpoint=endpoint)
    with pytest.raises(TypeError, match=r"Game2048Env can't be .*: snapshot\(\) .* worker process"):
        duplicate(env)
    env.close()


def test_concentration_also_has_snapshots_and_forks(make: Make, endpoint: str) -> None:
    envs = twofold.ConcentrationVectorEnv(4, endpoint=endpoint, symbols=4)
    envs.reset(seed=0)
    with pytest.raises(errors.InvalidArgument, match="cards that nobody has seen yet") as caught:
        envs.fork([2], copies=2)
    assert caught.value.field == "spawns"
    for card in (0, 5, 7):
        envs.step([card] * 4)
    boards, _ = envs.observe()
    blob = envs.snapshot()
    expected = [envs.step([card] * 4)[0] for card in (3, 8, 9)]
    fork = envs.fork([2], copies=2, spawns="same")
    fork.restore(blob, rows=[3, 1])
    np.testing.assert_array_equal(fork.observe()[0], boards[[3, 1]])
    for card, told in zip((3, 8, 9), expected, strict=True):
        np.testing.assert_array_equal(fork.step([card] * 2)[0], told[[3, 1]])
    with pytest.raises(errors.InvalidArgument) as caught:
        make(4).restore(blob)
    assert caught.value.field == "environment_id"
    fork.close()
    envs.close()


def values() -> tuple[float, dict[tuple[int, ...], float]]:
    """Returns the optimal expected score on 2 x 2, from the start and from each board."""
    solver = exact.Solver(2, 2)
    start = solver.solve(best="score")["score"]
    boards = {
        tuple(map(exact.exponent, board)): of_board["score"]
        for board, of_board in solver.values.items()
    }
    return start, boards


@in_this_process
@pytest.mark.parametrize("spawns", ["same", "fresh"])
def test_a_search_beats_the_optimum_only_if_it_sees_the_future(
    make: Make, spawns: Literal["same", "fresh"]
) -> None:
    """Forks get new streams because a search that sees the future would beat the optimum."""
    optimum, value = values()
    assert optimum == pytest.approx(66.96414946)
    games = 3000
    envs = make(games, size=2)
    _, infos = envs.reset(seed=0)
    scores = np.zeros(games)
    playing = np.ones(games, np.bool_)
    turn = 0
    while playing.any():
        # Each action is tried in a separate copy, and the resulting board is valued exactly.
        lanes = np.flatnonzero(playing)
        seed = None if spawns == "same" else 10**6 * turn
        fork = envs.fork(lanes, copies=4, spawns=spawns, seed=seed)
        boards, rewards, *_ = fork.step(np.tile(np.arange(4), lanes.size))
        fork.close()
        leaves = np.array([value[tuple(board)] for board in boards.reshape(-1, 4).tolist()])
        estimates = (rewards + leaves).reshape(-1, 4)
        estimates[infos["action_mask"][lanes] == 0] = -1
        actions = np.zeros(games, np.uint8)
        actions[lanes] = estimates.argmax(axis=1)
        _, _, terminations, _, infos = envs.step(actions)
        ended = playing & terminations
        scores[ended] = infos["score"][ended]
        playing &= ~terminations
        turn += 1
    mean, error = scores.mean(), scores.std() / games**0.5
    print(f"{spawns}: {mean:.3f} +- {error:.3f}, optimum {optimum:.3f}")
    if spawns == "same":
        assert mean - optimum > 4 * error
    else:
        assert mean - optimum < 2 * error


def test_a_forks_seed_mixes_the_callers_seed_with_the_parents_generator() -> None:
    def mix(word: int) -> int:
        return next(splitmix64((word - 0x9E3779B97F4A7C15) % 2**64))

    rng = np.random.default_rng(0)
    seeds, states = (rng.integers(0, 2**64, shape, np.uint64) for shape in (5, (5, 2)))
    expected = [
        mix(mix(mix(0x54574F464F4C4446 ^ seed) ^ first) ^ second)
        for seed, (first, second) in zip(seeds.tolist(), states.tolist(), strict=True)
    ]
    assert fork_seeds(seeds, states).tolist() == expected
