"""The same program gives the same results in this process, over tcp, and with the plain rules.

Hypothesis writes programs: an environment with random arguments, then steps, resets, snapshots,
restores, forks and rollouts. Each program runs three times: in this process with the kernel, over
tcp with the other form of the kernel, and over tcp with the readable rules. Every byte must be the
same. The plain rules also play the first lanes of each batch. A failure prints the shortest
program found.
"""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest
from games import GAMES
from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from plain_lanes import PlainLane, Told, declaration
from reward_reference import EVENTS, POTENTIALS
from servers import Server

from twofold.envs.seeding import fork_seeds
from twofold.errors import FailedPrecondition, InvalidArgument, TwofoldError

STEPS = 10_000_000
"""The number of compared steps of the long test; a step of one lane counts once."""
PLAIN_LANES = 12
"""The number of lanes that the plain rules play: the first lanes."""
MAX_LANES = 300

# ---- programs ------------------------------------------------------------------------------------

SEEDS = st.integers(0, 2**64 - 1)
EVERY = st.integers(1, 4)
SIDES = st.integers(2, 4)
WEIGHTS = st.sampled_from([1.0, -0.1, 3.7, 0.0])


def arguments(**values: Any) -> Any:
    """Draws some of these arguments, and some of the arguments that all games have."""
    values |= {
        "autoreset_mode": st.sampled_from(["same_step", "disabled"]),
        "max_episode_steps": st.integers(1, 60),
    }
    drawn = st.fixed_dictionaries({name: st.none() | value for name, value in values.items()})
    return drawn.map(
        lambda each: {name: value for name, value in each.items() if value is not None}
    )


def infos(*names: str) -> Any:
    names = (*names, "episode_return")
    return st.lists(st.sampled_from(names), unique=True, min_size=1)


def terms(*names: str) -> Any:
    return st.lists(st.tuples(st.sampled_from(sorted(names)), WEIGHTS), min_size=1, max_size=5)


GAME_2048 = arguments(
    size=st.tuples(SIDES, SIDES) | st.sampled_from([(2, 5), (5, 3), (8, 8)]),
    goal=st.sampled_from([4, 8, 16, 32, 64, 128]),
    stop_at_goal=st.just(True),
    four_probability=st.sampled_from([0.0, 0.5, 1.0]),
    start_tiles=st.sampled_from([1, 3]),
    illegal_action=st.just("terminate"),
    reward=terms(*EVENTS, *POTENTIALS),
    extra_infos=infos("reward_terms", "merges", "chance", "afterstates"),
)
DIALECTS = arguments(
    dialect=st.sampled_from(["pgx", "jumanji", "envpool"]),
    goal=st.sampled_from([4, 16, 64]),
    extra_infos=infos("merges", "chance", "afterstates"),
)
DECKS = [
    {"size": size, "symbols": symbols}
    for size in [(2, 2), (1, 2), (2, 3), (2, 4), (3, 4), (4, 4), (4, 13), (8, 16)]
    for symbols in range(size[0] * size[1] // 2, 0, -1)
    if size[0] * size[1] % (2 * symbols) == 0
]
CONCENTRATION = arguments(
    peeks=st.sampled_from([0, 1, 2]),
    matched_cards=st.just("face_up"),
    illegal_action=st.sampled_from(["end_turn", "terminate"]),
    observe_last_action=st.just(True),
    deck_info=st.just(True),
    reward=terms("match", "mismatch", "face_up_touch", "cleared", "peek", "survival"),
    extra_infos=infos("reward_terms", "flips"),
)
ENVIRONMENTS = st.one_of(
    st.tuples(st.just("Game2048"), GAME_2048),
    st.tuples(
        st.just("Concentration"), st.builds(dict.__or__, st.sampled_from(DECKS), CONCENTRATION)
    ),
    st.tuples(st.just("Game2048"), DIALECTS),
)

# ---- three services ------------------------------------------------------------------------------

Results = dict[str, Any]


class Services:
    """The same batch in several services. All services must return the same results."""

    def __init__(self, batches: dict[str, Any]) -> None:
        self.batches = batches

    def call(self, method: str, *args: Any, **keywords: Any) -> Results:
        """Returns the results by name; the result of a refused call is its error."""
        told = {
            service: outcome(envs, method, args, keywords) for service, envs in self.batches.items()
        }
        first, *others = told
        for other in others:
            assert told[first].keys() == told[other].keys()
            for name, value in told[first].items():
                if not is_same(value, told[other][name]):
                    raise AssertionError(
                        f"{name} differs: {difference(first, value, other, told[other][name])}"
                    )
        results: Results = told[first]
        return results

    def fork(self, lanes: Any, copies: int, **keywords: Any) -> None:
        """Replaces each batch with a fork of some of its lanes."""
        for service, envs in list(self.batches.items()):
            self.batches[service] = envs.fork(lanes, copies, **keywords)
            envs.close()

    def close(self) -> None:
        for envs in self.batches.values():
            envs.close()


def outcome(envs: Any, method: str, args: Any, keywords: Any) -> Results:
    try:
        return named(getattr(envs, method)(*args, **keywords))
    except TwofoldError as error:
        where = getattr(error, "field", None), getattr(error, "lane", None)
        return {"error": type(error).__name__, "field": where[0], "lane": where[1]}


def named(results: Any) -> Results:
    """Returns a call's results by name; for ended episodes, only the valid rows."""
    if isinstance(results, bytes):
        return {"snapshot": results}
    if dataclasses.is_dataclass(results):
        fields = [field.name for field in dataclasses.fields(results)]
        told: Results = {name: getattr(results, name) for name in fields}
        extras, finals = told.pop("infos"), told.pop("finals", None)
        ends = {} if finals is None else named(finals)
        told |= extras
        return told | {f"final {name}": value for name, value in ends.items()}
    if len(results) == 3:
        return dict(zip(("boards", "rewards", "mask"), results, strict=True))
    observations, *arrays, extras = results
    told = dict(zip(("reward", "terminated", "truncated"), arrays, strict=False))
    told |= extras | {"observation": observations}
    if "final_obs" in told:
        ended = told["_final_obs"]
        told["final observation"] = np.stack(list(told.pop("final_obs")[ended]))
        for name, value in told.pop("final_info").items():
            told[f"final {name}"] = value[ended]
    return told


def is_same(one: Any, other: Any) -> bool:
    if not isinstance(one, np.ndarray):
        return bool(one == other)
    kinds = (one.dtype, one.shape), (other.dtype, other.shape)
    return kinds[0] == kinds[1] and one.tobytes() == other.tobytes()


def difference(first: str, one: Any, other: str, two: Any) -> str:
    """Describes two values, or the first rows in which two arrays differ."""
    where = ""
    if isinstance(one, np.ndarray) and one.shape == two.shape and one.dtype == two.dtype:
        rows = [row for row in range(len(one)) if not is_same(one[row], two[row])]
        one, two, where = one[rows[0]].tolist(), two[rows[0]].tolist(), f" in row {rows[0]}"
    return f"{first} has {one!r}, {other} {two!r}{where}"


# ---- programs that run ---------------------------------------------------------------------------


class Program(RuleBasedStateMachine):
    """One program, and the state of its boards.

    A rule with `every` applies to the lanes 0, every, 2 * every, ...
    """

    endpoints: ClassVar[dict[str, str]] = {}
    steps: ClassVar[int] = 0
    plain_steps: ClassVar[int] = 0
    snapshots: Bundle[Any] = Bundle("snapshots")

    @initialize(environment=ENVIRONMENTS, num_envs=st.integers(1, MAX_LANES), seed=SEEDS)
    def make(self, environment: tuple[str, dict[str, Any]], num_envs: int, seed: int) -> None:
        self.game, given = environment
        self.arguments = dict(given)
        rows, columns = given.get("size", (4, 4))
        self.cells = rows * columns
        if "reward" in given:
            self.arguments["reward"] = declaration(self.game, given["reward"], self.cells)
        make: Any = GAMES[self.game]
        self.services = Services(
            {
                service: make(num_envs, endpoint=endpoint, **self.arguments)
                for service, endpoint in self.endpoints.items()
            }
        )
        self.count(num_envs)
        self.plain = {
            lane: PlainLane(self.game, self.arguments, (seed + lane) % 2**64)
            for lane in range(min(num_envs, PLAIN_LANES))
        }
        self.check(self.services.call("reset", seed=seed))

    def count(self, num_envs: int) -> None:
        """Sets the number of boards, and marks all boards as in play."""
        self.num_envs = num_envs
        [envs, *_] = self.services.batches.values()
        self.num_actions = envs.num_actions
        self.is_disabled = self.arguments.get("autoreset_mode") == "disabled"
        self.over = np.zeros(num_envs, np.bool_)

    def lanes(self, every: int) -> list[int]:
        return list(range(0, self.num_envs, every))

    def check(self, results: Results, expected: dict[int, Told] | None = None) -> None:
        """Compares results with the plain rules: the boards' state, or a step's results."""
        assert "error" not in results, results
        if expected is None:
            expected = {lane: plain.told() for lane, plain in self.plain.items()}
        for lane, values in expected.items():
            for name, value in values.items():
                if (
                    name in results
                    and results[name][lane].ravel().tolist() != np.ravel(value).tolist()
                ):
                    raise AssertionError(
                        f"{name} of lane {lane} differs: the services have "
                        f"{results[name][lane].tolist()!r}, the plain rules {value!r}"
                    )

    @rule(actions=st.lists(st.integers(0, 128), min_size=1, max_size=12), times=st.integers(1, 12))
    def play(self, actions: list[int], times: int) -> None:
        """Plays steps. In round r, lane i adds r + i to each action, modulo `num_actions`."""
        lanes = np.arange(self.num_envs)
        for turn, action in itertools.product(range(times), actions):
            self.step((action + turn + lanes) % self.num_actions)

    def step(self, actions: Any) -> None:
        if self.is_disabled and self.over.any():
            refusal = self.services.call("step", actions)
            lane = int(self.over.argmax())
            assert refusal == {
                "error": FailedPrecondition.__name__,
                "field": "actions",
                "lane": lane,
            }
            self.restart(self.over.copy(), None)
        results = self.services.call("step", actions)
        Program.steps += self.num_envs
        Program.plain_steps += len(self.plain)
        self.over = results["terminated"] | results["truncated"]
        expected = {}
        for lane, plain in self.plain.items():
            expected[lane], final = plain.step(int(actions[lane]))
            has_final = "_final_obs" in results and bool(results["_final_obs"][lane])
            assert has_final == (final is not None), f"final_obs of lane {lane}"
            if final is not None:
                row = int(np.count_nonzero(results["_final_obs"][:lane]))
                self.check(
                    {
                        name.removeprefix("final "): value[[row] * (lane + 1)]
                        for name, value in results.items()
                        if name.startswith("final ")
                    },
                    {lane: final},
                )
        self.check(results, expected)

    @rule(every=EVERY, seed=st.none() | SEEDS)
    def reset(self, every: int, seed: int | None) -> None:
        self.restart(np.isin(np.arange(self.num_envs), self.lanes(every)), seed)

    def restart(self, mask: Any, seed: int | None, boards: Any = None) -> Results:
        options = {"reset_mask": mask} | ({} if boards is None else {"boards": boards})
        results = self.services.call("reset", seed=seed, options=options)
        if "error" in results:
            return results
        self.over &= ~mask
        for lane in np.flatnonzero(mask).tolist():
            own = None if seed is None else (seed + lane) % 2**64
            if lane < PLAIN_LANES and own is not None:
                self.plain[lane] = PlainLane(self.game, self.arguments, own)
            if lane in self.plain:
                board = None if boards is None else boards[lane].ravel().tolist()
                self.plain[lane].start(own, board)
        self.check(results)
        return results

    @rule(
        every=EVERY,
        tiles=st.lists(st.integers(0, 17), min_size=1, max_size=8),
        seed=st.none() | SEEDS,
    )
    def place(self, every: int, tiles: list[int], seed: int | None) -> None:
        """Resets to boards made from `tiles`.

        Cell c of lane i gets tiles[(c + i) % len(tiles)]. In Concentration, lane i's sorted deck
        begins with the card tiles[0] + i.
        """
        shape = self.arguments.get("size", (4, 4))
        lanes, cells = np.ogrid[: self.num_envs, : self.cells]
        if self.game == "Game2048":
            boards = np.array(tiles, np.uint8)[(lanes + cells) % len(tiles)]
        else:
            cards = (tiles[0] + lanes + cells) % self.cells
            boards = (cards * self.arguments["symbols"] // self.cells).astype(np.uint8)
        mask = np.isin(np.arange(self.num_envs), self.lanes(every))
        results = self.restart(mask, seed, boards.reshape(self.num_envs, *shape))
        if self.game == "Game2048":
            stuck = [
                lane for lane in self.plain if mask[lane] and not can_move(boards[lane], shape)
            ]
            assert not stuck or results.get("error") == InvalidArgument.__name__

    @rule(target=snapshots, every=EVERY)
    def snapshot(self, every: int) -> Any:
        lanes = self.lanes(every)
        blob = self.services.call("snapshot", lanes)["snapshot"]
        saved = {
            row: self.plain[lane].copy() for row, lane in enumerate(lanes) if lane in self.plain
        }
        return blob, len(lanes), saved, self.over[lanes]

    @rule(snapshot=snapshots, every=EVERY, shift=st.integers(0, 3), seed=st.none() | SEEDS)
    def restore(self, snapshot: Any, every: int, shift: int, seed: int | None) -> None:
        """Restores row i + shift, modulo the number of rows, to the i-th selected lane."""
        blob, count, saved, over = snapshot
        lanes = self.lanes(every)
        rows = [(i + shift) % count for i in range(len(lanes))]
        results = self.services.call("restore", blob, lanes, rows=rows, seed=seed)
        self.over[lanes] = over[rows]
        for i, (lane, row) in enumerate(zip(lanes, rows, strict=True)):
            self.plain.pop(lane, None)
            if row in saved:
                own = None if seed is None else (seed + i) % 2**64
                self.plain[lane] = saved[row].copy(own)
        self.check(results)

    @rule(every=EVERY, copies=st.integers(1, 3), seed=st.none() | SEEDS)
    def fork(self, every: int, copies: int, seed: int | None) -> None:
        """Replaces the batch with a fork, with the same streams if there is no seed."""
        lanes = self.lanes(every)
        copies = min(copies, max(1, MAX_LANES // len(lanes)))
        parents = [lane for lane in lanes for _ in range(copies)]
        is_fresh = seed is not None and self.game == "Game2048"
        how = {"spawns": "fresh", "seed": seed} if is_fresh else {"spawns": "same"}
        self.services.fork(lanes, copies, **how)
        plain = {
            lane: self.plain[parent].copy(fork_seed(seed, lane, self.plain[parent], is_fresh))
            for lane, parent in enumerate(parents)
            if parent in self.plain
        }
        over = self.over[parents]
        self.count(len(parents))
        self.plain, self.over = plain, over
        self.check(self.services.call("observe"))

    @rule(steps=st.integers(1, 40))
    def rollout(self, steps: int) -> None:
        """Plays random legal actions, which the services choose."""
        played = self.services.call("rollout", steps, "random")
        Program.steps += steps * self.num_envs
        Program.plain_steps += steps * len(self.plain)
        names = {
            "observations": "observation",
            "action_masks": "action_mask",
            "rewards": "reward",
            "terminations": "terminated",
            "truncations": "truncated",
        }
        for step, lane in itertools.product(range(steps), self.plain):
            plain = self.plain[lane]
            if self.is_disabled and plain.is_over:
                assert not played["valid"][step, lane]
                continue
            expected, _ = plain.step(int(played["actions"][step, lane]))
            rows = {
                name: played[array][step + (len(played[array]) > steps)]
                for array, name in names.items()
            }
            self.check(rows, {lane: expected})
        valid = played["valid"]
        ended = played["terminations"] | played["truncations"]
        self.over = (self.over | ended.any(axis=0)) if self.is_disabled else ended[-1]
        assert valid.shape == ended.shape
        self.check(self.services.call("observe"))

    @precondition(lambda self: self.game == "Game2048")
    @rule()
    def afterstates(self) -> None:
        self.services.call("afterstates")

    @rule()
    def observe(self) -> None:
        self.check(self.services.call("observe"))

    def teardown(self) -> None:
        if hasattr(self, "services"):
            self.services.close()


def can_move(board: Any, shape: tuple[int, int]) -> bool:
    lane = PlainLane("Game2048", {"size": shape}, 0)
    lane.start(board=board.ravel().tolist())
    return any(lane.told()["action_mask"])


def fork_seed(seed: int | None, lane: int, parent: PlainLane, is_fresh: bool) -> int | None:
    """Returns the seed for a copy with fresh spawns; None for other copies."""
    if not is_fresh or seed is None:
        return None
    own = np.array([(seed + lane) % 2**64], np.uint64)
    return int(fork_seeds(own, np.array([parent.generator], np.uint64))[0])


def run(number: int, programs: int, length: int, endpoints: dict[str, str]) -> None:
    """Runs some programs. `number` is their seed."""
    Program.endpoints = endpoints

    @with_seed(number)
    class Games(Program):
        pass

    run_state_machine_as_test(
        Games,
        settings=settings(
            max_examples=programs,
            stateful_step_count=length,
            database=None,
            derandomize=False,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.fixture(scope="module")
def endpoints(server: Server) -> Iterator[dict[str, str]]:
    """The services, by name."""
    with (
        Server(TWOFOLD_ENGINE="reference") as readable,
        Server(TWOFOLD_ENGINE="baseline") as other,
    ):
        yield {
            "this process": "embedded",
            "the server": other.tcp,
            "the server with the readable rules": readable.tcp,
        }


def test_random_programs_give_the_same_results_everywhere(endpoints: dict[str, str]) -> None:
    run(0, programs=12, length=10, endpoints=endpoints)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_ten_million_steps_are_the_same_everywhere(endpoints: dict[str, str]) -> None:
    Program.steps = Program.plain_steps = 0
    for number in itertools.count(1):
        run(number, programs=20, length=30, endpoints=endpoints)
        print(f"\r{Program.steps:,} steps, {Program.plain_steps:,} by the plain rules", end="")
        if Program.steps >= STEPS:
            break
