"""Rollouts by a function equal a server-side policy's, in any mode, form and dialect."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from games import MakeBatch
from loops import actions, assert_same, make, notes_of, number
from opcodes import moments
from servers import Server

import twofold
from twofold import errors
from twofold.envs import rollouts
from twofold.policies.baselines import PerfectMemory, RandomPolicy
from twofold.policies.lookup import resolve

MODES = ["next_step", "same_step", "disabled"]
INFOS = ["episode_length", "action_mask"]


@pytest.fixture
def open_envs(endpoint: str) -> Iterator[Callable[..., Any]]:
    """A function that makes boards with short episodes, which are closed after the test."""
    opened = []

    def open_one(**arguments: Any) -> Any:
        opened.append(make(endpoint, **arguments))
        return opened[-1]

    yield open_one
    for envs in opened:
        envs.close()


def first_or_last_legal(observations: Any, action_mask: Any) -> Any:
    """Returns the first or the last legal action, depending on the board."""
    boards = np.asarray(observations).reshape(len(action_mask), -1)
    backwards = action_mask.shape[1] - 1 - action_mask[:, ::-1].argmax(axis=1)
    return np.where(boards.sum(axis=1) % 3, backwards, action_mask.argmax(axis=1))


class Watching:
    """A policy with a memory that records the arguments of all its calls."""

    def __init__(self) -> None:
        self.begun: list[Any] = []
        self.seen: list[Any] = []

    def reset(self, lanes: Any) -> None:
        self.begun.append((len(self.seen), np.flatnonzero(lanes).tolist()))

    def __call__(self, observations: Any, action_mask: Any) -> Any:
        self.seen.append((observations, action_mask))
        return action_mask.argmax(axis=1)


# ---- the same as in the server -------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_a_policys_memory_is_reset_once_an_episode_if_progress_looks_at_the_boards(
    mode: str, open_envs: Callable[..., Any]
) -> None:
    def resets(looks: bool) -> list[Any]:
        envs, policy = open_envs(autoreset_mode=mode, max_episode_steps=2), Watching()
        envs.reset(seed=0)
        envs.rollout(7, policy, progress=(lambda _: envs.observe()) if looks else None)
        return policy.begun

    assert resets(looks=True) == resets(looks=False)


def test_a_function_plays_from_boards_that_progress_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A policy in the service does, too; here, its replies have one step each."""
    monkeypatch.setattr(rollouts, "reply_bytes", lambda _: 1)

    def play(policy: Any) -> Any:
        envs = twofold.Game2048VectorEnv(
            2, size=2, endpoint="embedded", autoreset_mode="Disabled", max_episode_steps=3
        )
        envs.reset(seed=0)

        def restart(_: int) -> None:
            over = envs.observe()[1]["episode_length"] == 3
            if over.any():
                envs.reset(options={"reset_mask": over})

        rollout = envs.rollout(12, policy, progress=restart)
        envs.close()
        return rollout

    rollout = play(lambda _, mask: mask.argmax(axis=1))
    assert rollout.valid.all()
    assert_same(rollout, play("fixed-order"))


def test_a_function_plays_from_boards_that_progress_has_changed_after_a_recovery(
    own_server: Server,
) -> None:
    """With these calls, the new session has executed as many requests as the lost one."""

    def lose() -> None:
        own_server.replace()

    def play(envs: Any, lose: Callable[[], None]) -> list[Any]:
        policy = Watching()

        def change(done: int) -> None:
            if done == 1:
                lose()
                envs.step([2, 3, 1])
                envs.step([2, 3, 1])

        envs.reset(seed=5)
        envs.rollout(4, policy, progress=change)
        envs.close()
        return [observations for observations, _ in policy.seen]

    envs = twofold.Game2048VectorEnv(3, endpoint=own_server.ipc, recover=True)
    twin = twofold.Game2048VectorEnv(3, endpoint="embedded")
    np.testing.assert_array_equal(play(envs, lose), play(twin, lambda: None))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("game", ["Game2048", "pgx", "Concentration"])
def test_a_rollout_equals_its_functions_actions_played_in_the_server(
    open_envs: Callable[..., Any], mode: str, game: str
) -> None:
    arguments: dict[str, Any] = {"autoreset_mode": mode, "max_episode_steps": 40}
    arguments |= {"dialect": "pgx"} if game == "pgx" else {"game": game}
    infos = ["episode_length", "score" if game != "Concentration" else "turns"]
    envs, twin = open_envs(**arguments), open_envs(**arguments)
    envs.reset(seed=1), twin.reset(seed=1)
    done: list[int] = []
    mine = envs.rollout(100, RandomPolicy(), infos=infos, progress=done.append)
    assert_same(mine, twin.rollout(100, actions=mine.actions, infos=infos))
    assert done == list(range(1, 101))
    ends = mine.terminations | mine.truncations
    assert ends.sum() >= (16 if mode == "disabled" else 32)
    assert (mine.actions[~mine.valid] == 0).all()
    chosen = np.take_along_axis(mine.action_masks[:-1], mine.actions[..., None].astype(int), 2)
    assert (chosen[..., 0][mine.valid] == 1).all()
    np.testing.assert_array_equal(envs.observe()[0], twin.observe()[0])


@pytest.mark.parametrize("mode", MODES)
def test_a_rollout_in_pieces_is_the_same_rollout(open_envs: Callable[..., Any], mode: str) -> None:
    """Each piece must know the truncated boards, and must not ask for their legal actions."""
    arguments = {"autoreset_mode": mode, "max_episode_steps": 7}
    envs, twin = open_envs(**arguments), open_envs(**arguments)
    envs.reset(seed=2), twin.reset(seed=2)
    mine, its = RandomPolicy(5), RandomPolicy(5)
    whole = envs.rollout(60, mine)
    pieces = [twin.rollout(steps, its) for steps in (1, 6, 1, 7, 20, 25)]
    for name in ("actions", "rewards", "terminations", "truncations", "valid"):
        joined = np.concatenate([getattr(piece, name) for piece in pieces])
        np.testing.assert_array_equal(joined, getattr(whole, name), err_msg=name)
    if mode == "same_step":
        starts = np.cumsum([0, 1, 6, 1, 7, 20])
        ends = [s + piece.finals.steps for s, piece in zip(starts, pieces, strict=True)]
        np.testing.assert_array_equal(np.concatenate(ends), whole.finals.steps)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "form",
    [{}, {"obs": "dict"}, {"obs": "one_hot"}, {"obs": "flat", "mask_key": "mask"}],
    ids=["array", "dict", "one_hot", "flat in a dict"],
)
def test_the_function_sees_the_results_of_steps_and_the_arrays_are_boards(
    mode: str, form: dict[str, Any]
) -> None:
    arguments: Any = {"autoreset_mode": mode, "max_episode_steps": 30, "endpoint": "embedded"}
    envs, twin, plain = (
        twofold.Game2048VectorEnv(5, **arguments, **each) for each in (form, form, {})
    )
    observations, infos = twin.reset(seed=4)
    envs.reset(seed=4), plain.reset(seed=4)
    watching = Watching()
    rollout = envs.rollout(40, watching)
    assert_same(rollout, plain.rollout(40, actions=rollout.actions))
    assert rollout.observations.dtype == np.uint8
    seen = iter(watching.seen)
    for step in range(40):
        if rollout.valid[step].any():
            boards, mask = next(seen)
            np.testing.assert_equal(boards, observations)
            np.testing.assert_array_equal(mask, infos["action_mask"])
        if mode == "disabled" and not rollout.valid[step].all():
            break
        observations, *_, infos = twin.step(rollout.actions[step])
    assert step == (30 if mode == "disabled" else 39)
    assert next(seen, None) is None
    for each in (envs, twin, plain):
        each.close()


def test_the_function_may_keep_and_overwrite_its_arguments() -> None:
    envs, twin = make("embedded"), make("embedded")
    envs.reset(seed=1), twin.reset(seed=1)
    kept = []

    def spoils(observations: Any, action_mask: Any) -> Any:
        chosen = action_mask.argmax(axis=1)
        kept.append(observations)
        observations[:] = len(kept)
        action_mask[:] = 0
        return chosen

    rollout = envs.rollout(20, spoils)
    assert_same(rollout, twin.rollout(20, actions=rollout.actions))
    assert [int(boards.min()) for boards in kept] == list(range(1, 21))
    envs.close()
    twin.close()


# ---- names, and policies with a memory -----------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_a_policy_with_a_memory_is_notified_of_each_episode_once(mode: str) -> None:
    envs = make("embedded", autoreset_mode=mode, max_episode_steps=6)
    envs.reset(seed=3)
    envs.step(actions(0))
    envs.reset(seed=9, options={"reset_mask": np.arange(16) < 4})
    watching = Watching()
    rollouts = [envs.rollout(steps, watching, infos=["episode_length"]) for steps in (5, 1, 1, 20)]
    # Boards 0 to 3 begin now. The others were played before, and end a step earlier.
    assert watching.begun[0] == (0, [0, 1, 2, 3])
    valid = np.concatenate([rollout.valid for rollout in rollouts])
    lengths = np.concatenate([rollout.infos["episode_length"] for rollout in rollouts])
    heard = np.zeros(16, int)
    for _, lanes in watching.begun:
        heard[lanes] += 1
    if mode == "same_step":
        # The infos of a step that ends an episode belong to the next episode.
        begun = (lengths[:-1] == 0).sum(axis=0)
    else:
        begun = (~valid & (lengths == 0))[:-1].sum(axis=0)
    np.testing.assert_array_equal(heard, begun + (np.arange(16) < 4))
    assert heard.sum() == 4 if mode == "disabled" else heard.min() >= 3
    envs.close()


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_a_policy_with_a_memory_is_notified_when_restored_finished_boards_begin_anew(
    mode: str,
) -> None:
    ended = make("embedded", autoreset_mode="disabled", max_episode_steps=6)
    ended.reset(seed=3)
    for step in range(6):
        ended.step(actions(step))
    envs = make("embedded", autoreset_mode=mode, max_episode_steps=6)
    envs.reset(seed=9)
    envs.restore(ended.snapshot([2, 5]), [2, 5])
    watching = Watching()
    rollout = envs.rollout(4, watching)
    assert np.argwhere(~rollout.valid).tolist() == [[0, 2], [0, 5]]
    others = [lane for lane in range(16) if lane not in (2, 5)]
    assert watching.begun == [(0, others), (1, [2, 5])]
    ended.close()
    envs.close()


@pytest.mark.parametrize("mode", MODES)
def test_a_perfect_memory_plays_the_same_by_name_by_object_and_in_its_own_loop(mode: str) -> None:
    envs, twin, third = (
        twofold.ConcentrationVectorEnv(8, endpoint="embedded", autoreset_mode=mode)
        for _ in range(3)
    )
    for each in (envs, twin, third):
        each.reset(seed=6)
    whole = envs.rollout(300, "perfect-memory")
    memory = PerfectMemory(twin)
    pieces = [twin.rollout(100, memory) for _ in range(3)]
    joined = np.concatenate([piece.actions for piece in pieces])
    np.testing.assert_array_equal(joined, whole.actions)
    assert_same(third.rollout(300, resolve(PerfectMemory(third))), whole)
    ends = whole.terminations.sum(axis=0)
    assert (ends == 1).all() if mode == "disabled" else (ends >= 2).all()
    for each in (envs, twin, third):
        each.close()


def test_rollouts_accept_the_names_of_evaluate(open_envs: Callable[..., Any]) -> None:
    envs, twin = open_envs(), open_envs()
    envs.reset(seed=1), twin.reset(seed=1)
    search = twofold.policies.Expectimax(depth=1)
    assert_same(envs.rollout(20, "expectimax:1"), twin.rollout(20, search))
    # In the server, whose stream continues.
    assert_same(envs.rollout(20, "random"), twin.rollout(20, twofold.policies.Random()))


def test_the_function_is_not_asked_for_boards_that_wait_for_a_reset() -> None:
    envs = make("embedded", autoreset_mode="disabled", size=2)
    envs.reset(seed=0)
    calls = []

    def policy(observations: Any, action_mask: Any) -> Any:
        calls.append(len(observations))
        assert action_mask.any(axis=1).all()
        return action_mask.argmax(axis=1)

    rollout = envs.rollout(100, policy)
    assert rollout.terminations.sum() == 16
    assert calls == [count for count in rollout.valid.sum(axis=1) if count]
    assert len(calls) < 100
    envs.rollout(5, policy)
    assert len(calls) < 100
    envs.close()


# ---- what goes wrong -----------------------------------------------------------------------------


def test_a_wrong_action_is_reported_with_call_row_and_lane_and_the_steps_before_remain(
    open_envs: Callable[..., Any],
) -> None:
    envs, twin = open_envs(max_episode_steps=3), open_envs(max_episode_steps=3)
    for each in (envs, twin):
        each.reset(seed=0)
        each.rollout(2, first_or_last_legal)
        each.reset(seed=1, options={"reset_mask": np.arange(16) >= 2})

    def wrong_where_fewer_play(observations: Any, action_mask: Any) -> Any:
        chosen = first_or_last_legal(observations, action_mask)
        if len(chosen) == 14:  # boards 0 and 1 were just truncated
            chosen[5] = 4
        return chosen

    place = r"call 1: chose action 4 instead of .*, in row 5 \(lane 7, step 1\)"
    with pytest.raises(errors.PolicyError, match=place) as caught:
        envs.rollout(9, wrong_where_fewer_play)
    error = caught.value
    assert (error.policy, error.call) == ("wrong_where_fewer_play", 1)
    assert (error.row, error.lane) == (5, 7)
    twin.rollout(1, first_or_last_legal)
    assert_same(envs.rollout(5, first_or_last_legal), twin.rollout(5, first_or_last_legal))


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (lambda observations, mask: 1 / 0, "call 0: raised ZeroDivisionError"),
        (lambda observations, mask: mask.argmax(axis=1)[:3], r"returned int64 of shape \(3,\)"),
        (lambda observations, mask: mask[:, 0] * 0.5, "returned float64"),
        (lambda observations, mask: [[0], [0, 1]], "returned list; expected an array"),
        (
            lambda observations, mask: mask.argmin(axis=1),
            r"chose action .* in row 0 \(lane 0, step 0",
        ),
    ],
)
def test_a_policys_error_changes_nothing(policy: Any, text: str) -> None:
    envs = make("embedded")
    boards = np.full((16, 4, 4), 0, np.uint8)
    boards[:, 0, 0] = 1
    before = envs.reset(seed=0, options={"boards": boards})[0]
    requests = envs.requests
    with pytest.raises(errors.PolicyError, match=text):
        envs.rollout(3, policy)
    np.testing.assert_array_equal(envs.observe()[0], before)
    assert envs.requests - requests == 3  # none of them changes anything
    envs.close()


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"policy": first_or_last_legal, "infos": ["no"]}, "infos"),
        ({"policy": first_or_last_legal, "infos": ["score", "score"]}, "infos"),
        ({"policy": first_or_last_legal, "actions": np.zeros((2, 16), int)}, "policy"),
        ({"policy": "perfect-memory"}, "envs"),
        ({"policy": RandomPolicy}, "policy"),
        ({"policy": 3}, "policy"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_called(
    arguments: dict[str, Any], field: str
) -> None:
    envs = make("embedded")
    before = envs.reset(seed=0)[0]
    requests = envs.requests
    with pytest.raises(errors.InvalidArgument) as caught:
        envs.rollout(2, **arguments)
    assert caught.value.field == field
    assert envs.requests == requests
    np.testing.assert_array_equal(envs.observe()[0], before)
    envs.close()


def test_a_rollout_before_the_first_reset_is_refused(make_batch: MakeBatch, endpoint: str) -> None:
    envs = make_batch(2, endpoint=endpoint)
    with pytest.raises(errors.FailedPrecondition):
        envs.rollout(1, first_or_last_legal)
    envs.close()


# ---- calls and interrupts within it --------------------------------------------------------------


def test_the_function_may_make_calls_and_a_failed_call_changes_nothing(
    open_envs: Callable[..., Any],
) -> None:
    """Each step is a separate request, even if it looks like the previous request."""
    envs, twin = open_envs(), open_envs()
    envs.reset(seed=5), twin.reset(seed=5)

    def looks_ahead(observations: Any, action_mask: Any) -> Any:
        _, rewards, mask = envs.afterstates()
        np.testing.assert_array_equal(mask, action_mask)
        with pytest.raises(errors.InvalidArgument):
            envs.step([0])
        return np.where(mask == 1, rewards, -1).argmax(axis=1)

    def same(observations: Any, action_mask: Any) -> Any:
        with pytest.raises(errors.InvalidArgument):
            envs.step([0])
        return np.where(action_mask[:, 0], 0, action_mask.argmax(axis=1))

    mine = [envs.rollout(40, looks_ahead), envs.rollout(40, same)]
    its = [twin.rollout(40, actions=each.actions) for each in mine]
    for one, other in zip(mine, its, strict=True):
        assert_same(one, other)
    assert np.concatenate([mine[0].valid, mine[1].valid]).all(axis=1).any()


def test_an_interrupt_in_the_function_keeps_the_steps_before_it(
    open_envs: Callable[..., Any],
) -> None:
    envs, twin = open_envs(), open_envs()
    envs.reset(seed=5), twin.reset(seed=5)
    calls = []

    def stops(observations: Any, action_mask: Any) -> Any:
        calls.append(1)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return first_or_last_legal(observations, action_mask)

    with pytest.raises(KeyboardInterrupt) as caught:
        envs.rollout(100, stops)
    assert notes_of(caught.value) == [
        "twofold: the completed steps of the rollout remain; any call continues from there."
    ]
    before = twin.rollout(7, first_or_last_legal)
    assert number(envs.step(before.actions[-1])) == number(twin.step(before.actions[-1]))
    assert_same(envs.rollout(5, first_or_last_legal), twin.rollout(5, first_or_last_legal))


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_an_interrupt_at_any_bytecode_leaves_whole_steps(server: Server, mode: str) -> None:
    """The next rollout continues from there: no step is lost, and none is played twice."""
    arguments: dict[str, Any] = {"autoreset_mode": mode, "max_episode_steps": 2, "size": 3}
    envs, twin = make(server.ipc, **arguments), make("embedded", **arguments)
    steps, places = 2, set()
    for moment, at in moments(127):
        envs.reset(seed=moment), twin.reset(seed=moment)
        expected = twin.rollout(2 * steps, first_or_last_legal)
        try:
            at.call(envs.rollout, steps, first_or_last_legal)
            assert not at.has_fired, "the interrupt was swallowed"
            break
        except KeyboardInterrupt:
            pass
        rest = envs.rollout(steps, first_or_last_legal)
        [place] = [
            first
            for first in range(steps + 1)
            if np.array_equal(expected.actions[first : first + steps], rest.actions)
            and np.array_equal(expected.observations[first:][: steps + 1], rest.observations)
        ]
        places.add(place)
    assert moment > 1000
    assert places == set(range(steps + 1))
    envs.close()
    twin.close()
