"""Tests of declared rewards: declarations, each term's formula, and the limits of shaping."""

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import make_reward_golden
import numpy as np
import pytest
import reward_reference
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_lanes import TABLE, declaration
from reference import Board, Game
from reward_reference import EVENTS, POTENTIALS, Transition

import twofold
from twofold import errors
from twofold.games.rewards import reward_spec

NUM_ENVS = 24
EXTRA = ("reward_terms", "merges", "chance", "afterstates")
WEIGHTS = [[15, 14, 13, 12], [8, 9, 10, 11], [7, 6, 5, 4], [0, -1, -2, -10_000]]


# ---- declarations --------------------------------------------------------------------------------


def test_a_dict_a_list_and_a_file_declare_the_same_reward(tmp_path: Path) -> None:
    forms: list[Any] = [
        {
            "merge_score": 1.0,
            "empty_cells": {"weight": 0.1, "gamma": 0.99},
            "scale": 0.5,
            "clip": (-1, None),
        },
        {
            "terms": [("merge_score", 1.0), ("empty_cells", {"weight": 0.1, "gamma": 0.99})],
            "scale": 0.5,
            "clip": [-1.0, None],
        },
        {
            "terms": [
                {"term": "merge_score", "weight": np.float64(1)},
                {"term": "empty_cells", "weight": 0.1, "gamma": 0.99},
            ],
            "scale": np.float64(0.5),
            "clip": (np.int8(-1), None),
        },
    ]
    for index, form in enumerate(forms[:2]):
        path = tmp_path / f"reward-{index}.json"
        path.write_text(json.dumps(form))
        forms += [path, str(path)]
    specs = [reward_spec(form) for form in forms]
    assert all(spec == specs[0] for spec in specs)
    spec = specs[0]
    assert spec is not None
    assert [term.name for term in spec.terms] == ["merge_score", "empty_cells"]
    assert (spec.scale, spec.clip_low, spec.HasField("clip_high")) == (0.5, -1.0, False)


def test_the_columns_have_the_order_of_the_terms() -> None:
    reward = ["goal", ("empty_cells", {"gamma": 1.0}), "merge_count", ("goal", 2.0)]
    envs = twofold.Game2048VectorEnv(
        2, reward=reward, extra_infos=["reward_terms"], endpoint="embedded"
    )
    assert envs.reward_terms == ("goal", "empty_cells", "merge_count", "goal")
    _, infos = envs.reset(seed=0)
    assert "reward_terms" not in infos
    *_, infos = envs.step([0, 1])
    assert infos["reward_terms"].shape == (2, 4)
    assert infos["reward_terms"].dtype == np.float32
    assert infos["_reward_terms"].all()
    envs.close()
    plain = twofold.Game2048VectorEnv(2, endpoint="embedded")
    assert plain.reward_terms == ("merge_score",)
    plain.close()


@pytest.mark.parametrize(
    ("field", "reward"),
    [
        ("reward.nonsense", {"nonsense": 1.0}),
        ("reward.match", {"merge_score": 1.0, "match": 1.0}),
        ("reward.merge_score.weight", {"merge_score": float("nan")}),
        ("reward.merge_score.weight", {"merge_score": float("inf")}),
        ("reward.merge_score.weight", {"merge_score": 1.1e9}),
        ("reward.merge_score.weight", {"merge_score": "1"}),
        ("reward.merge_score.weight", {"merge_score": True}),
        ("reward.merge_score.weight", {"merge_score": None}),
        ("reward.merge_score.gamma", {"merge_score": {"gamma": 0.9}}),
        ("reward.empty_cells.gamma", {"empty_cells": 1.0}),
        ("reward.empty_cells.gamma", {"empty_cells": {"weight": 1.0, "gamma": 1.5}}),
        ("reward.empty_cells.gamma", {"empty_cells": {"weight": 1.0, "gamma": -0.1}}),
        ("reward.empty_cells.gamma", {"empty_cells": {"gamma": "0.9"}}),
        ("reward.empty_cells.gama", {"empty_cells": {"gamma": 0.9, "gama": 0.9}}),
        ("reward.merge_table.table", {"merge_table": {"table": TABLE[:31]}}),
        ("reward.merge_table.table", {"merge_table": {"table": [float("nan"), *TABLE[1:]]}}),
        ("reward.merge_table.table", {"merge_table": {"table": [[1], [1, 2]]}}),
        ("reward.cell_weights.table", {"cell_weights": {"gamma": 1, "table": WEIGHTS[:3]}}),
        ("reward.cell_weights.table", {"cell_weights": {"gamma": 1, "table": [0.5] * 16}}),
        ("reward.cell_weights.table", {"cell_weights": {"gamma": 1, "table": [10_001] * 16}}),
        ("reward.scale", {"merge_score": 1.0, "scale": float("inf")}),
        ("reward.scale", {"merge_score": 1.0, "scale": "2"}),
        ("reward.clip", {"merge_score": 1.0, "clip": (1, -1)}),
        ("reward.clip", {"merge_score": 1.0, "clip": (0, float("inf"))}),
        ("reward.clip", {"merge_score": 1.0, "clip": 1}),
    ],
    ids=str,
)
def test_a_wrong_reward_is_refused_by_name(field: str, reward: Any) -> None:
    with pytest.raises(errors.InvalidArgument) as caught:
        twofold.Game2048VectorEnv(2, reward=reward, endpoint="embedded")
    assert caught.value.field == field
    assert field.split(".")[-1] in str(caught.value)


@pytest.mark.parametrize(
    ("field", "reward"),
    [
        ("reward.clip", [("merge_score", 1.0), ("clip", (-1, 1))]),
        ("reward.clip", ["merge_score", {"clip": (-1, 1)}]),
        ("reward.clip", ["merge_score", {"term": "clip"}]),
        ("reward.clip", {"terms": {"merge_score": 1.0, "clip": (-1, 1)}}),
        ("reward.scale", ["merge_score", ("scale", 0.01)]),
        ("reward.scale", ["merge_score", {"scale": 0.01, "clip": (-1, 1)}]),
    ],
    ids=str,
)
def test_a_scale_or_a_clip_among_the_terms_is_refused_with_its_place(
    field: str, reward: Any
) -> None:
    form = re.escape(f'write {{"terms": …, "{field.removeprefix("reward.")}": …}}')
    with pytest.raises(errors.InvalidArgument, match=form) as caught:
        reward_spec(reward)
    assert caught.value.field == field


def test_an_iterator_is_refused_because_it_can_be_read_only_once() -> None:
    for field, reward in (
        ("reward", iter(["merge_score"])),
        ("reward", {"terms": (name for name in ["merge_score"])}),
        ("reward.clip", {"merge_score": 1.0, "clip": iter((-1, 1))}),
    ):
        wrong: Any = reward
        with pytest.raises(errors.InvalidArgument, match=f"{field} is <.*>; expected ") as caught:
            twofold.Game2048VectorEnv(2, reward=wrong, endpoint="embedded")
        assert caught.value.field == field


def test_a_function_is_refused_with_a_hint_on_custom_rewards() -> None:
    reward: Any = lambda *_: 1.0  # noqa: E731
    wrappers = r'VectorWrapper.*gymnasium\.Wrapper.*page "Rewards"'
    with pytest.raises(errors.InvalidArgument, match=wrappers) as caught:
        twofold.Game2048VectorEnv(2, reward=reward, endpoint="embedded")
    assert caught.value.field == "reward"


@pytest.mark.parametrize(
    ("arguments", "field", "known"),
    [
        ({"reward": {"merge_scor": 1}}, "reward.merge_scor", "it has merge_score, merge_exponent"),
        ({"reward": {"corner": {"gama": 1}}}, "reward.corner.gama", "it takes weight, gamma"),
        ({"extra_infos": ("mergs",)}, "extra_infos", "merges, chance"),
        ({"extra_infos": ("episod",)}, "extra_infos", "regret, episode"),
    ],
)
def test_a_misspelt_name_is_refused_with_the_known_names(
    arguments: Any, field: str, known: str
) -> None:
    with pytest.raises(errors.InvalidArgument, match=known) as caught:
        twofold.Game2048VectorEnv(2, endpoint="embedded", **arguments)
    assert caught.value.field == field


def test_a_single_environment_has_the_names_of_its_terms() -> None:
    env = twofold.Game2048Env(reward={"merge_count": 2, "merge_score": 1}, endpoint="embedded")
    assert env.reward_terms == ("merge_count", "merge_score")
    env.close()


def test_a_file_that_is_not_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "reward.json").write_text("merge_score: 1")
    with pytest.raises(errors.InvalidArgument, match=r"reward\.json.*not JSON"):
        reward_spec(tmp_path / "reward.json")
    (tmp_path / "reward.json").write_text("[" * 100_000)
    with pytest.raises(errors.InvalidArgument, match="not JSON"):
        reward_spec(tmp_path / "reward.json")


@pytest.mark.parametrize("reward", [{"\ud800": 1}, {"merge_score": {"\ud800": 1}}])
def test_a_name_that_is_not_unicode_is_refused(reward: Any) -> None:
    with pytest.raises(errors.InvalidArgument, match="without lone surrogates") as caught:
        reward_spec(reward)
    assert caught.value.field == "reward"


def test_a_file_is_read_as_text_and_a_pipe_is_refused(tmp_path: Path) -> None:
    (tmp_path / "reward.json").write_bytes(b'\xef\xbb\xbf{"merge_score": 2}')
    assert reward_spec(tmp_path / "reward.json") == reward_spec({"merge_score": 2})
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(errors.InvalidArgument, match="not a regular file") as caught:
            reward_spec(tmp_path / "pipe")
        assert caught.value.field == "reward"


@pytest.mark.parametrize("content", ['"score"', '"other.json"', "null", "1"])
def test_a_file_may_contain_only_a_dict_or_a_list(content: str, tmp_path: Path) -> None:
    path = tmp_path / "reward.json"
    path.write_text(content)
    message = r"reward\.json' contains .*; expected a dict or a list of terms"
    with pytest.raises(errors.InvalidArgument, match=message) as caught:
        twofold.Game2048VectorEnv(1, reward=path)
    assert caught.value.field == "reward"


def test_the_single_environment_also_has_declared_rewards() -> None:
    env = twofold.Game2048Env(
        reward={"merge_count": 2.0}, extra_infos=("chance", "merges"), endpoint="embedded"
    )
    board = np.zeros((4, 4), np.uint8)
    board[2, 1:3] = 3
    env.reset(seed=0, options={"board": board})
    _, reward, _, _, info = env.step(3)
    assert (reward, info["score"]) == (2.0, 16)
    assert type(info["chance"]) is np.int64
    assert info["merges"].tolist() == [[0] * 4, [0] * 4, [4, 0, 0, 0], [0] * 4]
    env.close()


# ---- every term follows its formula --------------------------------------------------------------


def full_spec(size: tuple[int, int]) -> dict[str, Any]:
    """Returns a spec with every term once, and weights that a float can't represent exactly."""
    names = [*sorted(EVENTS), *sorted(POTENTIALS)]
    terms = [(name, (-1) ** index * (0.1 + 0.7 * index)) for index, name in enumerate(names)]
    return {"terms": declaration("Game2048", terms, size[0] * size[1])["terms"], "scale": 1 / 3}


@pytest.fixture(scope="module", params=[(4, 4), (2, 2), (3, 5), (8, 8)], ids=str)
def shaped(request: pytest.FixtureRequest) -> Iterator[Any]:
    size = request.param
    envs = twofold.Game2048VectorEnv(
        NUM_ENVS,
        size=size,
        goal=64,
        reward=full_spec(size),
        extra_infos=EXTRA,
        endpoint="embedded",
    )
    yield envs
    envs.close()


@st.composite
def board_list(draw: st.DrawFn, cells: int) -> list[int]:
    """Returns dense and sparse boards, with few or many distinct tiles."""
    low = draw(st.integers(1, 15))
    tiles = st.integers(low, draw(st.integers(low, 17)))
    empty = draw(st.sampled_from([0, 1, 3]))
    cell = st.one_of([tiles, *[st.just(0)] * empty])
    return draw(st.lists(cell, min_size=cells, max_size=cells))


@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_every_term_follows_its_formula(shaped: Any, data: st.DataObject) -> None:
    rows, columns = shaped.single_observation_space.shape
    drawn = data.draw(st.lists(board_list(rows * columns), min_size=1, max_size=NUM_ENVS))
    boards = [tuple(board) for board in drawn if has_move(tuple(board), rows, columns)]
    if not boards:
        return
    boards = [boards[lane % len(boards)] for lane in range(NUM_ENVS)]
    actions = data.draw(st.lists(st.integers(0, 3), min_size=NUM_ENVS, max_size=NUM_ENVS))
    shaped.reset(
        seed=data.draw(st.integers(0, 2**64 - 1)),
        options={"boards": np.array(boards, np.uint8).reshape(NUM_ENVS, rows, columns)},
    )
    observations, rewards, terminations, _, infos = shaped.step(actions)
    spec = full_spec((rows, columns))
    for lane in range(NUM_ENVS):
        step = Transition(
            boards[lane],
            actions[lane],
            tuple(observations[lane].ravel().tolist()),
            bool(terminations[lane]),
            rows,
            columns,
            goal=64,
        )
        told = dict(zip(shaped.reward_terms, infos["reward_terms"][lane].tolist(), strict=True))
        terms = reward_reference.terms(spec, step)
        expected = np.array(terms, np.float32).tolist()
        assert told == dict(zip(shaped.reward_terms, expected, strict=True))
        assert rewards[lane] == reward_reference.reward(spec, terms)
        assert tuple(infos["merges"][lane].ravel().tolist()) == step.merges
        assert tuple(infos["afterstates"][lane].ravel().tolist()) == step.afterstate
        assert infos["chance"][lane] == step.chance


def has_move(board: Board, rows: int, columns: int) -> bool:
    game = Game(0, rows=rows, columns=columns)
    game.board = board
    return bool(game.legal())


# ---- golden trajectories -------------------------------------------------------------------------


def test_the_golden_files_equal_the_references_results() -> None:
    files = dict(make_reward_golden.files())
    assert files.keys() == {path.name for path in make_reward_golden.FOLDER.glob("*.json")}
    for name, text in files.items():
        assert (make_reward_golden.FOLDER / name).read_text() == text


# ---- shaping changes no optimal policy -----------------------------------------------------------

GAMMA = 0.97
POTENTIAL_TERMS: dict[str, Any] = {
    "empty_cells": {"weight": 3.1, "gamma": GAMMA},
    "monotonicity": {"weight": 2.3, "gamma": GAMMA},
    "smoothness": {"weight": -1.7, "gamma": GAMMA},
    "corner": {"weight": 5.0, "gamma": GAMMA},
    "cell_weights": {"weight": 0.9, "gamma": GAMMA, "table": [[4, -3], [2, 7]]},
    "tile_sum": {"weight": -0.2, "gamma": GAMMA},
}
Action = int
# For each board and legal action, the outcomes: probability, reward, next board, terminated.
Model = dict[Board, dict[Action, list[tuple[float, float, Board, bool]]]]


def model_2x2(reward: Any) -> Model:
    """Returns the whole 2 x 2 game as the server plays it: every board, action and spawn.

    Spawns are drawn, not chosen, so each pair of board and action is played from 72 seeds. Twos and
    fours are equally likely, and so are all outcomes of a pair.
    """
    copies, pairs = 72, 4 * 60
    envs = twofold.Game2048VectorEnv(
        copies * pairs, size=2, four_probability=0.5, reward=reward, endpoint="embedded"
    )
    model: Model = {}
    waiting: set[Board] = {(1, 0, 0, 0), (0, 0, 0, 2)}
    while waiting:
        boards = sorted(waiting)[: pairs // 4]
        batch = np.zeros((copies, pairs, 2, 2), np.uint8)
        batch[:] = np.resize(np.repeat(np.array(boards, np.uint8), 4, axis=0), (pairs, 2, 2))
        actions = np.tile(np.arange(pairs) % 4, copies)
        _, infos = envs.reset(seed=7, options={"boards": batch.reshape(-1, 2, 2)})
        legal = infos["action_mask"][np.arange(copies * pairs), actions]
        observations, rewards, terminations, _, _ = envs.step(actions)
        outcomes: dict[tuple[Board, Action], dict[Board, tuple[float, bool]]] = defaultdict(dict)
        for lane in np.flatnonzero(legal & (np.arange(copies * pairs) % pairs < 4 * len(boards))):
            board = tuple(batch.reshape(-1, 4)[lane].tolist())
            after = tuple(observations[lane].ravel().tolist())
            told = (float(rewards[lane]), bool(terminations[lane]))
            known = outcomes[board, int(actions[lane])].setdefault(after, told)
            assert known == told, "a transition earns the same each time"
        for (board, action), found in outcomes.items():
            after = next(iter(found))
            empty = after.count(0) + 1
            assert len(found) == 2 * empty, "every outcome has come up"
            model.setdefault(board, {})[action] = [
                (1 / len(found), earned, after, ends) for after, (earned, ends) in found.items()
            ]
            waiting |= {after for after, (_, ends) in found.items() if not ends}
        waiting -= model.keys()
    envs.close()
    return model


def solve(model: Model) -> tuple[dict[Board, float], dict[Board, set[Action]]]:
    """Returns optimal discounted values and actions."""
    # A move never decreases the sum of the tiles, so later boards come first in this order.
    values: dict[Board, float] = {}
    best: dict[Board, set[Action]] = {}
    for board in sorted(model, key=lambda b: sum(2**e for e in b if e), reverse=True):
        returns = {
            action: sum(
                chance * (earned + (0 if ends else GAMMA * values[after]))
                for chance, earned, after, ends in outcomes
            )
            for action, outcomes in model[board].items()
        }
        values[board] = max(returns.values())
        # Rewards are float32, and symmetric boards tie, so values closer than this count as equal.
        best[board] = {a for a, value in returns.items() if value > values[board] - 2e-3}
    return values, best


def phi(board: Board) -> float:
    return float(
        sum(
            term["weight"]
            * reward_reference.potential(
                name, board, 2, 2, np.ravel(term.get("table", [])).tolist()
            )
            for name, term in POTENTIAL_TERMS.items()
        )
    )


def test_shaping_by_potentials_leaves_the_optimal_policy_of_2x2_unchanged() -> None:
    values, best = solve(model_2x2(None))
    shaped_values, shaped_best = solve(model_2x2({"merge_score": 1.0, **POTENTIAL_TERMS}))
    assert len(best) > 200
    assert shaped_best == best
    for board, value in values.items():
        assert shaped_values[board] == pytest.approx(value - phi(board), abs=2e-3)
    # A bonus that is not a potential changes it, so the comparison can fail.
    _, other_best = solve(model_2x2({"merge_score": 1.0, "merge_count": -30.0}))
    assert other_best != best


@pytest.mark.parametrize("size", [2, 4])
def test_the_shaped_return_telescopes_in_terminated_and_truncated_episodes(size: int) -> None:
    table = [[4, -3], [2, 7]] if size == 2 else WEIGHTS
    spec = {**POTENTIAL_TERMS}
    spec["cell_weights"] = {**POTENTIAL_TERMS["cell_weights"], "table": table}
    num_envs, limit = 200, 8 if size == 2 else 100
    envs = twofold.Game2048VectorEnv(
        num_envs,
        size=size,
        max_episode_steps=limit,
        autoreset_mode="disabled",
        reward=spec,
        extra_infos=["reward_terms"],
        endpoint="embedded",
    )
    names = envs.reward_terms
    rng = np.random.default_rng(0)
    observations, infos = envs.reset(seed=0)
    returns = np.zeros((num_envs, len(names)))
    start = potentials(observations, spec, names, size)
    expected = np.full((num_envs, len(names)), np.nan)
    active = np.ones(num_envs, np.bool_)
    ends = {"terminated": 0, "truncated": 0}
    for step in range(limit):
        # Mostly legal actions. An illegal action is a step too, with gamma phi(s) - phi(s).
        actions = np.argmax(rng.random((num_envs, 4)) * (infos["action_mask"] + 0.05), axis=1)
        observations, _, terminations, truncations, infos = envs.step(actions)
        returns[active] += GAMMA**step * infos["reward_terms"][active]
        done = terminations | truncations
        lanes = np.flatnonzero(active & done)
        last = potentials(observations[lanes], spec, names, size) * GAMMA ** (step + 1)
        for lane, after in zip(lanes, last, strict=True):
            expected[lane] = (0 if terminations[lane] else after) - start[lane]
            ends["terminated" if terminations[lane] else "truncated"] += 1
        active &= ~done
        if done.any():  # steps after an episode's end are ignored
            envs.reset(options={"reset_mask": done})
            _, infos = envs.observe()
    assert not active.any()
    assert min(ends.values()) > 20, ends
    np.testing.assert_allclose(returns, expected, atol=1e-2, rtol=1e-5)
    envs.close()


def potentials(
    observations: Any, spec: dict[str, Any], names: tuple[str, ...], size: int
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Returns the weighted phi of each board and term, (N, terms)."""
    return np.array(
        [
            [
                spec[name]["weight"]
                * reward_reference.potential(
                    name,
                    tuple(board.ravel().tolist()),
                    size,
                    size,
                    np.ravel(spec[name].get("table", [])).tolist(),
                )
                for name in names
            ]
            for board in observations
        ]
    )


@pytest.mark.parametrize("mode", ["same_step", "disabled"])
def test_a_transition_earns_the_same_in_every_autoreset_mode(mode: str) -> None:
    """With SAME_STEP, s' is the episode's last board, not the returned first board of the next."""
    lanes, limit = 40, 17
    told = []
    infos: Any
    for autoreset in ("next_step", mode):
        envs = twofold.Game2048VectorEnv(
            lanes,
            size=3,
            max_episode_steps=limit,
            autoreset_mode=autoreset,
            reward=full_spec((3, 3)),
            extra_infos=EXTRA,
            endpoint="embedded",
        )
        envs.reset(seed=5)
        played: list[list[Any]] = [[] for _ in range(lanes)]
        waits = np.zeros(lanes, np.bool_)
        for _ in range(3 * limit + 3):
            # The action depends on the lane's history, so that all modes play the same.
            actions = [(lane * 7 + len(played[lane]) ** 2) % 4 for lane in range(lanes)]
            _, rewards, terminations, truncations, infos = envs.step(actions)
            for lane in np.flatnonzero(~waits):
                played[lane].append(
                    [float(rewards[lane])] + [infos[n][lane].tolist() for n in EXTRA]
                )
            ended = terminations | truncations
            waits = ended if autoreset == "next_step" else np.zeros(lanes, np.bool_)
            if autoreset == "disabled" and ended.any():
                envs.reset(options={"reset_mask": ended})
        told.append(played)
        envs.close()
    for ours, theirs in zip(*told, strict=True):
        assert len(ours) > 2 * limit
        assert theirs[: len(ours)] == ours


def test_a_step_that_only_starts_an_episode_has_neutral_extra_infos() -> None:
    envs = twofold.Game2048VectorEnv(
        3,
        max_episode_steps=1,
        reward={"survival": 1.0, "clip": (0.5, 2)},
        extra_infos=EXTRA,
        endpoint="embedded",
    )
    envs.reset(seed=0)
    *_, truncations, _ = envs.step([0, 1, 2])
    assert truncations.all()
    _, rewards, _, _, infos = envs.step([0, 1, 2])
    assert rewards.tolist() == [0, 0, 0]
    assert not infos["reward_terms"].any()
    assert not infos["merges"].any()
    assert not infos["afterstates"].any()
    assert (infos["chance"] == -1).all()
    envs.close()
