"""Tests of `out`: rollouts write to the caller's memory, which is checked before they play."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loops import assert_same, make

import twofold
from twofold import errors
from twofold.envs import rollouts
from twofold.policies.baselines import RandomPolicy

ARRAYS = ["observations", "action_masks", "actions", "rewards"]
ARRAYS += ["terminations", "truncations", "valid"]
INFOS = ["score", "reward_terms"]


def storage(steps: int, terms: int = 1) -> dict[str, Any]:
    """Returns memory for a rollout of 16 boards, filled with wrong values."""
    batch = (steps, 16)
    return {
        "observations": np.full((steps + 1, 16, 4, 4), 255, np.uint8),
        "action_masks": np.full((steps + 1, 16, 4), -1, np.int8),
        "actions": np.full(batch, 255, np.uint8),
        "rewards": np.full(batch, np.nan, np.float32),
        "terminations": np.random.default_rng(0).random(batch) < 0.5,
        "truncations": np.random.default_rng(1).random(batch) < 0.5,
        "valid": np.random.default_rng(2).random(batch) < 0.5,
        "infos": {
            "score": np.full(batch, -1, np.int32),
            "reward_terms": np.full((*batch, terms), np.nan, np.float32),
        },
    }


def flat(out: dict[str, Any]) -> dict[str, Any]:
    """Returns all arrays by name."""
    return {**out, **out.get("infos", {})} | {"infos": None}


SOURCES: dict[str, Callable[[int], dict[str, Any]]] = {
    "random": lambda steps: {"policy": "random"},
    "actions": lambda steps: {"actions": np.arange(steps * 16).reshape(steps, 16) % 4},
    "function": lambda steps: {"policy": RandomPolicy()},
}


@pytest.mark.parametrize(
    ("mode", "dialect"), [("next_step", None), ("same_step", "pgx"), ("disabled", None)]
)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("is_long", [False, True], ids=["one reply", "several replies"])
def test_the_rollout_is_in_the_callers_memory(
    mode: str, dialect: str | None, source: str, is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments: Any = {"autoreset_mode": mode, "dialect": dialect, "extra_infos": ["reward_terms"]}
    envs, twin = make("embedded", **arguments), make("embedded", **arguments)
    if is_long:
        monkeypatch.setattr(rollouts, "reply_bytes", lambda _: 20_000)
    for each in (envs, twin):
        each.reset(seed=1)
    play = SOURCES[source](90)
    expected = twin.rollout(90, **SOURCES[source](90), infos=INFOS)
    out = storage(90, len(envs.reward_terms))
    rollout = envs.rollout(90, **play, infos=INFOS, out=out)
    assert_same(rollout, expected)
    for name in ARRAYS:
        assert getattr(rollout, name) is out[name], name
    assert list(rollout.infos) == INFOS
    for name in INFOS:
        assert rollout.infos[name] is out["infos"][name]
    # A second rollout reuses the first one as its memory.
    again = envs.rollout(90, **play, infos=INFOS, out=rollout)
    assert again.rewards is out["rewards"]
    assert_same(again, twin.rollout(90, **play, infos=INFOS) if source != "function" else again)
    np.testing.assert_array_equal(again.observations[-1], envs.observe()[0])
    envs.close()
    twin.close()


@pytest.mark.parametrize("name", [*ARRAYS, "score"])
@pytest.mark.parametrize("source", SOURCES)
def test_each_array_may_be_given_alone(name: str, source: str) -> None:
    envs, twin = make("embedded"), make("embedded")
    envs.reset(seed=1), twin.reset(seed=1)
    array = flat(storage(5))[name]
    out = {"infos": {name: array}} if name == "score" else {name: array}
    rollout = envs.rollout(5, **SOURCES[source](5), infos=["score"], out=out)
    assert_same(rollout, twin.rollout(5, **SOURCES[source](5), infos=["score"]))
    assert (rollout.infos[name] if name == "score" else getattr(rollout, name)) is array
    others = [getattr(rollout, other) for other in ARRAYS if other != name]
    assert not any(np.may_share_memory(array, other) for other in others)
    envs.close()
    twin.close()


def test_memory_may_have_gaps_and_belong_to_a_file(tmp_path: Any) -> None:
    envs, twin = make("embedded"), make("embedded")
    envs.reset(seed=1), twin.reset(seed=1)
    buffer = np.zeros((9, 20, 16, 4), np.int8)
    file = np.memmap(tmp_path / "rewards", np.float32, "w+", shape=(8, 16))
    out = {"action_masks": buffer[:, 3], "rewards": file}
    with pytest.raises(errors.InvalidArgument, match=r"int8 \(9, 16, 4\)"):
        envs.rollout(7, "random", out=out)
    rollout = envs.rollout(8, "random", out=out)
    expected = twin.rollout(8, "random")
    assert_same(rollout, expected)
    np.testing.assert_array_equal(buffer[:, 3], expected.action_masks)
    assert not buffer[:, :3].any()
    assert not buffer[:, 4:].any()
    file.flush()
    written = np.fromfile(tmp_path / "rewards", np.float32).reshape(8, 16)
    np.testing.assert_array_equal(written, expected.rewards)
    envs.close()
    twin.close()


READ_ONLY = np.zeros((4, 16), np.float32)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    ("out", "field"),
    [
        (3, "out"),
        ([1, 2], "out"),
        ({"infos": [1]}, "out"),
        ({"reward": np.zeros((4, 16), np.float32)}, "out.reward"),
        ({"finals": None}, "out.finals"),
        ({3: None}, "out.3"),
        ({"infos": {"moves": np.zeros((4, 16), np.int32)}}, "out.infos.moves"),
        ({"infos": {"score": np.zeros((4, 16), np.int64)}}, "out.infos.score"),
        ({"rewards": np.zeros((4, 16))}, "out.rewards"),
        ({"rewards": np.zeros((4, 16), ">f4")}, "out.rewards"),
        ({"rewards": np.zeros((4, 15), np.float32)}, "out.rewards"),
        ({"rewards": np.zeros((5, 16), np.float32)}, "out.rewards"),
        ({"rewards": READ_ONLY}, "out.rewards"),
        ({"rewards": None}, "out.rewards"),
        ({"valid": [[True] * 16] * 4}, "out.valid"),
        ({"valid": np.zeros((4, 16), np.uint8)}, "out.valid"),
        ({"actions": np.zeros((4, 16), np.int64)}, "out.actions"),
        ({"observations": np.zeros((4, 16, 4, 4), np.uint8)}, "out.observations"),
        ({"action_masks": np.zeros((5, 16, 4), np.bool_)}, "out.action_masks"),
    ],
)
def test_unusable_memory_is_refused_before_anything_is_played(
    source: str, out: Any, field: str
) -> None:
    envs = make("embedded")
    before = envs.reset(seed=0)[0]
    with pytest.raises(errors.InvalidArgument) as caught:
        envs.rollout(4, **SOURCES[source](4), infos=["score"], out=out)
    assert caught.value.field == field
    np.testing.assert_array_equal(envs.observe()[0], before)
    envs.close()


def test_a_rollout_of_other_infos_or_steps_can_not_be_the_storage() -> None:
    envs = make("embedded", game="Concentration")
    envs.reset(seed=0)
    rollout = envs.rollout(4, "random", infos=["turns"])
    for steps, infos, field in ((4, [], "out.infos.turns"), (5, ["turns"], "out.observations")):
        with pytest.raises(errors.InvalidArgument) as caught:
            envs.rollout(steps, "random", infos=infos, out=rollout)
        assert caught.value.field == field
    assert (
        envs.rollout(4, "random", infos=["turns", "pairs"], out=rollout).infos["turns"]
        is (rollout.infos["turns"])
    )
    envs.close()


def test_without_storage_each_rollout_has_separate_arrays() -> None:
    envs = twofold.Game2048VectorEnv(16, endpoint="embedded")
    envs.reset(seed=0)
    for source in SOURCES:
        first = envs.rollout(5, **SOURCES[source](5))
        kept = {name: getattr(first, name).copy() for name in ARRAYS}
        envs.rollout(5, **SOURCES[source](5))
        for name, array in kept.items():
            np.testing.assert_array_equal(getattr(first, name), array, err_msg=f"{source} {name}")
    assert {item.name for item in dataclasses.fields(first)} == {*ARRAYS, "infos", "finals"}
    envs.close()


def test_a_rollout_in_one_reply_takes_no_memory_from_the_pool() -> None:
    envs = twofold.Game2048VectorEnv(16, endpoint="embedded")
    envs.reset(seed=0)
    envs.rollout(5, "random")
    assert not envs._session.rollouts._buffers
    envs.rollout(5, lambda observations, mask: mask.argmax(axis=1))
    assert len(envs._session.rollouts._buffers) == 1
    envs.close()
