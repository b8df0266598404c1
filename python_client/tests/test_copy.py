"""With copy=False, every reset and every step returns the same arrays, overwritten in place."""

import contextlib
import tracemalloc
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from loops import Interrupts, actions, make, number, one_step, undisturbed
from numpy.typing import NDArray
from opcodes import moments

import twofold
from twofold import errors

REWARD = {"merge_score": 1.0, "empty_cells": {"weight": 0.5, "gamma": 0.9}}
KINDS: dict[str, dict[str, Any]] = {
    "array": {},
    "dict": {"obs": "dict"},
    "same step": {"autoreset_mode": "SameStep", "max_episode_steps": 7},
    "same step, dict": {"autoreset_mode": "SameStep", "max_episode_steps": 7, "obs": "dict"},
    "dialect": {"dialect": "pgx"},
    "dialect, dict": {"dialect": "pgx", "obs": "dict"},
    "rewards": {"reward": REWARD, "extra_infos": ["reward_terms", "merges"]},
}

Path = tuple[str, ...]


def arrays_of(results: object, path: Path = ()) -> Iterator[tuple[Path, NDArray[Any]]]:
    """Yields all arrays in a call's results, with their paths."""
    if isinstance(results, np.ndarray):
        yield path, results
    elif isinstance(results, dict):
        for name, value in results.items():
            if "final" not in name:
                yield from arrays_of(value, (*path, name))
    elif isinstance(results, tuple):
        for place, value in enumerate(results):
            yield from arrays_of(value, (*path, str(place)))


def frozen(results: Any) -> dict[Path, Any]:
    """Returns the results' current contents."""
    return {path: array.tolist() for path, array in arrays_of(results)}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_reused_arrays_have_the_same_contents_as_fresh_ones(
    endpoint: str, kind: dict[str, Any]
) -> None:
    held = twofold.Game2048VectorEnv(16, endpoint=endpoint, copy=False, **kind)
    fresh = twofold.Game2048VectorEnv(16, endpoint=endpoint, **kind)
    ids: dict[str, dict[Path, int]] = {}
    for turn in range(60):
        deed = "reset" if turn % 20 == 0 else "step"
        if deed == "reset":
            mask = {"reset_mask": np.arange(16) % 3 == 0} if turn else None
            results: list[Any] = [envs.reset(seed=turn, options=mask) for envs in (held, fresh)]
        else:
            results = [envs.step(actions(turn)) for envs in (held, fresh)]
        assert frozen(results[0]) == frozen(results[1]), f"turn {turn}"
        assert finals_of(results[0]) == finals_of(results[1]), f"turn {turn}"
        places = {path: id(array) for path, array in arrays_of(results[0])}
        assert ids.setdefault(deed, places) == places, f"turn {turn}"
    held.close()
    fresh.close()


def finals_of(results: Any) -> Any:
    """Returns SAME_STEP's data about the episodes that have ended."""
    infos = results[-1]
    if "final_obs" not in infos:
        return None
    observations = [frozen((final,)) for final in infos["final_obs"] if final is not None]
    return observations, infos["_final_obs"].tolist(), frozen((infos["final_info"],))


def test_reset_and_step_share_their_arrays_and_each_has_its_dict(endpoint: str) -> None:
    envs = make(endpoint, copy=False, extra_infos=["merges"])
    observations, infos = envs.reset(seed=1)
    stepped = envs.step(actions(1))
    assert stepped[0] is observations
    assert stepped[4] is envs.step(actions(2))[4]
    again, infos_again = envs.reset(seed=2)
    assert again is observations
    assert infos_again is infos
    assert infos["action_mask"] is stepped[4]["action_mask"]
    assert "merges" in stepped[4]
    assert "merges" not in infos
    envs.close()


def test_finals_disappear_with_the_next_step(endpoint: str) -> None:
    envs = make(
        endpoint, copy=False, autoreset_mode="SameStep", max_episode_steps=3, extra_infos=["merges"]
    )
    envs.reset(seed=1)
    names = []
    for turn in range(7):
        infos = envs.step(actions(turn))[4]
        names.append("final_obs" in infos)
        # Infos of the transition belong to the ended episode, and are returned with it.
        assert infos["_merges"].all() != names[-1]
    assert names == [False, False, True] * 2 + [False]
    envs.close()


def test_occasional_results_have_fresh_arrays(endpoint: str) -> None:
    envs = make(endpoint, copy=False)
    observations, _ = envs.reset(seed=1)
    seen = [envs.observe()[0], envs.restore(envs.snapshot())[0]]
    before = observations.copy()
    envs.step(actions(1))
    for boards in seen:
        assert not np.shares_memory(boards, observations)
        np.testing.assert_array_equal(boards, before)
    assert (observations != before).any()
    envs.close()


@pytest.mark.parametrize("num_envs", [1, 16, 4096])
@pytest.mark.parametrize("kind", ["array", "dict"])
def test_a_step_allocates_nothing_of_a_batchs_size(num_envs: int, kind: str) -> None:
    envs = twofold.Game2048VectorEnv(num_envs, copy=False, **KINDS[kind])
    envs.reset(seed=1)
    numbers = np.zeros(num_envs, np.uint8)
    for _ in range(10):
        envs.step(numbers)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(100):
        results = envs.step(numbers)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The actions as bytes, and small Python objects.
    assert peak - before < num_envs + 4096
    assert held - before < num_envs + 4096
    del results
    envs.close()


def test_interrupts_lose_nothing(endpoint: str, game: str) -> None:
    expected = undisturbed(endpoint, 100, game)
    envs = make(endpoint, game, copy=False)
    interrupts = step = 0
    with Interrupts(seed=9, longest=0.004):
        while step < 100 or interrupts < 25:
            try:
                result = one_step(envs, step % 100)
            except KeyboardInterrupt:
                interrupts += 1
                continue
            assert result == expected[step % 100], f"step {step}"
            step += 1
    envs.close()


def test_a_fork_has_arrays_of_its_own(endpoint: str) -> None:
    envs = make(endpoint, copy=False)
    observations, _ = envs.reset(seed=1)
    before = observations.copy()
    fork = envs.fork([0, 1])
    mine = fork.step(actions(1)[:2])[0]
    np.testing.assert_array_equal(observations, before)
    assert mine is fork.step(actions(2)[:2])[0]
    assert not np.shares_memory(mine, observations)
    fork.close()
    envs.close()


def test_copy_is_a_bool() -> None:
    with pytest.raises(errors.InvalidArgument, match="copy"):
        make(None, copy=1)


def test_number_distinguishes_two_steps() -> None:
    """Tests `number`, a helper that the other tests use."""
    envs = make(None, copy=False)
    envs.reset(seed=1)
    assert number(envs.step(actions(1))) != number(envs.step(actions(2)))
    envs.close()


def test_keys_that_others_add_to_the_infos_disappear_with_the_next_call(endpoint: str) -> None:
    held = RecordEpisodeStatistics(make(endpoint, copy=False, max_episode_steps=5))
    fresh = RecordEpisodeStatistics(make(endpoint, max_episode_steps=5))
    held.reset(seed=1)
    fresh.reset(seed=1)
    for turn in range(20):
        names = [sorted(envs.step(actions(turn))[4]) for envs in (held, fresh)]
        assert names[0] == names[1], turn
    held.close()
    fresh.close()


def test_changes_that_others_make_to_the_dicts_disappear_with_the_next_call(endpoint: str) -> None:
    held = make(endpoint, copy=False, obs="dict")
    fresh = make(endpoint, obs="dict")
    told: Any
    expected: Any
    for turn in range(20):
        told, expected = (
            envs.step(actions(turn)) if turn % 10 else envs.reset(seed=1) for envs in (held, fresh)
        )
        for place in (0, -1):  # the observations and the infos
            assert told[place].keys() == expected[place].keys()
            for name, array in expected[place].items():
                np.testing.assert_array_equal(told[place][name], array, f"{turn}: {name}")
        observations, *_, infos = told
        infos["mask"] = infos.pop("action_mask")
        infos["score"] = None
        observations["observation"] = observations.pop("action_mask").astype(bool)
    held.close()
    fresh.close()


def test_an_interrupt_at_any_moment_leaves_no_finals_behind() -> None:
    envs, twin = (
        make(
            None, copy=False, autoreset_mode="SameStep", max_episode_steps=2, extra_infos=["merges"]
        )
        for _ in range(2)
    )
    for moment, at in moments(3):
        for each in (envs, twin):
            each.reset(seed=1)
            each.step(actions(0))
        before = envs.requests
        with contextlib.suppress(KeyboardInterrupt):
            at.call(envs.step, actions(1))
        envs.discard()
        if envs.requests == before:
            envs.step(actions(1))
        twin.step(actions(1))
        step, expected = envs.step(actions(2)), twin.step(actions(2))
        assert step[4].keys() == expected[4].keys(), moment
        assert frozen(step) == frozen(expected), moment
    assert moment > 300
    envs.close()
    twin.close()


def test_single_environments_have_no_such_argument() -> None:
    for game in ("twofold/Game2048-v0", "twofold/Concentration-v0"):
        with pytest.raises(TypeError, match="copy"):
            gym.make(game, copy=False)
