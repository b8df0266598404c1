"""Tests that the references agree with known answers, published numbers, and each other."""

import itertools
import json
import random
from collections import Counter
from typing import Any

import exact
import make_golden
import pytest
from reference import Game, Xoshiro128PlusPlus, slide, splitmix64

GOLDEN_FILES = sorted(make_golden.GOLDEN.glob("*.json"))


def test_splitmix64_reproduces_the_published_words() -> None:
    words = list(itertools.islice(splitmix64(1234567), 3))
    assert words == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_xoshiro128_reproduces_the_published_words() -> None:
    generator = Xoshiro128PlusPlus((1, 2, 3, 4))
    words = [generator.next_word() for _ in range(5)]
    assert words == [641, 1573767, 3222811527, 3517856514, 836907274]


@pytest.mark.parametrize(
    ("before", "after", "reward"),
    [
        ((0, 0, 0, 0), (0, 0, 0, 0), 0),
        ((0, 0, 0, 1), (1, 0, 0, 0), 0),
        ((1, 2, 1, 2), (1, 2, 1, 2), 0),
        ((1, 0, 0, 1), (2, 0, 0, 0), 4),
        ((1, 1, 1, 0), (2, 1, 0, 0), 4),  # the pair nearest the edge
        ((1, 1, 2, 0), (2, 2, 0, 0), 4),  # a merged tile does not merge again
        ((1, 1, 1, 1), (2, 2, 0, 0), 8),
        ((15, 15, 16, 16), (16, 17, 0, 0), 2**16 + 2**17),
        ((3, 3), (4, 0), 16),
        ((0, 1, 0, 1, 1, 0, 1, 5), (2, 2, 5, 0, 0, 0, 0, 0), 8),
    ],
)
def test_a_line_slides_to_its_edge(
    before: tuple[int, ...], after: tuple[int, ...], reward: int
) -> None:
    assert slide(before) == (after, reward)


def test_both_slides_agree_on_every_line_of_five() -> None:
    for line in itertools.product(range(6), repeat=5):
        text, reward = exact.slide("".join(".abcde"[tile] for tile in line))
        assert slide(line) == (tuple(".abcdef".index(cell) for cell in text), reward)


def test_actions_are_up_right_down_left() -> None:
    game = Game(0, rows=2, columns=3)
    game.board = (0, 1, 0, 0, 1, 2)
    assert [game.afterstate(action) for action in range(4)] == [
        ((0, 2, 2, 0, 0, 0), 4),
        ((0, 0, 1, 0, 1, 2), 0),
        ((0, 0, 0, 0, 2, 2), 4),
        ((1, 0, 0, 1, 2, 0), 0),
    ]


@pytest.mark.parametrize(
    ("probability", "threshold"),
    [
        (0.0, 0),
        (0.1, 429496730),
        (0.5, 2**31),
        (1.0, 2**32),
        (0.5 / 2**32, 1),  # halves are rounded away from zero
        (0.49999 / 2**32, 0),
        (2.5 / 2**32, 3),
    ],
)
def test_the_threshold_is_rounded_half_away_from_zero(probability: float, threshold: int) -> None:
    assert Game(0, four_probability=probability).threshold == threshold


def test_different_seeds_give_different_games() -> None:
    starts = {Game(seed, rows=8, columns=8, start_tiles=5).board for seed in range(1000)}
    assert len(starts) > 990


# ---- golden trajectories -------------------------------------------------------------------------


def test_golden_files_equal_the_references_results() -> None:
    files = make_golden.GOLDEN.rglob("*.json")
    written = {str(path.relative_to(make_golden.GOLDEN)): path.read_text() for path in files}
    assert written == dict(make_golden.files())


@pytest.mark.parametrize("path", GOLDEN_FILES, ids=lambda path: path.stem)
def test_golden_episodes_keep_the_invariants(path: Any) -> None:
    golden = json.loads(path.read_text())
    start_tiles = golden["config"]["start_tiles"]
    for lane in golden["lanes"]:
        steps = lane["steps"]
        for board, score, moves in zip(
            steps["observation"], steps["score"], steps["moves"], strict=True
        ):
            # Sum and score determine the number of 2s and 4s ever placed, and each move placed one.
            tile_sum = sum(2**k for k in board if k)
            fours, rest = divmod(sum((k - 1) * 2**k for k in board if k) - score, 4)
            twos = (tile_sum - 4 * fours) // 2
            assert rest == 0
            assert fours >= 0
            assert moves == twos + fours - start_tiles
        ended = [t or c for t, c in zip(steps["terminated"], steps["truncated"], strict=True)]
        mode = golden["config"].get("autoreset_mode", "next_step")
        if mode == "next_step":
            for before, length, reward, score in zip(
                [0, *ended], steps["episode_length"], steps["reward"], steps["score"], strict=False
            ):
                if before:  # the autoreset step
                    assert (length, reward, score) == (0, 0, 0)
        elif mode == "same_step":
            at = [step for step, is_end in enumerate(ended) if is_end]
            assert [final["step"] for final in lane["finals"]] == at
            assert all(steps["score"][step] == steps["episode_length"][step] == 0 for step in at)
        else:
            at = [step + 1 for step, is_end in enumerate(ended[:-1]) if is_end]
            assert [reset["step"] for reset in lane["resets"]] == at
            assert all(steps["episode_length"][step] == 1 for step in at)


def test_golden_files_cover_the_ends_of_episodes() -> None:
    ends = {mode: Counter[tuple[int, int]]() for mode in ("next_step", "same_step", "disabled")}
    for path in GOLDEN_FILES:
        golden = json.loads(path.read_text())
        counter = ends[golden["config"].get("autoreset_mode", "next_step")]
        for lane in golden["lanes"]:
            steps = lane["steps"]
            counter.update(zip(steps["terminated"], steps["truncated"], strict=True))
    for counter in ends.values():
        assert min(counter[1, 0], counter[0, 1], counter[1, 1]) >= 3
    assert sum(path.stat().st_size for path in GOLDEN_FILES) < 700_000


# ---- exact values --------------------------------------------------------------------------------


def test_2x2_has_its_known_number_of_states() -> None:
    solver = exact.Solver(2, 2)
    assert len(solver.boards()) == 662
    assert sum(not after for after in solver.after.values()) == 186


def test_2x2_uniform_play_has_its_known_values() -> None:
    assert exact.Solver(2, 2).solve() == pytest.approx(
        {
            "score": 19.65654018,
            "moves": 5.60072300,
            "tile_sum": 2.2 * 7.60072300,
            2: 1,
            4: 1,
            8: 0.655639,
            16: 0.121752664444,
            32: 0.000511052602,
        },
        rel=1e-9,
    )


def test_2x2_optimal_play_has_its_known_values() -> None:
    solver = exact.Solver(2, 2)
    assert solver.solve(best="score")["score"] == pytest.approx(66.96414946, abs=5e-9)
    assert solver.solve(best=8)[8] == pytest.approx(1)
    assert solver.solve(best=16)[16] == pytest.approx(0.9625112538, abs=5e-11)
    assert solver.solve(best=32)[32] == pytest.approx(0.0828872891, abs=5e-11)


@pytest.mark.parametrize(
    ("goal", "score", "moves"),
    [
        (8, 12.76844, 3.9267312222),
        (16, 18.9586074664, 5.3803728267),
        (32, 19.6538045257, 5.5998243713),
    ],
)
def test_2x2_with_a_goal_has_its_known_values(goal: int, score: float, moves: float) -> None:
    values = exact.Solver(2, 2, goal=goal).solve()
    assert (values["score"], values["moves"]) == pytest.approx((score, moves), abs=1e-9)


@pytest.mark.parametrize("best", [None, "score"])
def test_a_spawn_adds_2_2_to_the_sum_of_tiles_on_average(best: str | None) -> None:
    values = exact.Solver(2, 2).solve(best)
    assert values["tile_sum"] == pytest.approx(2.2 * (values["moves"] + 2))


def test_2x3_transposed_is_3x2() -> None:
    assert exact.Solver(2, 3, start_tiles=4, goal=8).solve() == pytest.approx(
        exact.Solver(3, 2, start_tiles=4, goal=8).solve()
    )


def test_the_references_mean_results_are_the_exact_values() -> None:
    rng, scores, moves, episodes = random.Random(0), [], [], 4000
    for seed in range(episodes):
        game = Game(seed, rows=2, columns=2)
        while not game.terminated:
            game.step(rng.choice(game.legal()))
        scores.append(game.score)
        moves.append(game.moves)
    assert abs(sum(scores) / episodes - 19.65654018) < 4 * 14.6 / episodes**0.5
    assert abs(sum(moves) / episodes - 5.60072300) < 4 * 2.6 / episodes**0.5
