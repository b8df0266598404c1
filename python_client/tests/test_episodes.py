"""`extra_infos=("episode",)`: the infos of Gymnasium's RecordEpisodeStatistics, and statistics."""

import functools
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import RecordEpisodeStatistics
from gymnasium.wrappers.vector import RecordEpisodeStatistics as RecordVectorEpisodeStatistics
from loops import actions, interrupt, make
from numpy.typing import NDArray
from opcodes import InterruptAt
from servers import Server

import twofold
from twofold import errors
from twofold.envs import episodes

REWARD = {
    "Game2048": {
        "merge_score": 0.1,
        "illegal_action": -0.7,
        "empty_cells": {"weight": 0.3, "gamma": 0.99},
        "scale": 1 / 3,
        "clip": (None, 1.7),
    },
    "Concentration": {"match": 0.1, "mismatch": -0.7, "scale": 1 / 3},
}
MODES = ["NextStep", "SameStep", "Disabled"]
GYMNASIUM = tuple(int(part) for part in gym.__version__.split(".")[:2])

reporting = functools.partial(make, extra_infos=("episode",), max_episode_steps=7)
"""The arguments for boards with short episodes and the extra info."""


def play(envs: Any, steps: int, start: int = 0) -> Iterator[tuple[Any, ...]]:
    """Plays fixed actions, after a reset if `start` is 0. With DISABLED, resets ended lanes."""
    if start == 0:
        envs.reset(seed=7)
    disabled = envs.metadata["autoreset_mode"] is gym.vector.AutoresetMode.DISABLED
    for step in range(start, start + steps):
        stepped = envs.step(actions(step, int(envs.single_action_space.n)))
        yield stepped
        ended = stepped[2] | stepped[3]
        if disabled and ended.any():
            envs.reset(options={"reset_mask": ended})


def ends(envs: Any, steps: int, start: int = 0) -> list[tuple[int, int, float, int]]:
    """Returns the step, lane, return and length of each episode that ends."""
    found = []
    for step, (*_, infos) in enumerate(play(envs, steps, start), start):
        for lane in np.flatnonzero(infos.get("_episode", ())):
            episode = infos["episode"]
            found.append((step, int(lane), float(episode["r"][lane]), int(episode["l"][lane])))
    return found


def summed(envs: Any, steps: int) -> list[tuple[int, int, float, int]]:
    """Returns the same as `ends`, by adding up the rewards."""
    sums: NDArray[np.float64] = np.zeros(envs.num_envs)
    lengths: NDArray[np.int64] = np.zeros(envs.num_envs, np.int64)
    begins = np.zeros(envs.num_envs, np.bool_)
    is_next = envs.metadata["autoreset_mode"] is gym.vector.AutoresetMode.NEXT_STEP
    found = []
    for step, (_, rewards, terminations, truncations, _) in enumerate(play(envs, steps)):
        sums = np.where(begins, 0, sums + rewards)
        lengths = np.where(begins, 0, lengths + 1)
        ended = terminations | truncations
        for lane in map(int, np.flatnonzero(ended)):
            found.append((step, lane, float(sums[lane]), int(lengths[lane])))
        if is_next:
            begins = ended
        else:
            sums[ended], lengths[ended] = 0, 0
    return found


# ---- as Gymnasium's wrappers ---------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("endpoint", "keywords"),
    [
        ("embedded", {}),
        ("embedded", {"copy": False}),
        ("embedded", {"obs": "dict", "copy": False}),
        ("embedded", {"obs": "flat"}),
        ("ipc", {}),
        ("tcp", {"copy": False}),
    ],
    indirect=["endpoint"],
    ids=str,
)
def test_the_infos_match_gymnasiums_vector_wrapper(
    endpoint: str, game: str, mode: str, keywords: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    arguments = {"autoreset_mode": mode, "reward": REWARD[game], **keywords}
    envs = reporting(endpoint, game, **arguments)
    wrapped = RecordVectorEpisodeStatistics(make(endpoint, game, max_episode_steps=7, **arguments))
    # Before 1.4 the wrapper leaves out the first step of an episode that SAME_STEP began.
    if mode == "SameStep" and GYMNASIUM < (1, 4):
        assert ends(envs, 60) == summed(make(endpoint, game, max_episode_steps=7, **arguments), 60)
        return
    seen = 0
    for mine, theirs in zip(play(envs, 60), play(wrapped, 60), strict=True):
        now[0] += 0.1234567
        infos, expected = mine[4], theirs[4]
        assert infos.keys() - {"episode_return", "_episode_return"} == expected.keys()
        if "episode" not in expected:
            continue
        seen += 1
        assert infos["_episode"].tolist() == expected["_episode"].tolist()
        assert infos["episode"].keys() == expected["episode"].keys()
        for name, values in expected["episode"].items():
            assert infos["episode"][name].dtype == values.dtype
            assert infos["episode"][name].tolist() == values.tolist(), name
    assert seen >= 7
    envs.close()
    wrapped.close()


@pytest.mark.parametrize("mode", MODES)
def test_returns_and_lengths_are_sums_over_the_steps(endpoint: str, game: str, mode: str) -> None:
    arguments = {"autoreset_mode": mode, "reward": REWARD[game], "max_episode_steps": 7}
    envs, twin = reporting(endpoint, game, **arguments), make(endpoint, game, **arguments)
    found = ends(envs, 60)
    assert len(found) > 60
    assert found == summed(twin, 60)
    envs.close()
    twin.close()


def test_a_reset_may_overwrite_the_array_that_is_its_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    envs = reporting("embedded", max_episode_steps=2, goal=8, size=2, copy=False)
    boards = np.tile(np.array([[1, 0], [0, 1]], np.uint8), (16, 1, 1))
    boards[::2] = [[2, 2], [0, 1]]  # the even boards reach the goal
    envs.reset(seed=0, options={"boards": boards})
    infos = envs.step(np.full(16, 3))[4]
    now[0] = 101.0
    envs.reset(options={"reset_mask": infos["goal_reached"]})
    envs.step(actions(0))
    now[0] = 103.0
    infos = envs.step(actions(1))[4]
    assert infos["episode"]["t"][::2].tolist() == [2.0] * 8
    envs.close()


@pytest.mark.parametrize(
    "deed",
    [
        lambda envs: envs.reset(),
        lambda envs: envs.restore(envs.snapshot()),
        lambda envs: envs.rollout(1, "random"),
    ],
    ids=["reset", "restore", "rollout"],
)
def test_the_time_of_an_episode_counts_from_its_first_board(
    deed: Callable[[Any], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    envs = reporting("embedded", max_episode_steps=3)
    envs.reset(seed=1)
    now[0] = 101.0
    deed(envs)
    now[0] = 102.5
    infos: dict[str, Any] = {}
    while "episode" not in infos:
        infos = envs.step(actions(0))[4]
    assert infos["episode"]["t"].tolist() == [1.5] * 16
    # Half of the boards are reset at once, the others by the next step.
    now[0] = 110.0
    mask = np.arange(16) % 2 == 0
    envs.reset(options={"reset_mask": mask})
    now[0] = 111.0
    for step in range(4):
        infos = envs.step(actions(step))[4]
        now[0] += 10
        if step >= 2:
            ended = mask if step == 2 else ~mask
            assert infos["_episode"].tolist() == ended.tolist()
            assert infos["episode"]["t"][ended].tolist() == [21.0 if step == 2 else 30.0] * 8
    envs.close()


@pytest.mark.parametrize("name", ["twofold/Game2048-v0", "twofold/Concentration-v0"])
def test_the_infos_of_one_board_match_gymnasiums_wrapper(endpoint: str, name: str) -> None:
    def made(**keywords: Any) -> gym.Env[Any, Any]:
        # Episodes of about ten steps.
        return gym.make(name, illegal_action="terminate", endpoint=endpoint, **keywords)

    env, wrapped = made(extra_infos=("episode",)), RecordEpisodeStatistics(made())
    for episode in range(5):
        for each in (env, wrapped):
            each.reset(seed=episode)
        is_over = False
        while not is_over:
            action = env.action_space.sample()
            *_, terminated, truncated, infos = env.step(action)
            expected = wrapped.step(action)[4]
            is_over = terminated or truncated
            assert infos.keys() - {"episode_return"} == expected.keys()
            assert ("episode" in infos) is is_over
        for key in ("r", "l", "t"):
            assert type(infos["episode"][key]) is type(expected["episode"][key])
        assert infos["episode"]["r"] == expected["episode"]["r"]
        assert infos["episode"]["l"] == expected["episode"]["l"]
        assert infos["episode"]["t"] >= 0
    env.close()
    wrapped.close()


@pytest.mark.parametrize(
    "infos_on_request",
    [("chance", "episode", "merges"), ("episode_return", "episode", "chance", "merges")],
)
def test_make_vec_accepts_the_info_next_to_others(
    endpoint: str, infos_on_request: tuple[str, ...]
) -> None:
    envs = gym.make_vec(
        "twofold/Game2048-v0",
        num_envs=16,
        extra_infos=infos_on_request,
        max_episode_steps=2,
        endpoint=endpoint,
    )
    _, infos = envs.reset(seed=1)
    assert not {"episode", "episode_return", "chance"} & infos.keys()
    names = [envs.step(actions(step))[4].keys() for step in range(3)]
    assert all({"chance", "merges", "episode_return"} <= each for each in names)
    assert ["episode" in each for each in names] == [False, True, False]
    envs.close()


def test_without_the_info_nothing_is_reported_and_an_unknown_name_is_refused(endpoint: str) -> None:
    envs = make(endpoint, max_episode_steps=1)
    envs.reset(seed=1)
    assert not any(
        "episode_return" in name or name == "episode" for name in envs.step(actions(0))[4]
    )
    with pytest.raises(errors.InvalidArgument, match='extra_infos=\\("episode",\\)') as refused:
        envs.statistics()
    assert refused.value.field == "extra_infos"
    envs.close()
    for names, named in ((("episodes",), "episode_return"), (("episode", "episode"), "twice")):
        with pytest.raises(errors.InvalidArgument, match=named) as refused:
            make(endpoint, extra_infos=names)
        assert refused.value.field == "extra_infos"


def test_an_unknown_extra_info_is_refused_with_the_names_of_all(endpoint: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=r"has reward_terms, .*, episode$") as refused:
        make(endpoint, extra_infos=("chance", "nonsense"))
    assert refused.value.field == "extra_infos"
    with pytest.raises(errors.InvalidArgument, match=r"'chance' twice$"):
        make(endpoint, extra_infos=("chance", "chance"))


def test_the_return_so_far_is_an_info_of_steps_and_rollouts(endpoint: str) -> None:
    envs, twin = (make(endpoint, extra_infos=("episode_return",)) for _ in range(2))
    played = np.stack([actions(step) for step in range(20)])
    for each in (envs, twin):
        each.reset(seed=3)
    rollout = envs.rollout(20, actions=played, infos=["episode_return", "episode_length"])
    assert rollout.infos["episode_return"].dtype == np.float64
    expected = rollout.rewards.astype(np.float64).cumsum(axis=0)
    np.testing.assert_array_equal(rollout.infos["episode_return"], expected)
    for step in range(20):
        infos = twin.step(played[step])[4]
        assert "episode" not in infos
        np.testing.assert_array_equal(infos["episode_return"], expected[step])
    envs.close()
    twin.close()


def test_boards_whose_episode_goes_on_have_zeros_for_it() -> None:
    envs = reporting("embedded", max_episode_steps=4)
    envs.reset(seed=7)
    envs.step(actions(0))
    envs.reset(options={"reset_mask": np.arange(16) < 5})
    for step in range(1, 4):
        infos = envs.step(actions(step))[4]
    assert np.flatnonzero(infos["_episode"]).tolist() == list(range(5, 16))
    assert infos["episode"]["l"].tolist() == [0] * 5 + [4] * 11
    assert not infos["episode"]["r"][:5].any()
    assert not infos["episode"]["t"][:5].any()
    envs.close()


# ---- returns are the boards' own, wherever these go ----------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_copies_of_boards_keep_their_returns(endpoint: str, game: str, mode: str) -> None:
    arguments = {"autoreset_mode": mode, "reward": REWARD[game], "max_episode_steps": 11}
    envs, other = (reporting(endpoint, game, **arguments) for _ in range(2))
    list(play(envs, 5))
    blob = envs.snapshot()
    expected = ends(envs, 30, start=5)
    assert len({episode[2] for episode in expected}) > 4
    envs.restore(blob)
    other.restore(blob)
    fork = envs.fork(np.arange(16), spawns="same")
    for each in (envs, other, fork):
        assert ends(each, 30, start=5) == expected
        each.close()


def test_masked_resets_and_given_boards_begin_at_0(endpoint: str) -> None:
    envs = reporting(endpoint, max_episode_steps=50)
    list(play(envs, 5))
    before = envs.step(actions(5))[4]["episode_return"]
    mask = np.arange(16) % 2 == 0
    boards = np.zeros((16, 4, 4), np.uint8)
    boards[:, 0, :2] = 1
    envs.reset(options={"reset_mask": mask, "boards": boards})
    _, rewards, _, _, infos = envs.step(np.full(16, 3))
    np.testing.assert_array_equal(infos["episode_return"], np.where(mask, 0, before) + rewards)
    assert (rewards[mask] == 4).all()
    envs.close()


def test_a_snapshot_without_returns_is_refused_and_one_with_them_fits_anywhere(
    endpoint: str,
) -> None:
    envs, plain = reporting(endpoint), make(endpoint)
    for each in (envs, plain):
        each.reset(seed=1)
        each.step(actions(0))
    with pytest.raises(errors.InvalidArgument, match="episode_return") as refused:
        envs.restore(plain.snapshot())
    assert refused.value.field == "extra_infos"
    plain.restore(envs.snapshot())
    np.testing.assert_array_equal(plain.observe()[0], envs.observe()[0])
    envs.close()
    plain.close()


def test_recovered_boards_keep_their_returns(own_server: Server, game: str) -> None:
    arguments: dict[str, Any] = {"reward": REWARD[game], "max_episode_steps": 11}
    twin = reporting("embedded", game, **arguments)
    expected = ends(twin, 40)
    envs = reporting(own_server.ipc, game, recover=True, **arguments)
    found = ends(envs, 17)
    own_server.replace()
    assert found + ends(envs, 23, start=17) == expected
    envs.close()
    assert _without_speed(envs.statistics()) == _without_speed(twin.statistics())
    twin.close()


def test_a_server_that_stops_saves_the_returns(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"reward": REWARD["Game2048"], "max_episode_steps": 11}
    twin = reporting("embedded", **arguments)
    expected = ends(twin, 30)
    with Server("--state-dir", str(tmp_path / "state")) as server:
        envs = reporting(server.ipc, **arguments)
        found = ends(envs, 15)
        server.terminate()
        server.start_again()
        assert found + ends(envs, 15, start=15) == expected
        envs.close()
    twin.close()


def test_resumed_boards_continue_and_the_last_results_count_once(server: Server) -> None:
    twin = reporting("embedded")
    expected = ends(twin, 20)
    envs = reporting(server.ipc)
    before = ends(envs, 7)
    again = twofold.resume(envs.token)
    results = again.last_results
    assert results is not None
    episode = results[4]["episode"]
    assert episode["r"].tolist() == [r for step, _, r, _ in before if step == 6]
    assert (episode["t"] >= 0).all()
    assert again.last_results is not None
    assert again.statistics()["episodes"] == 16
    assert before + ends(again, 13, start=7) == expected
    count = again.statistics()["episodes"]
    results = again.last_results
    assert results is not None
    assert results[4]["episode"]["r"].tolist() == episode["r"].tolist()
    assert again.statistics()["episodes"] == count == len(expected)
    again.close()
    twin.close()


# ---- statistics ----------------------------------------------------------------------------------


def _without_speed(statistics: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in statistics.items() if name != "steps_per_second"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("copies", [True, False])
def test_statistics_cover_all_ended_episodes(mode: str, copies: bool) -> None:
    envs = reporting("embedded", autoreset_mode=mode, max_episode_steps=None, size=3, copy=copies)
    for start, steps in ((0, 400), (400, 500)):
        returns, lengths, scores, exponents = [], [], [], []
        for *_, infos in play(envs, steps, start):
            if "episode" in infos:
                ended = infos["_episode"]
                last = infos.get("final_info", infos)
                returns += infos["episode"]["r"][ended].tolist()
                lengths += infos["episode"]["l"][ended].tolist()
                scores += last["score"][ended].tolist()
                exponents += last["max_exponent"][ended].tolist()
        assert len(returns) > 50
        statistics = envs.statistics()
        assert all(type(value) is float for value in statistics.values())
        assert statistics.pop("steps_per_second") > 0
        expected = {
            "episodes": len(returns),
            "return_mean": sum(returns) / len(returns),
            "return_min": min(returns),
            "return_max": max(returns),
            "length_mean": sum(lengths) / len(lengths),
            "score_mean": sum(scores) / len(scores),
            "score_max": max(scores),
            "max_tile": 2 ** max(exponents),
        }
        for exponent in range(4, 16):
            share = sum(each >= exponent for each in exponents) / len(exponents)
            expected[f"reached_{2**exponent}"] = share
        assert statistics == pytest.approx(expected, rel=1e-12)
        assert statistics.keys() == expected.keys()
        assert _without_speed(envs.statistics(reset=True)) == statistics
        assert envs.statistics()["episodes"] == 0
    envs.close()


def test_statistics_of_concentration_have_its_turns_and_pairs(endpoint: str) -> None:
    envs = reporting(endpoint, "Concentration", max_episode_steps=20, autoreset_mode="SameStep")
    turns, pairs = [], []
    for *_, infos in play(envs, 60):
        if "episode" in infos:
            turns += infos["final_info"]["turns"][infos["_episode"]].tolist()
            pairs += infos["final_info"]["pairs"][infos["_episode"]].tolist()
    statistics = envs.statistics()
    assert statistics["episodes"] == len(turns) >= 48
    assert statistics["turns_mean"] == pytest.approx(sum(turns) / len(turns))
    assert statistics["pairs_mean"] == pytest.approx(sum(pairs) / len(pairs))
    assert not any(name.startswith(("score", "reached")) for name in statistics)
    envs.close()


def test_reached_tiles_are_counted() -> None:
    envs = twofold.Game2048VectorEnv(
        4, extra_infos=("episode",), max_episode_steps=1, endpoint="embedded"
    )
    boards = np.zeros((4, 4, 4), np.uint8)
    boards[:, 0, :2] = [[8, 8], [9, 9], [14, 14], [1, 1]]
    envs.reset(seed=0, options={"boards": boards})
    envs.step([3, 3, 3, 3])
    statistics = envs.statistics()
    assert statistics["max_tile"] == statistics["score_max"] == 2**15
    shares = [statistics[f"reached_{2**exponent}"] for exponent in range(9, 16)]
    assert shares == [0.75, 0.5, 0.25, 0.25, 0.25, 0.25, 0.25]
    envs.close()


def test_before_the_first_end_all_means_are_nan(endpoint: str) -> None:
    envs = reporting(endpoint)
    envs.reset(seed=1)
    envs.step(actions(0))
    statistics = envs.statistics(reset=True)
    assert statistics.pop("episodes") == 0
    assert statistics.pop("steps_per_second") > 0
    assert all(math.isnan(value) for value in statistics.values())
    with pytest.raises(errors.InvalidArgument):
        envs.statistics(reset=1)  # type: ignore[arg-type]
    envs.close()
    assert envs.statistics()["episodes"] == 0


@pytest.mark.parametrize("mode", MODES)
def test_ends_of_boards_that_do_not_count_are_not_reported(mode: str) -> None:
    envs = reporting("embedded", autoreset_mode=mode, max_episode_steps=4)
    envs.reset(seed=7)
    for step in range(3):
        envs.step(actions(step))
    idle = np.arange(5, 16)
    assert envs._episodes is not None
    envs._episodes.counted = ~np.isin(np.arange(16), idle)
    infos = envs.step(actions(3))[4]
    assert np.flatnonzero(infos["_episode"]).tolist() == [0, 1, 2, 3, 4]
    assert envs.statistics()["episodes"] == 5
    envs.close()


def test_each_result_counts_once_however_it_arrives(endpoint: str) -> None:
    envs = reporting(endpoint, max_episode_steps=1, autoreset_mode="SameStep")
    envs.reset(seed=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(envs._results, "of_step", interrupt)
        with pytest.raises(KeyboardInterrupt):
            envs.step(actions(0))
    assert envs.statistics()["episodes"] == 0
    assert "episode" in envs.collect()[4]
    assert envs.statistics()["episodes"] == 16
    envs.step_async(actions(1))
    assert envs.statistics()["episodes"] == 16
    assert "episode" in envs.step_wait()[4]
    assert envs.statistics()["episodes"] == 32
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(envs._results, "of_step", interrupt)
        with pytest.raises(KeyboardInterrupt):
            envs.step(actions(2))
    envs.discard()
    envs.rollout(3, "random")
    fork = envs.fork([0, 1])
    assert fork.statistics()["episodes"] == 0
    fork.close()
    assert envs.statistics()["episodes"] == 32
    envs.close()


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_an_interrupt_at_any_bytecode_counts_an_episode_once(server: Server, mode: str) -> None:
    envs = twofold.Game2048VectorEnv(
        3, endpoint=server.ipc, extra_infos=("episode",), autoreset_mode=mode, max_episode_steps=1
    )
    envs.reset(seed=1)
    moment, expected, is_over = 0, 0, False
    while not is_over:
        at = InterruptAt(moment)
        played = np.random.default_rng(moment).integers(0, 4, 3)
        try:
            *_, infos = at.call(envs.step, played)
        except KeyboardInterrupt:
            *_, infos = envs.step(played)
        expected += int(np.count_nonzero(infos.get("_episode", ())))
        assert envs.statistics()["episodes"] == expected, f"bytecode {moment}"
        # Steps that end episodes take the most bytecodes.
        is_over = not at.has_fired and "episode" in infos
        moment += 3 * at.has_fired
    assert moment > 200
    envs.close()


@pytest.mark.parametrize(("boards", "steps"), [(2, 200), (3000, 10)])
def test_the_memory_of_the_statistics_does_not_grow(boards: int, steps: int) -> None:
    envs = twofold.Game2048VectorEnv(
        boards, extra_infos=("episode",), max_episode_steps=1, autoreset_mode="SameStep"
    )
    envs.reset(seed=1)
    most = 0
    for step in range(steps):
        envs.step(np.full(boards, step % 4))
        assert envs._episodes is not None
        most = max(most, sum(one["score"].size for one in envs._episodes._window.rest))
    assert most in (2 * 64, 3000)
    assert envs.statistics()["episodes"] == steps * boards
    envs.close()


def test_the_speed_counts_the_steps_of_all_boards_since_the_last_reset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(episodes, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    envs = reporting("embedded")
    envs.reset(seed=7)
    for steps, seconds in ((6, 2.0), (3, 0.5)):
        for step in range(steps):
            envs.step(actions(step))
        now[0] += seconds
        speed = envs.statistics(reset=True)["steps_per_second"]
        assert speed == pytest.approx(steps * 16 / seconds)
    envs.close()
