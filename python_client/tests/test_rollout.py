"""Rollouts, whole or in pieces, equal policy-and-step loops. Policies behave as documented."""

import contextlib
import copy
import errno
import importlib.util
import os
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import gymnasium as gym
import numpy as np
import pytest
from loops import assert_same, hurried, interrupt, notes_of
from reference import Game, Xoshiro128PlusPlus
from servers import Server

import twofold
from twofold import errors, policies, rules
from twofold.envs import rollouts
from twofold.envs.rollout import Collected
from twofold.policies import served_policies

MODES = ["next_step", "same_step", "disabled"]
SALT = 0x706F6C6963790000


def test_a_rollout_and_its_finals_equal_only_themselves(make: Any) -> None:
    envs = make(5, autoreset_mode="same_step", max_episode_steps=60)
    envs.reset(seed=1)
    played = envs.rollout(60, "random")
    for each in (played, played.finals):
        again = copy.deepcopy(each)
        assert each != again
        assert len({each, again}) == 2


@pytest.mark.parametrize(
    ("mode", "dialect"),  # pgx numbers the actions starting with left
    [("next_step", None), ("same_step", "pgx"), ("disabled", None)],
)
def test_the_same_actions_stepped_one_by_one_give_the_same_results(
    make: Any, mode: str, dialect: str | None
) -> None:
    arguments = {"autoreset_mode": mode, "max_episode_steps": 60, "dialect": dialect}
    envs, twin = make(5, **arguments), make(5, **arguments)
    envs.reset(seed=1)
    data = envs.rollout(150, "random", infos=["score", "moves"])
    is_legal = np.take_along_axis(data.action_masks[:-1], data.actions[..., None].astype(int), 2)
    np.testing.assert_array_equal(is_legal[..., 0], data.action_masks[:-1].any(axis=2))
    assert (data.actions[is_legal[..., 0] == 0] == 0).all()
    twin.reset(seed=1)
    assert_same(twin.rollout(150, actions=data.actions, infos=["score", "moves"]), data)
    observations, infos = twin.reset(seed=1)
    finished = np.zeros(5, bool)
    finals: list[Any] = []
    for step in range(150):
        np.testing.assert_array_equal(data.observations[step], observations)
        np.testing.assert_array_equal(data.action_masks[step], infos["action_mask"])
        np.testing.assert_array_equal(data.valid[step], ~finished)
        if mode == "disabled" and finished.any():
            break
        observations, rewards, terminations, truncations, infos = twin.step(data.actions[step])
        np.testing.assert_array_equal(data.rewards[step], rewards)
        np.testing.assert_array_equal(data.terminations[step], terminations)
        np.testing.assert_array_equal(data.truncations[step], truncations)
        finished = terminations | truncations
        if mode == "same_step":
            for lane in np.flatnonzero(finished):
                final = infos["final_info"]["score"][lane]
                np.testing.assert_array_equal(
                    data.finals.infos["action_mask"][len(finals)],
                    infos["final_info"]["action_mask"][lane],
                )
                finals.append((step, lane, infos["final_obs"][lane].tobytes(), final))
            finished = np.zeros(5, bool)
        else:
            np.testing.assert_array_equal(data.infos["score"][step], infos["score"])
            np.testing.assert_array_equal(data.infos["moves"][step], infos["moves"])
    else:
        np.testing.assert_array_equal(data.observations[150], observations)
        np.testing.assert_array_equal(envs.observe()[0], observations)
    if mode == "same_step":
        told = data.finals
        assert len(finals) >= 10
        assert finals == [
            (step, lane, board.tobytes(), score)
            for step, lane, board, score in zip(
                told.steps, told.lanes, told.observations, told.infos["score"], strict=True
            )
        ]
    else:
        assert data.finals is None


@pytest.mark.parametrize("policy", ["random", lambda boards, mask: mask.argmax(axis=1)])
def test_finals_have_the_same_arrays_if_no_episode_ends(make: Any, policy: Any) -> None:
    arguments = {"autoreset_mode": "same_step", "size": 2, "extra_infos": ["chance"]}
    envs = make(5, **arguments)
    envs.reset(seed=1)
    none, some = envs.rollout(1, policy).finals, envs.rollout(99, policy).finals
    assert len(none.steps) == 0
    assert len(some.steps) > 0
    for one, other in ((vars(none), vars(some)), (none.infos, some.infos)):
        assert list(one) == list(other)
        for name in one.keys() - {"infos"}:
            assert one[name].dtype == other[name].dtype
            assert one[name].shape == (0, *other[name].shape[1:])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("policy", ["random", "fixed-order", "greedy"])
def test_a_rollout_in_pieces_equals_a_whole_rollout(
    make: Any, mode: str, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    envs = [make(70, autoreset_mode=mode) for _ in range(3)]
    for one in envs:
        one.reset(seed=9)
    whole = envs[0].rollout(400, policy, infos=["score"])
    monkeypatch.setattr(rollouts, "reply_bytes", lambda _: 200_000)
    seen: list[int] = []
    assert_same(envs[1].rollout(400, policy, infos=["score"], progress=seen.append), whole)
    assert len(seen) > 3
    assert seen == sorted(seen)
    assert seen[-1] == 400
    first, second = envs[2].rollout(123, policy), envs[2].rollout(277, policy)
    np.testing.assert_array_equal(np.concatenate([first.actions, second.actions]), whole.actions)
    np.testing.assert_array_equal(second.observations[0], first.observations[-1])


def test_given_actions_are_also_played_in_pieces(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    envs, twin = make(33), make(33)
    actions = np.random.default_rng(0).integers(0, 4, (300, 33))
    for one in (envs, twin):
        one.reset(seed=4)
    whole = envs.rollout(300, actions=actions)
    np.testing.assert_array_equal(whole.actions, actions)
    monkeypatch.setattr(rollouts, "reply_bytes", lambda _: 5_000)
    assert_same(twin.rollout(300, actions=actions), whole)


def test_actions_in_a_dialect_are_0_or_as_given_where_no_action_is_legal(make: Any) -> None:
    envs = make(4, dialect="pgx", autoreset_mode="Disabled")
    envs.reset(seed=0)
    played = envs.rollout(500, "random")
    is_over: Any = ~played.action_masks[:-1].any(axis=2)
    assert is_over[-1].all()
    assert (played.actions[is_over] == 0).all()
    assert len(np.unique(played.actions[~is_over])) == 4
    given = np.full((3, 4), 2)
    np.testing.assert_array_equal(envs.rollout(3, actions=given).actions, given)


def test_a_rollout_in_pieces_continues_the_policys_streams(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    envs, twin = make(33), make(33)
    for one in (envs, twin):
        one.reset(seed=4)
    whole = envs.rollout(100, "random")
    monkeypatch.setattr(rollouts, "reply_bytes", lambda _: 5_000)
    assert_same(twin.rollout(100, "random"), whole)


def test_random_follows_the_documented_recipe(make: Any) -> None:
    envs = make(3)
    envs.reset(seed=20)
    data = envs.rollout(200, "random")
    for lane in range(3):
        stream = Xoshiro128PlusPlus.seeded((20 + lane) ^ SALT)
        game = Game(20 + lane)
        for step in range(200):
            word = stream.next_word()
            legal = np.flatnonzero(game.mask())
            action = legal[(word * len(legal)) >> 32] if len(legal) else 0
            assert data.actions[step, lane] == action
            assert data.rewards[step, lane] == game.step(int(action))
            assert tuple(data.observations[step + 1, lane].ravel()) == game.board


def test_a_policys_actions_follow_the_boards_seeds(make: Any) -> None:
    envs = make(4)

    def actions(seed: int) -> Any:
        envs.reset(seed=seed)
        return envs.rollout(50, "random").actions

    default = actions(0)
    np.testing.assert_array_equal(actions(0), default)
    assert (actions(1) != default).any()


def test_fixed_order_takes_the_first_legal_action_and_leaves_the_boards_streams(
    make: Any,
) -> None:
    envs, twin = make(40), make(40)
    envs.reset(seed=2)
    twin.reset(seed=2)
    data = envs.rollout(200, "fixed-order")
    first = data.action_masks[:-1].argmax(axis=2)
    np.testing.assert_array_equal(data.actions[data.valid], first[data.valid])
    assert_same(twin.rollout(200, actions=data.actions), data)


def test_fixed_order_takes_the_first_card_that_can_be_flipped(server: Server) -> None:
    envs = twofold.ConcentrationVectorEnv(4, size=2, endpoint=server.ipc)
    envs.reset(seed=2)
    data = envs.rollout(40, policies.FixedOrder())
    first = data.action_masks[:-1].argmax(axis=2)
    np.testing.assert_array_equal(data.actions[data.valid], first[data.valid])
    envs.close()


def test_greedy_takes_the_highest_reward(make: Any) -> None:
    envs = make(40)
    envs.reset(seed=2)
    data = envs.rollout(200, "greedy")
    told = rules.afterstates(data.observations[:-1], endpoint=envs._session.link.carrier.endpoint)
    rewards = np.where(told.mask == 1, told.rewards, -1)
    taken = np.take_along_axis(rewards, data.actions[..., None].astype(int), axis=2)[..., 0]
    np.testing.assert_array_equal(taken[data.valid], rewards.max(axis=2)[data.valid])


def test_greedy_takes_the_highest_merge_score_under_another_reward(make: Any) -> None:
    envs, penalised = make(8), make(8, reward={"merge_score": -1})
    played = []
    for each in (envs, penalised):
        each.reset(seed=2)
        played.append(each.rollout(50, "greedy"))
    np.testing.assert_array_equal(played[0].actions, played[1].actions)
    np.testing.assert_array_equal(played[0].rewards, -played[1].rewards)


@pytest.mark.parametrize("endpoint", ["embedded"], indirect=True)
def test_expectimax_plays_far_better_than_greedy(make: Any) -> None:
    envs = make(16, max_episode_steps=400, autoreset_mode="disabled")
    scores = {}
    for policy in ("greedy", policies.Expectimax(depth=1), policies.Expectimax(depth=2)):
        envs.reset(seed=0)
        data = envs.rollout(400, policy, infos=["score"])
        scores[str(policy)] = data.infos["score"][-1].mean()
    greedy, one, two = scores.values()
    assert greedy < 4500
    assert one > greedy
    # 400 moves without a game over score about 7,000.
    assert two > 6000


def test_a_long_search_takes_several_requests(server: Server) -> None:
    with Server("--max-search-milliseconds", "200", "--threads", "1") as hasty:
        envs = twofold.Game2048VectorEnv(16, endpoint=hasty.ipc)
        patient = twofold.Game2048VectorEnv(16, endpoint=server.ipc)
        requests: list[int] = []
        for one in (envs, patient):
            one.reset(seed=3)
        data = envs.rollout(400, "expectimax:3", progress=requests.append)
        assert_same(patient.rollout(400, "expectimax:3"), data)
        assert len(requests) > 1
        # Each board takes longer than that, so there is no result, and nothing has changed.
        before = envs.observe()[0]
        with pytest.raises(errors.ResourceExhausted) as caught:
            envs.rollout(1, policies.Expectimax(depth=8, extension=16))
        assert caught.value.field == "policy"
        np.testing.assert_array_equal(envs.observe()[0], before)
        np.testing.assert_array_equal(
            envs.rollout(20, "random").actions, patient.rollout(20, "random").actions
        )
        envs.close()
        patient.close()


def load_learner() -> ModuleType:
    """Returns the example's learner."""
    path = Path(__file__).resolve().parents[1] / "examples" / "train_ntuple.py"
    spec = importlib.util.spec_from_file_location("train_ntuple", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["train_ntuple"] = module
    spec.loader.exec_module(module)
    return module


def test_the_examples_network_chooses_the_same_actions_in_the_server_as_in_python(
    make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = load_learner()
    # Small tables, in which all exponents from 6 on are equal.
    monkeypatch.setattr(learner, "EXPONENTS", 6)
    network = learner.Network()
    rng = np.random.default_rng(1)
    for table in network.tables:
        table.weights[:] = rng.normal(size=table.weights.shape) * 20
    policy = policies.NTuple(
        learner.TUPLES, [table.weights for table in network.tables], exponents=6
    )
    policy.save(tmp_path / "network.npz")
    envs, twin = make(50), make(50)
    envs.reset(seed=6)
    twin.reset(seed=6)
    monkeypatch.setattr(served_policies, "_PIECE_BYTES", 50_000)
    data = envs.rollout(60, policies.NTuple.load(tmp_path / "network.npz"))
    for step in range(60):
        chosen = learner.choose(network, *twin.afterstates()).actions
        np.testing.assert_array_equal(
            data.actions[step][data.valid[step]], chosen[data.valid[step]]
        )
        twin.step(data.actions[step])
    # Another network replaces it, so the first one is sent again.
    other = policies.NTuple([[0]], [np.zeros(6, np.float32)], exponents=6)
    assert envs.rollout(5, other).actions.shape == (5, 50)
    assert envs.rollout(5, policy).actions.shape == (5, 50)


def test_the_weights_of_a_board_are_added_in_the_order_of_its_images(make: Any) -> None:
    weights = np.array([0, 2**23, 1, -(2**23)], np.float32)  # 2^24 + 1 is not a float32
    boards = np.random.default_rng(1).permuted(np.tile([0, 1, 2, 3], (50, 1)), axis=1)

    def value(board: Any) -> Any:
        total: Any = np.float32(0)
        for turn in range(4):
            image = np.rot90(board, turn)
            total += weights[image[0, 0]]
            total += weights[image.T[0, 0]]
        return total

    envs = make(50, size=2)
    envs.reset(seed=1, options={"boards": boards.reshape(50, 2, 2).astype(np.uint8)})
    afterstates, rewards, mask = envs.afterstates()
    values = np.array([[value(board) for board in each] for each in afterstates])
    expected = np.where(mask, rewards + values, -np.inf).argmax(axis=1)
    assert np.unique(values).size > 1
    data = envs.rollout(1, policies.NTuple([[0]], [weights], exponents=4))
    np.testing.assert_array_equal(data.actions[0], expected)


@pytest.mark.parametrize("is_sent", [False, True], ids=["not sent", "carried out"])
@pytest.mark.parametrize("does_step", [False, True], ids=["at once", "after a step"])
def test_an_upload_continues_where_a_deadline_stopped_it(
    make: Any, monkeypatch: pytest.MonkeyPatch, is_sent: bool, does_step: bool
) -> None:
    envs = make(2)
    envs.reset(seed=6)
    monkeypatch.setattr(served_policies, "_PIECE_BYTES", 400)
    call = envs._session.call
    slots: list[str] = []

    def call_once(slot: str, *args: Any) -> Any:
        """Calls the session. After each piece of the weights, the next call misses its deadline."""
        if slot != "policy":
            return call(slot, *args)
        if len(slots) % 2 and not is_sent:
            slots.append("late")
            raise errors.DeadlineExceeded("too late")
        slots.append(slot)
        result = call(slot, *args)
        if len(slots) % 2 == 0:
            raise errors.DeadlineExceeded("too late")
        return result

    monkeypatch.setattr(envs._session, "call", call_once)
    tables = [np.zeros(256, np.float32), np.ones(256, np.float32)]
    policy = policies.NTuple([[0, 1], [1, 2]], tables)
    for _ in range(20):
        try:
            assert envs.rollout(3, policy).actions.shape == (3, 2)
        except errors.DeadlineExceeded:
            if does_step:
                envs.step(np.zeros(2, np.int64))
        else:
            break
    else:
        raise AssertionError("the policy was never kept")


def test_a_network_beyond_the_servers_limit_is_refused_and_the_session_continues() -> None:
    with Server("--max-policy-bytes", "100000", "--max-message-bytes", "5000") as small:
        envs = twofold.Game2048VectorEnv(2, endpoint=small.ipc)
        envs.reset(seed=0)
        large = policies.NTuple([[0, 1, 2, 3]], [np.zeros(16**4, np.float32)])
        with pytest.raises(errors.ResourceExhausted, match="max-policy-bytes"):
            envs.rollout(1, large)
        fits = policies.NTuple([[0, 1, 2]], [np.zeros(16**3, np.float32)])
        assert envs.rollout(3, fits).actions.shape == (3, 2)
        assert envs.rollout(3, "expectimax").actions.shape == (3, 2)
        envs.close()


@pytest.mark.parametrize("side", [(2, 2), (3, 5), (8, 8)])
def test_rollouts_work_on_other_sizes_with_random_greedy_and_a_network(
    make: Any, side: tuple[int, int]
) -> None:
    envs = make(3, size=side)
    envs.reset(seed=0)
    network = policies.NTuple([[0, 1], [3]], [np.zeros(256, np.float32), np.zeros(16, np.float32)])
    for policy in ("random", "fixed-order", policies.Greedy(), network):
        data = envs.rollout(40, policy)
        assert data.observations.shape == (41, 3, *side)
        legal = np.take_along_axis(data.action_masks[:-1], data.actions[..., None].astype(int), 2)
        assert (legal[..., 0][data.valid] == 1).all()
    with pytest.raises(errors.InvalidArgument) as caught:
        envs.rollout(1, "expectimax")
    assert caught.value.field == "policy"


def test_shapes_and_dtypes_match_the_page(make: Any) -> None:
    envs = make(6)
    envs.reset(seed=0)
    for steps in (1, 7):
        data = envs.rollout(steps, "random", infos=["score", "goal_reached"])
        assert data.observations.shape == (steps + 1, 6, 4, 4)
        assert data.observations.dtype == np.uint8
        assert data.action_masks.shape == (steps + 1, 6, 4)
        assert data.action_masks.dtype == np.int8
        for array, dtype in (
            (data.actions, np.uint8),
            (data.rewards, np.float32),
            (data.terminations, np.bool_),
            (data.truncations, np.bool_),
            (data.valid, np.bool_),
            (data.infos["score"], np.int32),
            (data.infos["goal_reached"], np.bool_),
        ):
            assert array.shape == (steps, 6)
            assert array.dtype == dtype
            assert array.flags.writeable
        kept = data.observations.copy()
        envs.rollout(steps, "random")
        np.testing.assert_array_equal(data.observations, kept)


def test_a_cancelled_rollout_leaves_the_environment_usable(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    envs, twin = make(64), make(64)
    for one in (envs, twin):
        one.reset(seed=0)
    monkeypatch.setattr(rollouts, "reply_bytes", lambda _: 100_000)
    done = []

    class Enough(Exception):
        pass

    def stop(steps: int) -> None:
        done.append(steps)
        if steps > 50:
            raise Enough

    with pytest.raises(Enough):
        envs.rollout(10_000, "random", progress=stop)
    twin.rollout(done[-1], "random")
    np.testing.assert_array_equal(envs.observe()[0], twin.observe()[0])
    assert_same(envs.rollout(10, "random"), twin.rollout(10, "random"))


@pytest.mark.parametrize("reply_bytes", [1, 1 << 20], ids=["first request", "only request"])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize(
    "play",
    [
        lambda envs, steps, **more: envs.rollout(steps, "random", **more),
        lambda envs, steps, **more: envs.rollout(steps, actions=np.ones((steps, 4), int), **more),
        lambda envs, steps, **more: envs.rollout(steps, lambda _, mask: mask.argmax(1), **more),
    ],
    ids=["policy", "actions", "function"],
)
def test_an_equal_rollout_continues_after_the_steps_of_a_cancelled_one(
    make: Any,
    monkeypatch: pytest.MonkeyPatch,
    play: Any,
    error: type[BaseException],
    reply_bytes: int,
) -> None:
    monkeypatch.setattr(rollouts, "reply_bytes", lambda _: reply_bytes)
    envs, twin = make(4), make(4)
    for one in (envs, twin):
        one.reset(seed=0)
    done: list[int] = []

    def cancel(steps: int) -> None:
        done.append(steps)
        raise error

    with pytest.raises(error) as caught:
        play(envs, 9, progress=cancel)
    if error is KeyboardInterrupt:
        assert notes_of(caught.value) == [
            "twofold: the completed steps of the rollout remain; any call continues from there."
        ]
    play(twin, done[-1])
    assert_same(play(envs, 9), play(twin, 9))


def test_no_other_call_begins_between_the_requests_of_a_rollout(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Except by `progress`. Here, a signal arrives while the client collects a reply."""
    monkeypatch.setattr(rollouts, "reply_bytes", lambda _: 1)
    envs, refused = make(4), []
    envs.reset(seed=0)
    add = Collected.add

    def interrupted(*arguments: Any) -> Any:
        with pytest.raises(gym.error.AlreadyPendingCallError):
            envs.observe()
        refused.append(True)
        return add(*arguments)

    monkeypatch.setattr(Collected, "add", interrupted)
    envs.rollout(3, "random")
    envs.rollout(3, "random", progress=lambda _: envs.observe())
    assert len(refused) == 6


@pytest.mark.parametrize("is_added", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("place", [0, 1, 3])
def test_the_note_of_an_interrupted_rollout_says_what_an_equal_one_returns(
    make: Any, endpoint: str, monkeypatch: pytest.MonkeyPatch, place: int, is_added: bool
) -> None:
    """The interrupt comes before or after the client collects the reply with this number."""
    monkeypatch.setattr(rollouts, "reply_bytes", lambda _: 1)  # one step
    envs, twin = make(4), make(4)
    for one in (envs, twin):
        one.reset(seed=0)
    add = Collected.add

    def interrupted(collected: Collected, *reply: Any) -> Any:
        if collected.done < place:
            return add(collected, *reply)
        if is_added:
            add(collected, *reply)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Collected, "add", interrupted)
        with pytest.raises(KeyboardInterrupt) as caught:
            envs.rollout(4, "random")
    (note,) = notes_of(caught.value)
    # A server already executes the next request.
    executed = min(4, place + 1 if endpoint == "embedded" else place + 2)
    if executed == 1:
        assert "Repeating the call returns its result" in note
    else:
        assert "the completed steps of the rollout remain" in note
        twin.rollout(executed, "random")
    assert_same(envs.rollout(4, "random"), twin.rollout(4, "random"))


def test_an_interrupt_after_the_last_reply_of_a_rollout_does_not_promise_its_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rollouts, "reply_bytes", lambda _: 1)
    envs, twin = (
        twofold.Game2048VectorEnv(4, endpoint="embedded", extra_infos=("episode",))
        for _ in range(2)
    )
    for one in (envs, twin):
        one.reset(seed=0)

    with monkeypatch.context() as patch:
        patch.setattr(envs._episodes, "begin", interrupt)
        with pytest.raises(KeyboardInterrupt) as caught:
            envs.rollout(4, "random")
    (note,) = notes_of(caught.value)
    assert "the completed steps of the rollout remain" in note
    twin.rollout(4, "random")
    assert_same(envs.rollout(4, "random"), twin.rollout(4, "random"))
    envs.close()
    twin.close()


def test_a_deadline_within_a_rollout_does_not_promise_its_reply(
    own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollouts, "reply_bytes", lambda _: 1)
    envs, twin = (twofold.Game2048VectorEnv(4, endpoint=own_server.ipc) for _ in range(2))
    for one in (envs, twin):
        one.reset(seed=0)
    stack = contextlib.ExitStack()

    def stop(_: int) -> None:
        stack.enter_context(own_server.stopped())

    with stack, hurried(envs), pytest.raises(errors.DeadlineExceeded) as caught:
        envs.rollout(4, "random", progress=stop)
    assert "the next call waits for its reply" in str(caught.value)
    (note,) = notes_of(caught.value)
    assert "the completed steps of the rollout remain" in note
    twin.rollout(2, "random")
    assert_same(envs.rollout(4, "random"), twin.rollout(4, "random"))
    envs.close()
    twin.close()


GOOD = np.zeros((2, 3), int)
TABLE = np.zeros(16, np.float32)


@pytest.mark.parametrize(
    ("arguments", "field", "lane"),
    [
        ({"steps": 0, "policy": "random"}, "steps", None),
        ({"steps": 1.0, "policy": "random"}, "steps", None),
        ({"steps": 2}, "policy", None),
        ({"steps": 2, "policy": "random", "actions": GOOD}, "policy", None),
        ({"steps": 2, "policy": "best"}, "policy", None),
        ({"steps": 2, "policy": policies.Random}, "policy", None),
        ({"steps": 2, "actions": GOOD[:1]}, "actions", None),
        ({"steps": 2, "actions": GOOD.astype(float)}, "actions", None),
        ({"steps": 2, "actions": np.add(GOOD, [0, 0, 4])}, "actions", 2),
        ({"steps": 2, "actions": GOOD - [0, 1, 0]}, "actions", 1),
        ({"steps": 2**62, "policy": "random"}, "steps", None),
        ({"steps": 2, "policy": "random", "infos": ["no"]}, "infos", None),
        ({"steps": 2, "policy": "random", "infos": "score"}, "infos", None),
        ({"steps": 2, "policy": "random", "infos": None}, "infos", None),
        ({"steps": 2, "policy": "random", "infos": 5}, "infos", None),
        ({"steps": 2, "policy": "random", "infos": ["score", "score"]}, "infos", None),
        ({"steps": 2, "policy": "random", "progress": 3}, "progress", None),
    ],
)
def test_wrong_arguments_are_refused_by_field(
    make: Any, arguments: Any, field: str, lane: int | None
) -> None:
    envs = make(3)
    before = envs.reset(seed=0)[0]
    with pytest.raises(errors.InvalidArgument) as caught:
        envs.rollout(**arguments)
    assert (caught.value.field, caught.value.lane) == (field, lane)
    np.testing.assert_array_equal(envs.observe()[0], before)


@pytest.mark.parametrize(
    ("call", "field", "lane"),
    [
        (lambda: policies.Expectimax(depth=0), "depth", None),
        (lambda: policies.Expectimax(depth=9), "depth", None),
        (lambda: policies.Expectimax(extension=17), "extension", None),
        (lambda: policies.NTuple(None, []), "tuples", None),  # type: ignore[arg-type]
        (lambda: policies.NTuple([0], [TABLE]), "tuples", 0),  # type: ignore[list-item]
        (lambda: policies.NTuple([[0]], None), "weights", None),  # type: ignore[arg-type]
        (lambda: policies.NTuple([], []), "tuples", None),
        (lambda: policies.NTuple([[0], [1, 1]], [TABLE, TABLE]), "tuples", 1),
        (lambda: policies.NTuple([[0], [64]], [TABLE, TABLE]), "tuples", 1),
        (lambda: policies.NTuple([[0]], []), "weights", None),
        (lambda: policies.NTuple([[0], [1]], [TABLE, TABLE[1:]]), "weights", 1),
        (lambda: policies.NTuple([[0]], [TABLE.astype(float)]), "weights", 0),
        (lambda: policies.NTuple([[0]], [TABLE + np.nan]), "weights", 0),
        (lambda: policies.NTuple([[0]], [TABLE], exponents=33), "exponents", None),
        (lambda: policies.NTuple([[0]], [TABLE], size=(4, 9)), "size", None),
        (lambda: policies.NTuple([[0], [6]], [TABLE, TABLE], size=(2, 3)), "tuples", 1),
    ],
)
def test_an_invalid_policy_is_refused_by_field(call: Any, field: str, lane: int | None) -> None:
    with pytest.raises(errors.InvalidArgument) as caught:
        call()
    assert (caught.value.field, caught.value.lane) == (field, lane)


def test_a_network_on_a_board_too_small_for_it_names_the_tuple(make: Any) -> None:
    envs = make(2, size=2)
    envs.reset(seed=0)
    network = policies.NTuple([[0], [15]], [TABLE, TABLE])
    with pytest.raises(errors.InvalidArgument, match="tuple 1 has cells") as caught:
        envs.rollout(1, network)
    assert caught.value.field == "tuples"


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04" + b"\0" * 50])
def test_a_damaged_network_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "network.npz"
    path.write_bytes(content)
    with pytest.raises(errors.InvalidArgument) as caught:
        policies.NTuple.load(path)
    assert caught.value.field == "path"
    assert "network.npz" in str(caught.value)


@pytest.mark.parametrize(
    "error",
    [MemoryError(), OSError(errno.EIO, "broken", "a.npz"), errors.ResourceExhausted("too big")],
    ids=repr,
)
def test_an_error_that_is_not_the_network_files_fault_stays_the_same(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    path = tmp_path / "network.npz"
    policies.NTuple([[0]], [TABLE]).save(path)
    monkeypatch.setattr(np, "load", fail)
    with pytest.raises(type(error)) as caught:
        policies.NTuple.load(path)
    assert caught.value is error


def test_a_damaged_offset_in_a_network_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "network.npz"
    policies.NTuple([[0]], [TABLE]).save(path)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1  # the highest byte of the directory's offset
    path.write_bytes(content)
    with pytest.raises(errors.InvalidArgument, match="starts before the file") as caught:
        policies.NTuple.load(path)
    assert caught.value.field == "path"


@pytest.mark.parametrize(
    ("place", "text"),
    [(46, "uuple_1"), (-len("weights_0.npy") - 13, "weights_0.npy has a comment")],
)
def test_damage_to_the_names_in_a_network_file_hides_no_tuple(
    place: int, text: str, tmp_path: Path
) -> None:
    path = tmp_path / "network.npz"
    policies.NTuple([[0], [1]], [TABLE, TABLE]).save(path)
    content = bytearray(path.read_bytes())
    # The directory's entry of tuple_1 follows the one of weights_0, whose comment is empty.
    content[content.rindex(b"tuple_1.npy") - 46 + place] ^= 1
    path.write_bytes(content)
    with pytest.raises(errors.InvalidArgument, match=text) as caught:
        policies.NTuple.load(path)
    assert caught.value.field == "path"


def test_a_compressed_network_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "network.npz"
    np.savez_compressed(path, **policies.NTuple([[0]], [TABLE]).arrays())
    with pytest.raises(errors.InvalidArgument, match=r"is compressed; write .*numpy\.savez") as no:
        policies.NTuple.load(path)
    assert no.value.field == "path"


@pytest.mark.parametrize(
    ("descr", "length", "message"),
    [
        ("<f4", 2**50, "larger than the file"),
        ("|V0", 2**50, "elements have no size"),
        ("<f4", -(2**50), "a negative length"),
    ],
)
def test_an_array_larger_than_its_file_is_refused_before_any_memory_is_taken(
    descr: str, length: int, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "network.npz"
    policies.NTuple([[0]], [TABLE]).save(path)
    with zipfile.ZipFile(path, "a") as file, file.open("more.npy", "w") as array:
        form = {"descr": descr, "fortran_order": False, "shape": (length,)}
        np.lib.format.write_array_header_1_0(array, form)
    with pytest.raises(errors.InvalidArgument, match=message) as caught:
        policies.NTuple.load(path)
    assert caught.value.field == "path"


def test_arrays_that_share_the_bytes_of_a_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "network.npz"
    with zipfile.ZipFile(path, "w") as file:
        with file.open("weights_0.npy", "w") as array:
            np.lib.format.write_array(array, np.zeros(1000))
        file.filelist *= 2
    # Newer versions of zipfile refuse such a file themselves.
    message = "larger than the file|Overlapped entries"
    with pytest.raises(errors.InvalidArgument, match=message) as caught:
        policies.NTuple.load(path)
    assert caught.value.field == "path"


@pytest.mark.parametrize("name", ["tuple_1", "weights_1"])
def test_a_network_file_without_one_of_its_arrays_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "network.npz"
    arrays = policies.NTuple([[0], [1]], [TABLE, TABLE]).arrays()
    del arrays[name]
    np.savez(path, **arrays)
    with pytest.raises(errors.InvalidArgument, match=f"{name} is not a file") as caught:
        policies.NTuple.load(path)
    assert caught.value.field == "path"


def test_a_network_whose_cells_are_not_integers_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "network.npz"
    arrays = policies.NTuple([[0]], [TABLE]).arrays()
    np.savez(path, **arrays | {"tuple_0": np.zeros(1, [("a", "u1"), ("b", "V0")])})
    with pytest.raises(errors.InvalidArgument, match=r"tuple_0 is .*; expected integers") as caught:
        policies.NTuple.load(path)
    assert caught.value.field == "path"


def test_a_network_may_have_other_arrays_too(tmp_path: Path) -> None:
    path = tmp_path / "network.npz"
    policies.NTuple([[0]], [TABLE]).save(path)
    with np.load(path) as saved:
        history = np.zeros(3, [("seconds", float), ("games", int)])
        np.savez(path, **saved, training="of a checkpoint", history=history)
    assert policies.NTuple.load(path).tuples == ((0,),)


def test_a_file_that_is_not_a_zip_gets_no_advice_to_unpickle_it(tmp_path: Path) -> None:
    path = tmp_path / "network.npz"
    path.write_bytes(b"nonsense")
    with pytest.raises(errors.InvalidArgument, match=r"network\.npz .*: it is not a zip$"):
        policies.NTuple.load(path)


def test_a_pipe_is_not_a_network_and_nothing_waits_for_its_writer(tmp_path: Path) -> None:
    path = tmp_path / "network.npz"
    os.mkfifo(path)
    with pytest.raises(errors.InvalidArgument, match=r"network\.npz is not a regular") as caught:
        policies.NTuple.load(path)
    assert caught.value.field == "path"


@pytest.mark.parametrize(
    ("infos", "problem"),
    [(["no"], r"'no' is not one of \['chance', "), (["score"] * 2, "'score' is requested twice")],
)
def test_a_wrong_info_is_reported_with_its_problem(
    make: Any, infos: list[str], problem: str
) -> None:
    envs = make(3, extra_infos=("chance",))
    envs.reset(seed=0)
    with pytest.raises(errors.InvalidArgument, match=problem):
        envs.rollout(2, "random", infos=infos)


def test_a_rollout_before_the_first_reset_is_refused(make: Any) -> None:
    with pytest.raises(errors.FailedPrecondition):
        make(2).rollout(1, "random")


def test_a_rollout_works_through_gymnasiums_make(server: Server) -> None:
    envs = gym.make_vec("twofold/Game2048-v0", num_envs=4, endpoint=server.ipc)
    envs.reset(seed=0)
    env: Any = envs.unwrapped
    assert env.rollout(3, "random").rewards.shape == (3, 4)
    envs.close()


def test_a_search_that_is_too_deep_for_one_board_ends_in_time() -> None:
    deep = policies.Expectimax(depth=8, extension=16)
    with Server("--max-search-milliseconds", "100") as server:
        envs = twofold.Game2048VectorEnv(1, endpoint=server.ipc)
        envs.reset(seed=0)
        with pytest.raises(errors.ResourceExhausted, match="did not fit into the time"):
            envs.rollout(1, deep)
        # Nothing has changed.
        assert envs.rollout(1, policies.Expectimax(depth=1)).valid.all()
        envs.close()


@pytest.mark.parametrize("policy", ["random", lambda boards, mask: mask.argmax(axis=1)])
@pytest.mark.parametrize("steps", [2**40, 2**50])
def test_a_rollout_larger_than_memory_is_refused_before_its_first_step(
    make: Any, policy: Any, steps: int
) -> None:
    envs, twin = make(64), make(64)
    envs.reset(seed=1)
    twin.reset(seed=1)
    with pytest.raises(errors.InvalidArgument, match=rf"^steps is {steps:,}: .* GiB") as raised:
        envs.rollout(steps, policy)
    assert raised.value.field == "steps"
    np.testing.assert_array_equal(envs.step([0] * 64)[0], twin.step([0] * 64)[0])
