"""Ray's workers produce the same games and files as one process, even if a worker is lost."""

import contextlib
import dataclasses
import importlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loops import interrupt_when
from raw import statistics_of
from servers import Server, is_running, wait_until

import twofold
from twofold import errors
from twofold.datasets import file_format

pytest.importorskip("ray", reason="`make trainers` has it")

import ray
from ray_calls import evaluate, write_dataset

from twofold.integrations import ray as on_ray

# A cluster assumes that it has all of the machine's CPUs and memory.

FIRST_SEED = 2**63
CONCENTRATION = "twofold/Concentration-v0"
FIELDS = ("seeds", "scores", "moves", "lengths", "max_exponents")


@pytest.fixture(scope="module", autouse=True)
def _ray() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    # The workers can't import this module, so it is pickled by value.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    ray.shutdown()


def last_legal(observations: Any, action_mask: Any) -> Any:
    return action_mask.shape[1] - 1 - action_mask[:, ::-1].argmax(axis=1)


def worst(observations: Any, action_mask: Any) -> Any:
    return action_mask.argmin(axis=1)


class Counting:
    """A policy that takes the next legal action in each step of a game, and counts the steps."""

    def __init__(self) -> None:
        self.steps = np.zeros(0, np.int64)

    def reset(self, lanes: Any) -> None:
        if self.steps.size != len(lanes):
            self.steps = np.zeros(len(lanes), np.int64)
        self.steps[lanes] = 0

    def __call__(self, observations: Any, action_mask: Any) -> Any:
        self.steps += 1
        turned = (np.arange(4) + self.steps[:, np.newaxis]) % 4
        first = np.take_along_axis(action_mask, turned, axis=1).argmax(axis=1)
        return turned[np.arange(len(first)), first]


class Dying:
    """A policy that plays the last legal action, and ends its process at a given call.

    Args:
        folder: The folder for the file `begun`, with a line for each copy that plays.
        call: The number of the call that ends the process.
        always: Whether all copies end their processes, and not only the first to reach the call.
    """

    def __init__(self, folder: Path, call: int, always: bool = False) -> None:
        self.folder, self.call, self.always = folder, call, always
        self.calls = 0

    def __call__(self, observations: Any, action_mask: Any) -> Any:
        if not self.calls:
            with open(self.folder / "begun", "a") as file:
                file.write(f"{os.getpid()}\n")
        self.calls += 1
        if self.calls == self.call:
            with contextlib.suppress(FileExistsError):
                (self.folder / "died").touch(exist_ok=self.always)
                os._exit(1)
        return last_legal(observations, action_mask)


def assert_same(ours: twofold.Evaluation, alone: twofold.Evaluation) -> None:
    for name in FIELDS:
        mine, other = getattr(ours, name), getattr(alone, name)
        assert (mine is None) == (other is None)
        if other is not None:
            assert mine.dtype == other.dtype
            np.testing.assert_array_equal(mine, other, err_msg=name)
    assert ours.policy == alone.policy
    differing = ("boards at once", "seeds")
    assert ours.card.keys() == alone.card.keys()
    for key in ours.card.keys() - differing:
        assert ours.card[key] == alone.card[key]


def sessions(server: Server) -> list[int]:
    """Returns the numbers of sessions that a server has made and closed."""
    counters = statistics_of(server.ipc).counters
    return [counters.sessions_created, counters.sessions_closed]


# ---- evaluations ---------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [None, 3])
@pytest.mark.parametrize(
    ("policy", "env"),
    [
        ("random", "twofold/Game2048-v0"),
        (twofold.policies.Expectimax(1, 0), "twofold/Game2048-v0"),
        (last_legal, "twofold/Game2048-v0"),
        (Counting(), "twofold/Game2048-v0"),
        (last_legal, CONCENTRATION),
        ("perfect-memory", CONCENTRATION),
    ],
    ids=lambda value: str(value).split(" at ")[0],
)
def test_games_equal_the_games_of_one_process(policy: Any, env: str, workers: int | None) -> None:
    arguments: dict[str, Any] = {"env": env, "episodes": 50, "first_seed": FIRST_SEED + 9}
    if env == "twofold/Game2048-v0":
        arguments["size"] = 4 if isinstance(policy, twofold.policies.Expectimax) else (3, 4)
    else:
        arguments["max_episode_steps"] = 300
    ours = evaluate(policy, workers=workers, **arguments)
    assert_same(ours, twofold.evaluate(policy, **arguments))


def test_more_parts_than_workers_are_joined_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(on_ray, "_MAX_EPISODES", 9)
    done: list[tuple[int, int, int]] = []
    start = time.perf_counter()
    ours = evaluate(
        "greedy", episodes=100, workers=2, num_envs=4, progress=lambda *each: done.append(each)
    )
    assert 0 < ours.seconds < time.perf_counter() - start
    alone = twofold.evaluate("greedy", episodes=100)
    assert_same(ours, alone)
    assert ours.card["boards at once"] == 4
    assert len(done) == 12
    assert done == sorted(done)
    assert done[-1] == (100, 100, int(alone.lengths.sum()))
    assert ours.summary["first_seed"] == FIRST_SEED


def test_the_cluster_has_a_worker_per_cpu_and_a_worker_a_thread_per_assigned_cpu(
    tmp_path: Path,
) -> None:
    def policy(observations: Any, action_mask: Any) -> Any:
        (tmp_path / f"{os.getpid()} has {os.environ['TWOFOLD_THREADS']}").touch()
        return last_legal(observations, action_mask)

    evaluate(policy, episodes=20, size=2)
    assert [path.name.split()[-1] for path in tmp_path.iterdir()] == ["1", "1"]
    evaluate(policy, episodes=20, size=2, workers=1, ray_options={"num_cpus": 2})
    assert sorted(path.name.split()[-1] for path in tmp_path.iterdir()) == ["1", "1", "2"]


def test_recorded_games_are_the_same(tmp_path: Path) -> None:
    ours = evaluate("greedy", episodes=30, workers=3, record=True)
    assert ours.card["boards at once"] == 10
    alone = twofold.evaluate("greedy", episodes=30, record=True)
    for which in ("best", "worst", 0, 17, 29):
        ours.recording(which).save(tmp_path / "ours")
        alone.recording(which).save(tmp_path / "alone")
        assert (tmp_path / "ours").read_bytes() == (tmp_path / "alone").read_bytes()


def test_the_failures_of_a_program_are_the_same_as_in_one_process() -> None:
    source = (
        "import random\n"
        "def strategy(board):\n"
        "    if random.random() < 0.02:\n"
        "        raise ValueError(len(board))\n"
        "    return random.choice(['up', 'right', 'down', 'left'])\n"
    )
    program = twofold.policies.Strategy(source, unsafe=True)
    with pytest.warns(RuntimeWarning, match="without a sandbox"):
        alone = twofold.evaluate(program, episodes=8)
    ours = evaluate(program, episodes=8, secret=alone.secret, workers=3)
    assert_same(ours, alone)
    assert ours.failures
    assert alone.failures is not None
    places = [
        [(f.episode, f.seed, f.step, f.reason) for f in each.failures or ()]
        for each in (ours, alone)
    ]
    assert places[0] == places[1]
    assert ours.summary["failures"] == alone.summary["failures"]


def test_a_policy_that_writes_to_its_arrays_can_be_sent() -> None:
    policy = Counting()
    policy.reset(np.ones(25, np.bool_))
    ours = evaluate(policy, episodes=50, workers=2, num_envs=25)
    assert_same(ours, twofold.evaluate(Counting(), episodes=50))


def test_a_runtime_env_may_let_workers_find_the_module_of_a_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "brought.py").write_text("def first(boards, mask):\n    return mask.argmax(1)\n")
    monkeypatch.syspath_prepend(tmp_path)
    policy = importlib.import_module("brought").first
    with pytest.raises(errors.InvalidArgument, match=r"No module named 'brought'; .*runtime_env"):
        evaluate(policy, episodes=10, workers=1)
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    options = {"runtime_env": {"env_vars": {"PYTHONPATH": path}}}
    ours = evaluate(policy, episodes=10, workers=1, ray_options=options)
    assert_same(ours, twofold.evaluate(policy, episodes=10))


def test_workers_play_on_a_server_and_end_their_sessions(
    own_server: Server, tmp_path: Path
) -> None:
    ours = evaluate("random", episodes=40, workers=2, endpoint=own_server.tcp)
    assert_same(ours, twofold.evaluate("random", episodes=40, endpoint=own_server.tcp))
    arguments: dict[str, Any] = {"transitions": 500, "num_envs": 5, "endpoint": own_server.tcp}
    write_dataset(tmp_path / "data.parquet", workers=3, **arguments)
    with pytest.raises(errors.PolicyError):
        write_dataset(tmp_path / "data.parquet", worst, workers=2, **arguments)
    assert sessions(own_server) == [2 + 1 + 3 + 2] * 2


def test_a_lost_worker_plays_its_part_again_once(tmp_path: Path) -> None:
    policy = Dying(tmp_path, call=40)
    ours = evaluate(policy, episodes=60, workers=2)
    assert (tmp_path / "died").exists()
    assert len((tmp_path / "begun").read_text().split()) == 3
    assert_same(ours, twofold.evaluate(policy, episodes=60))


def test_a_part_that_is_lost_repeatedly_is_abandoned(tmp_path: Path) -> None:
    policy = Dying(tmp_path, call=3, always=True)
    with pytest.raises(errors.TransportError, match=r"Ray lost episodes 0 \.\.\. 9:"):
        evaluate(policy, episodes=10, workers=1, ray_options={"max_task_retries": 1})
    assert len((tmp_path / "begun").read_text().split()) == 2


def test_an_error_of_the_policy_is_raised_with_the_counts_of_one_process() -> None:
    def fails_late(observations: Any, action_mask: Any) -> Any:
        if len(action_mask) < 5:
            return worst(observations, action_mask)
        return last_legal(observations, action_mask)

    with pytest.raises(errors.PolicyError) as info:
        evaluate(fails_late, episodes=30, workers=3, first_seed=FIRST_SEED + 100, num_envs=10)
    error = info.value
    assert type(error) is errors.PolicyError
    assert error.policy == "fails_late"
    assert error.episode is not None
    assert error.seed == FIRST_SEED + 100 + error.episode
    assert f"(episode {error.episode}, seed {error.seed}, " in str(error)
    with pytest.raises(errors.PolicyError, match=f"seed {error.seed}"):
        twofold.evaluate(worst, episodes=1, first_seed=error.seed)


def test_an_exception_contains_the_finished_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_ray, "_MAX_EPISODES", 9)
    given: dict[str, Any] = {"episodes": 100, "size": 2, "num_envs": 9}
    seen: set[int] = set()

    def stops(games: int, *_: int) -> None:
        seen.add(games)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as info:
        evaluate("fixed-order", workers=2, progress=stops, **given)
    part = vars(info.value)["evaluation"]
    assert part.episodes == max(seen) < 100
    assert part.card["ended early"].startswith(f"{part.episodes} of 100 games finished")
    whole = twofold.evaluate("fixed-order", **given)
    chosen = np.isin(whole.seeds, part.seeds)
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[chosen])


def test_an_interrupt_remains_one_if_the_machines_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    part = twofold.evaluate("fixed-order", episodes=2, size=2)
    other = dataclasses.replace(part, card={**part.card, "python": "2.7"})

    def interrupted(*_: Any) -> Iterator[tuple[int, Any]]:
        yield from enumerate((part, other))
        raise KeyboardInterrupt

    monkeypatch.setattr(on_ray, "_each", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evaluate("fixed-order", episodes=6, size=2, workers=1)


def test_an_interrupt_ends_workers_in_a_policy_that_never_returns(tmp_path: Path) -> None:
    def waits(observations: Any, action_mask: Any) -> Any:
        (tmp_path / str(os.getpid())).touch()
        while True:
            time.sleep(0.1)

    interrupt_when(lambda: len(list(tmp_path.glob("[0-9]*"))) == 2)
    with pytest.raises(KeyboardInterrupt):
        evaluate(waits, episodes=10, workers=2)
    wait_until(lambda: not any(is_running(int(path.name)) for path in tmp_path.iterdir()))


@pytest.mark.parametrize("what", ["games", "dataset"])
def test_an_interrupt_ends_the_sessions_on_a_server(
    what: str, own_server: Server, tmp_path: Path
) -> None:
    def slow(observations: Any, action_mask: Any) -> Any:
        (tmp_path / str(os.getpid())).touch()
        time.sleep(0.01)
        return last_legal(observations, action_mask)

    def play(**arguments: Any) -> None:
        if what == "games":
            evaluate(slow, episodes=10**6, **arguments)
        else:
            (tmp_path / "data").mkdir()
            write_dataset(tmp_path / "data" / "a", slow, transitions=10**7, **arguments)

    interrupt_when(lambda: len(list(tmp_path.glob("[0-9]*"))) == 2)
    with pytest.raises(KeyboardInterrupt):
        play(workers=2, num_envs=20, endpoint=own_server.tcp)
    assert sessions(own_server) == [2, 2]


# ---- datasets ------------------------------------------------------------------------------------


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_format, "GROUP_ROWS", 512)


def assert_same_file(folder: Path, policy: Any, workers: int | None, **arguments: Any) -> None:
    alone, ours = folder / "alone.parquet", folder / "ours.parquet"
    given = {"transitions": 3000, "num_envs": 8, "seed": 3, **arguments}
    written = write_dataset(ours, policy, workers=workers, **given)
    assert written == twofold.datasets.write(alone, policy, **given)
    assert ours.read_bytes() == alone.read_bytes()
    assert twofold.datasets.verify(ours)["transitions"] == written
    assert {path.suffix for path in folder.iterdir()} <= {".parquet", ""}


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize(
    ("num_envs", "workers"), [(8, None), (8, 1), (8, 2), (7, 3), (2, 5), (1, 2), (300, 2)]
)
def test_a_file_equals_the_file_of_one_process(
    num_envs: int, workers: int | None, tmp_path: Path
) -> None:
    assert_same_file(tmp_path, "random", workers, num_envs=num_envs)


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize(
    ("policy", "arguments"),
    [
        ("greedy", {"dialect": "pgx", "max_episode_steps": 50}),
        (last_legal, {"size": (2, 3), "reward": {"merge_exponent": 0.1}}),
        (Counting(), {"size": 2}),
        ("random", {"seed": 2**64 - 3}),
    ],
    ids=["served", "function", "memory", "seed"],
)
def test_policies_and_arguments_write_the_same_file_as_one_process(
    policy: Any, arguments: dict[str, Any], tmp_path: Path
) -> None:
    assert_same_file(tmp_path, policy, 3, **arguments)


@pytest.mark.usefixtures("small_groups")
def test_a_lost_worker_plays_its_lanes_again_once(tmp_path: Path) -> None:
    policy = Dying(tmp_path, call=200)
    done: list[tuple[int, int]] = []
    assert_same_file(tmp_path, policy, 2, progress=lambda *each: done.append(each))
    assert (tmp_path / "died").exists()
    # Two workers, the restarted worker, and the single process.
    assert len((tmp_path / "begun").read_text().split()) == 4
    half = len(done) // 2
    assert done[:half] == done[half:]


def test_lanes_that_are_lost_repeatedly_are_abandoned(tmp_path: Path) -> None:
    policy = Dying(tmp_path, call=3, always=True)
    with pytest.raises(errors.TransportError, match=r"Ray lost lanes 0 \.\.\. 3:"):
        write_dataset(tmp_path / "a", policy, transitions=100, num_envs=4, workers=1)
    assert len((tmp_path / "begun").read_text().split()) == 4  # repeated at most three times
    assert not (tmp_path / "a").exists()


def test_an_illegal_action_is_reported_with_its_lane_in_the_whole_batch(tmp_path: Path) -> None:
    class WorstOfTwo(Counting):
        def __call__(self, observations: Any, action_mask: Any) -> Any:
            # This policy has a memory, so it always gets all lanes of its worker.
            if len(action_mask) == 2:
                return worst(observations, action_mask)
            return super().__call__(observations, action_mask)

    with pytest.raises(errors.PolicyError, match=r"in row [01] \(lane [34], step \d+\)"):
        write_dataset(tmp_path / "a", WorstOfTwo(), transitions=1000, num_envs=5, seed=1, workers=2)
    assert list(tmp_path.iterdir()) == []


def test_workers_with_different_versions_write_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Player(on_ray._Player):
        def metadata(self, packed: list[Any], numbers: range) -> dict[str, Any]:
            return {**super().metadata(packed, numbers), "version": str(numbers)}

    monkeypatch.setattr(on_ray, "_Player", Player)
    with pytest.raises(errors.FailedPrecondition, match="install the same version on all of them"):
        write_dataset(tmp_path / "a", transitions=100, num_envs=4, workers=2)
    assert list(tmp_path.iterdir()) == []


# ---- arguments -----------------------------------------------------------------------------------


class NotSent:
    def __call__(self, observations: Any, action_mask: Any) -> Any: ...

    def __reduce__(self) -> Any:
        raise RuntimeError("a file is open")


class NotReceived(NotSent):
    def __reduce__(self) -> Any:
        return int, ("seven",)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"workers": 0}, "workers"),
        ({"workers": 2.5}, "workers"),
        ({"policy": "clever"}, "policy"),
        ({"policy": NotSent()}, "policy"),
        ({"policy": NotReceived()}, "policy"),
        ({"size": 99}, "size"),
        ({"num_envs": 0}, "num_envs"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], field: str, tmp_path: Path) -> None:
    given = {"workers": 2, "policy": "random", **arguments}
    policy = given.pop("policy")
    with pytest.raises(errors.InvalidArgument) as info:
        evaluate(policy, episodes=10, **given)
    assert info.value.field == field
    with pytest.raises(errors.InvalidArgument) as info:
        write_dataset(tmp_path / "a", policy, transitions=10, **given)
    assert info.value.field == field


def test_a_chat_model_is_refused() -> None:
    model = twofold.policies.ChatModel("http://127.0.0.1:9/v1", "a")
    with pytest.raises(errors.InvalidArgument, match="waits for its endpoint") as info:
        evaluate(model, workers=2)
    assert info.value.field == "policy"


def test_an_open_environment_is_refused() -> None:
    envs: Any = twofold.Game2048VectorEnv(2)
    with pytest.raises(errors.InvalidArgument) as info:
        evaluate("random", env=envs)
    assert info.value.field == "env"
    envs.close()
