"""The service in this process: its use by default, its messages, threads and forks."""

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import zmq
from loops import actions, hurried, interrupt_when, make, number
from servers import PATIENCE

import twofold
from twofold import rules
from twofold.client import embedded, lookup
from twofold.client.embedded import EmbeddedCarrier
from twofold.client.lookup import find_library, find_program

ID = "twofold/Game2048-v0"


def run(code: str, **variables: str) -> tuple[str, str]:
    """Runs a script in a separate process. Returns its standard output and standard error."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("TWOFOLD_")} | variables
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    head = "import os, sys, warnings, numpy as np, gymnasium as gym, twofold\n"
    ran = subprocess.run(
        [sys.executable, "-c", head + code],
        capture_output=True,
        text=True,
        env=environ | {"PYTHONPATH": path},
        timeout=PATIENCE,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout, ran.stderr


# ---- where it is the default ---------------------------------------------------------------------


def test_without_an_endpoint_the_service_is_in_this_process() -> None:
    for made in (gym.make_vec(ID, num_envs=2), gym.make(ID)):
        base: Any = made.unwrapped
        assert isinstance(base._session.link.carrier, EmbeddedCarrier)
        made.close()


def test_without_a_library_a_private_server_is_used_with_one_warning() -> None:
    output, errors = run(
        "from twofold.client import lookup; lookup._candidates = lambda name: []\n"
        "envs = [twofold.Game2048VectorEnv(2) for _ in range(2)]\n"
        "envs[0].reset(seed=0); envs[0].step([0, 1])\n"
        "print(envs[1]._session.link.carrier.endpoint)\n",
        TWOFOLD_SERVER=str(find_program()),
    )
    assert output.startswith("ipc://")
    assert errors.count("RuntimeWarning") == 1
    assert "libtwofold.so was not found" in errors
    assert "TWOFOLD_LIBRARY" in errors


@pytest.mark.usefixtures("_unstarted")
def test_the_endpoint_embedded_uses_only_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TWOFOLD_LIBRARY", raising=False)
    monkeypatch.setattr(lookup, "_candidates", lambda name: [])
    with pytest.raises(twofold.errors.ServerStartFailed, match=r"libtwofold\.so was not found"):
        twofold.Game2048VectorEnv(2, endpoint="embedded")


def test_a_relative_path_names_a_file_in_the_working_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for find, variable in ((find_library, "TWOFOLD_LIBRARY"), (find_program, "TWOFOLD_SERVER")):
        path = find().resolve()
        monkeypatch.chdir(path.parent)
        for relative in (path.name, f"./{path.name}"):
            monkeypatch.setenv(variable, relative)
            assert find() == path


@pytest.mark.usefixtures("_unstarted")
def test_a_library_of_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "VERSION", "7.0")
    monkeypatch.setenv("TWOFOLD_LIBRARY", str(find_library()))
    expected = r"version 0.*package has 7.0: rebuild the library"
    with pytest.raises(twofold.errors.ServerStartFailed, match=expected):
        twofold.Game2048VectorEnv(2, endpoint="embedded")


@pytest.mark.usefixtures("_unstarted")
@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("TWOFOLD_LIBRARY", "/nowhere/lib.so", "/nowhere/lib.so"),
        ("TWOFOLD_LIBRARY", __file__, "can't be loaded"),
        ("TWOFOLD_THREADS", "none", "TWOFOLD_THREADS is 'none'"),
        ("TWOFOLD_MAX_BYTES", "0", "TWOFOLD_MAX_BYTES is 0"),
    ],
)
def test_an_invalid_variable_is_named(
    name: str, value: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(twofold.errors.ServerStartFailed, match=text):
        twofold.Game2048VectorEnv(2)


@pytest.mark.usefixtures("_unstarted")
def test_limits_come_from_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOFOLD_MAX_BOARDS", "10")
    kept = twofold.Game2048VectorEnv(7)
    with pytest.raises(twofold.errors.ResourceExhausted, match="max_boards = 10"):
        twofold.Game2048VectorEnv(7)
    kept.close()
    twofold.Game2048VectorEnv(10).close()


def test_tokens_keys_and_resumes_are_refused_in_a_process() -> None:
    envs = twofold.Game2048VectorEnv(1, recover=True)
    with pytest.raises(twofold.errors.InvalidArgument, match="endpoint="):
        _ = envs.token
    with pytest.raises(twofold.errors.InvalidArgument, match="can't be resumed"):
        twofold.resume("embedded#" + 32 * "0")
    server, _ = (key.decode() for key in zmq.curve_keypair())
    public, secret = (key.decode() for key in zmq.curve_keypair())
    keys = twofold.CurveKeys(server, public, secret)
    with pytest.raises(twofold.errors.InvalidArgument, match="requires a tcp endpoint"):
        twofold.Game2048VectorEnv(1, keys=keys)
    envs.close()


# ---- threads -------------------------------------------------------------------------------------


def test_a_heartbeat_during_steps_changes_nothing(endpoint: str) -> None:
    envs, twin = make(endpoint), make(endpoint)
    envs.reset(seed=0)
    twin.reset(seed=0)
    is_over = threading.Event()
    beats, failures = 0, []

    def heartbeat() -> None:
        nonlocal beats
        try:
            while not is_over.is_set():
                envs.keepalive()
                envs.observe()
                beats += 1
                # Otherwise every step would wait for it.
                time.sleep(1e-5)
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=heartbeat)
    thread.start()
    chosen = [actions(turn) for turn in range(16)]
    turn = -1
    # The scheduler decides how often the other thread runs.
    while (turn := turn + 1) < 500 or (beats <= 100 and thread.is_alive()):
        told = envs.step(chosen[turn % 16])
        expected = twin.step(chosen[turn % 16])
        if turn % 100 == 0:
            assert number(told) == number(expected)
    is_over.set()
    thread.join()
    assert number(envs.observe()) == number(twin.observe())
    assert failures == []
    assert beats > 100
    envs.close()
    twin.close()


def test_threads_step_their_own_environments_side_by_side() -> None:
    expected = played(0), played(1)
    results: dict[int, list[int]] = {}

    def play(seed: int) -> None:
        results[seed] = played(seed)

    threads = [threading.Thread(target=play, args=(seed,)) for seed in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (results[0], results[1]) == expected


def played(seed: int) -> list[int]:
    """Plays some steps on many boards. Returns a hash of each step's results."""
    envs = twofold.Game2048VectorEnv(5000)
    envs.reset(seed=seed)
    rng = np.random.default_rng(seed)
    told = [number(envs.step(rng.integers(0, 4, 5000))) for _ in range(50)]
    envs.close()
    return told


def test_a_thread_that_waits_for_another_too_long_gives_up() -> None:
    envs = twofold.Game2048VectorEnv(1)
    envs.reset(seed=0)
    is_inside, may_leave = threading.Event(), threading.Event()

    def progress(_: int) -> None:
        is_inside.set()
        may_leave.wait(PATIENCE)

    thread = threading.Thread(target=lambda: envs.rollout(1, "random", progress=progress))
    thread.start()
    assert is_inside.wait(PATIENCE)
    with hurried(envs), pytest.raises(twofold.errors.DeadlineExceeded, match="another thread"):
        envs.observe()
    may_leave.set()
    thread.join()
    envs.observe()
    envs.close()


# ---- calls are short -----------------------------------------------------------------------------


def slow_rollout() -> None:
    envs = twofold.Game2048VectorEnv(1, size=8)
    envs.reset(seed=0)
    envs.rollout(10_000_000, "random")


def slow_search() -> None:
    envs = twofold.Game2048VectorEnv(2)
    envs.reset(seed=0)
    envs.rollout(1_000_000, twofold.policies.Expectimax(depth=3))


def slow_rules() -> None:
    board = np.eye(4, dtype=np.uint8) * 2
    boards = np.broadcast_to(board, (1 << 20, 4, 4))
    moved = rules.move(board, 1)
    rules.explain(boards, np.ones(1 << 20, int), np.broadcast_to(rules_next(moved), boards.shape))


def rules_next(moved: rules.Move) -> Any:
    """Returns a board after a move, with a 2 in the first empty cell."""
    after = moved.boards.copy()
    after.reshape(-1)[np.flatnonzero(after.reshape(-1) == 0)[0]] = 1
    return after


def interrupt_in_the_library(caller: str) -> None:
    """Interrupts like Ctrl-C, as soon as this file's function `caller` has called the library."""
    main = threading.main_thread().ident
    assert main is not None

    def is_inside() -> bool:
        names, frame = [], sys._current_frames().get(main)
        while frame is not None:
            names.append((Path(frame.f_code.co_filename).name, frame.f_code.co_name))
            frame = frame.f_back
        return ("test_embedded.py", caller) in names and names[0][0] == "embedded.py"

    interrupt_when(is_inside)


def test_ctrl_c_interrupts_long_calls() -> None:
    """Uses a separate process, because callbacks of other packages may swallow an interrupt."""
    output, _ = run(
        "import test_embedded\n"
        "for slow in ('slow_rollout', 'slow_search', 'slow_rules'):\n"
        "    test_embedded.interrupt_in_the_library(slow)\n"
        "    try: getattr(test_embedded, slow)()\n"
        "    except KeyboardInterrupt: print(slow, 'heard')\n"
    )
    expected = "slow_rollout heard\nslow_search heard\nslow_rules heard\n"
    assert output == expected, "one was over before anybody listened"


# ---- forks ---------------------------------------------------------------------------------------


def test_a_forked_child_cannot_use_its_parents_environment_and_makes_its_own() -> None:
    """The child can do so even if another thread of the parent holds the library's lock."""
    output, errors = run(
        "import threading\n"
        "envs = twofold.Game2048VectorEnv(70_000); first = envs.reset(seed=0)[0]\n"
        "inside = threading.Event()\n"
        "def progress(_): inside.set(); threading.Event().wait()\n"
        "busy = twofold.Game2048VectorEnv(2, extra_infos=('episode',)); busy.reset(seed=0)\n"
        "rollout = lambda: busy.rollout(1, 'random', progress=progress)\n"
        "threading.Thread(target=rollout, daemon=True).start(); inside.wait()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    def step(theirs): return lambda: theirs.step(np.zeros(theirs.num_envs, int))\n"
        "    for call in (step(busy), step(envs), busy.statistics):\n"
        "        try: call()\n"
        "        except twofold.errors.ClosedError as error: print(error)\n"
        "    for _ in range(2):\n"
        "        own = twofold.Game2048VectorEnv(70_000)\n"
        "        print((own.reset(seed=0)[0] == first).all()); own.step(np.zeros(70_000, int))\n"
        "    envs.close(); own.close(); sys.exit(0)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)\n"
        "envs.step(np.zeros(70_000, int))\n",
        TWOFOLD_THREADS="2",
    )
    lines = output.splitlines()
    assert all("make environments after the fork" in line for line in lines[:3])
    assert lines[3:] == ["True", "True", "0"]
    assert errors.count("run on one thread") == 1


def test_a_child_forked_while_another_thread_holds_the_librarys_lock_plays_as_its_parent() -> None:
    """A thread steps one board without a pause, so that it often holds the lock at a fork."""
    output, _ = run(
        "import threading\n"
        "env = twofold.Game2048VectorEnv(1); first = env.reset(seed=0)[0].copy()\n"
        "begun, ended = threading.Event(), threading.Event()\n"
        "def play():\n"
        "    while not ended.is_set(): env.step(np.zeros(1, int)); begun.set()\n"
        "player = threading.Thread(target=play); player.start(); begun.wait()\n"
        "failed = 0\n"
        "for _ in range(40):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        import signal; signal.alarm(60)\n"
        "        own = twofold.Game2048VectorEnv(1)\n"
        "        same = (own.reset(seed=0)[0] == first).all(); own.step(np.zeros(1, int))\n"
        "        own.close(); os._exit(not same)\n"
        "    failed += os.waitpid(child, 0)[1] != 0\n"
        "ended.set(); player.join(); env.step(np.zeros(1, int)); print(failed)\n"
    )
    assert output == "0\n"


def test_a_fork_waits_while_another_thread_starts_the_library() -> None:
    """The child could never use constants that the library was just initialising."""
    output, _ = run(
        "import threading\n"
        "from twofold.client import embedded\n"
        "starting, forks = threading.Event(), threading.Event()\n"
        "start, lines = embedded._start, []\n"
        "def slowly():\n"
        "    starting.set()\n"
        "    forks.wait()\n"
        "    lines.append('started')\n"
        "    return start()\n"
        "embedded._start = slowly\n"
        "def play(): twofold.Game2048VectorEnv(1).reset(seed=0)\n"
        "other = threading.Thread(target=play); other.start(); starting.wait()\n"
        "os.register_at_fork(before=forks.set)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    import signal; signal.alarm(60)\n"
        "    print(lines, flush=True); play(); os._exit(0)\n"
        "print(os.waitpid(child, 0)[1]); other.join()\n"
    )
    assert output == "['started']\n0\n"


def test_the_first_environment_imports_no_module() -> None:
    """A child could never import a module that another thread was importing at the fork."""
    output, _ = run(
        "make, before = twofold.Game2048VectorEnv, set(sys.modules)\n"
        "env = make(1); env.reset(seed=0); env.step(np.zeros(1, int))\n"
        "print(sorted(set(sys.modules) - before))\n"
    )
    assert output == "[]\n"


def test_the_start_of_the_library_leaves_no_session_open() -> None:
    output, _ = run(
        "env = twofold.Game2048VectorEnv(10); env.reset(seed=0)\n"
        "print(env.step(np.zeros(10, int))[0].shape)\n",
        TWOFOLD_MAX_SESSIONS="1",
        TWOFOLD_MAX_BOARDS="10",
    )
    assert output == "(10, 4, 4)\n"


def test_several_threads_play_in_a_forked_child() -> None:
    output, _ = run(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "def play():\n"
        "    env = twofold.Game2048VectorEnv(1); env.reset(seed=0)\n"
        "    for _ in range(20_000): env.step(np.zeros(1, int))\n"
        "play(); child = os.fork()\n"
        "if child == 0:\n"
        "    with ThreadPoolExecutor(2) as threads:\n"
        "        others = [threads.submit(play) for _ in range(2)]\n"
        "        play()\n"
        "        for other in others: other.result()\n"
        "    os._exit(0)\n"
        "print(os.waitpid(child, 0)[1])\n"
    )
    assert output == "0\n"


def test_a_child_forked_while_another_thread_draws_a_seed_plays() -> None:
    output, _ = run(
        "import signal, threading\n"
        "from twofold.envs import seeding\n"
        "draws, forked, draw = threading.Event(), threading.Event(), seeding.draw_seed\n"
        "def slowly(*arguments):\n"
        "    if threading.current_thread() is other: draws.set(); forked.wait()\n"
        "    return draw(*arguments)\n"
        "seeding.draw_seed = slowly\n"
        "def play(): twofold.Game2048VectorEnv(1, endpoint='embedded').reset(seed=0)\n"
        "other = None; play()\n"
        "other = threading.Thread(target=play); other.start(); draws.wait()\n"
        "child = os.fork()\n"
        "if child == 0: signal.alarm(20); play(); os._exit(0)\n"
        "print(os.waitpid(child, 0)[1]); forked.set(); other.join()\n"
    )
    assert output == "0\n"


@pytest.mark.parametrize("context", ["fork", pytest.param("spawn", marks=pytest.mark.long)])
def test_gymnasiums_async_workers_have_their_own_boards(context: str) -> None:
    output, _ = run(
        "if __name__ == '__main__':\n"
        "    alone = gym.make_vec('twofold:twofold/Game2048-v0', num_envs=2, size=(2, 3))\n"
        "    expected, _ = alone.reset(seed=5)\n"
        "    envs = gym.make_vec('twofold:twofold/Game2048-v0', num_envs=2, size=(2, 3),\n"
        "                        vectorization_mode='async',\n"
        f"                        vector_kwargs=dict(context='{context}'))\n"
        "    first, _ = envs.reset(seed=5)\n"
        "    envs.step([0, 1])\n"
        "    print((first == expected).all()); envs.close()\n"
    )
    assert output == "True\n"


def worker(connection: Any, seed: int) -> None:
    """Works like a worker of Stable-Baselines3's SubprocVecEnv, with commands from a pipe."""
    env = gym.make("twofold:" + ID)
    while True:
        command, argument = connection.recv()
        if command == "reset":
            connection.send(env.reset(seed=seed)[0])
        elif command == "step":
            connection.send(env.step(argument)[:4])
        else:
            env.close()
            connection.close()
            return


@pytest.mark.parametrize(
    "method", ["fork", "forkserver", pytest.param("spawn", marks=pytest.mark.long)]
)
def test_workers_behind_pipes_play_the_same_games(method: str) -> None:
    twins = [gym.make("twofold:" + ID) for _ in range(2)]
    context: Any = multiprocessing.get_context(method)
    pipes, processes = [], []
    for seed in range(2):
        mine, theirs = context.Pipe()
        processes.append(context.Process(target=worker, args=(theirs, seed), daemon=True))
        processes[-1].start()
        theirs.close()
        pipes.append(mine)
    for seed, (pipe, twin) in enumerate(zip(pipes, twins, strict=True)):
        pipe.send(("reset", None))
        np.testing.assert_array_equal(pipe.recv(), twin.reset(seed=seed)[0])
    for turn in range(20):
        for pipe in pipes:
            pipe.send(("step", turn % 4))
        for pipe, twin in zip(pipes, twins, strict=True):
            board, *others = pipe.recv()
            expected, *same, _ = twin.step(turn % 4)
            np.testing.assert_array_equal(board, expected)
            assert others == same
    for pipe, process in zip(pipes, processes, strict=True):
        pipe.send(("close", None))
        process.join(PATIENCE)
        assert process.exitcode == 0
    for twin in twins:
        twin.close()


def test_a_data_loader_with_workers_reads_the_same_games() -> None:
    data = pytest.importorskip("torch.utils.data", reason="needs PyTorch")

    class Boards(data.Dataset):  # type: ignore[name-defined, misc]
        """The first board for each seed, from an environment that each worker makes."""

        def __init__(self) -> None:
            self.envs: Any = None

        def __len__(self) -> int:
            return 12

        def __getitem__(self, index: int) -> Any:
            if self.envs is None:
                self.envs = twofold.Game2048VectorEnv(1)
            return self.envs.reset(seed=index)[0][0]

    here = twofold.Game2048VectorEnv(12)
    expected, _ = here.reset(seed=0)
    loader = data.DataLoader(Boards(), batch_size=3, num_workers=2)
    np.testing.assert_array_equal(np.concatenate([batch.numpy() for batch in loader]), expected)
    here.close()
