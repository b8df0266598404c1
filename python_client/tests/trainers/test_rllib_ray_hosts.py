"""Tests on two hosts, which are network namespaces of this machine; one may be cut off.

This command plays a million games on both:

    python -m pytest -s --scale 50 --timeout 0 tests/trainers/test_rllib_ray_hosts.py
"""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import twofold

pytest.importorskip("ray", reason="`make trainers` has it")

from ray_job import DATASET, FIELDS, GAMES, FirstLegal

# The network has fixed addresses, and a host that is slow to answer counts as lost.

JOB = Path(__file__).with_name("ray_job.py")
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "rllib_ppo.py"
NETWORK = "10.231.17"


class Hosts:
    """A Ray cluster of two connected hosts with one CPU each, of which the first is the head.

    Attributes:
        ips: The hosts' addresses.
    """

    def __init__(self, folder: Path) -> None:
        self._names = [f"twofold-{os.getpid()}-{host}" for host in (0, 1)]
        self._folder = folder
        self.ips = [f"{NETWORK}.{host + 1}" for host in (0, 1)]
        # A node counts as lost after about two seconds without an answer.
        self._variables = {
            **os.environ,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_health_check_initial_delay_ms": "1000",
            "RAY_health_check_period_ms": "500",
            "RAY_health_check_timeout_ms": "500",
            "RAY_health_check_failure_threshold": "4",
        }

    def __enter__(self) -> "Hosts":
        try:
            for name in self._names:
                ip("netns", "add", name)
        except (OSError, subprocess.CalledProcessError) as error:
            self.__exit__()
            pytest.skip(f"there are no network namespaces here: {error}")
        first, second = self._names
        ends = ["link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns"]
        ip("-n", first, *ends, second)
        for name, address in zip(self._names, self.ips, strict=True):
            ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
            for link in ("lo", "cable"):
                ip("-n", name, "link", "set", link, "up")
        head = ["--head", "--port=6379", f"--temp-dir={self._folder}", "--include-dashboard=false"]
        self._start(0, *head)
        self._start(1, f"--address={self.ips[0]}:6379")
        return self

    def _start(self, host: int, *arguments: str) -> None:
        arguments = *arguments, f"--node-ip-address={self.ips[host]}", "--num-cpus=1"
        arguments = *arguments, "--object-store-memory=200000000", "--disable-usage-stats"
        start = self.begin(host, "-m", "ray.scripts.scripts", "start", *arguments)
        output, _ = start.communicate()
        assert start.returncode == 0, output

    def begin(self, host: int, *arguments: str) -> "subprocess.Popen[str]":
        """Starts a Python program on a host; stdout has all of its output."""
        return subprocess.Popen(
            ["ip", "netns", "exec", self._names[host], sys.executable, *arguments],
            env=self._variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def job(self, *arguments: object) -> "subprocess.Popen[str]":
        """Starts ray_job.py on the head."""
        return self.begin(0, str(JOB), f"{self.ips[0]}:6379", *map(str, arguments))

    def cut(self) -> None:
        """Disconnects the second host."""
        ip("-n", self._names[1], "link", "set", "cable", "down")

    def __exit__(self, *_: object) -> None:
        for name in self._names:
            with contextlib.suppress(OSError, subprocess.CalledProcessError):
                while pids := ip("netns", "pids", name).split():
                    for pid in pids:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(int(pid), signal.SIGKILL)
                    time.sleep(0.1)
                ip("netns", "delete", name)


def ip(*arguments: str) -> str:
    """Returns the output of the command `ip`."""
    ran = subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
    return ran.stdout


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    # Sockets in this directory have long names, and a socket's path must be short.
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    try:
        with Hosts(folder) as hosts:
            yield hosts
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def cut_midway(hosts: Hosts, folder: Path, *job: object) -> None:
    """Runs a job, and cuts off its second host as soon as this host has begun the job's call."""
    running = hosts.job(*job)
    while not (folder / "held").exists():
        assert running.poll() is None, running.communicate()[0]
        time.sleep(0.1)
    hosts.cut()
    (folder / "cut").touch()
    output, _ = running.communicate()
    assert running.returncode == 0, output
    # The lost part was started again on the other host.
    begun = (folder / "begun").read_text().split()
    assert sorted(begun[:2]) == hosts.ips
    assert begun[2:] == hosts.ips[:1]


def assert_same_games(path: Path, alone: twofold.Evaluation) -> None:
    games = np.load(path)
    for name in FIELDS:
        np.testing.assert_array_equal(games[name], getattr(alone, name), err_msg=name)


def test_games_on_two_hosts_equal_the_games_of_one(
    hosts: Hosts, tmp_path: Path, scale: int
) -> None:
    episodes, path = 20_000 * scale, tmp_path / "games.npz"
    job = hosts.job("random", episodes, path)
    output, _ = job.communicate()
    assert job.returncode == 0, output
    assert all(f"on {address}" in output for address in hosts.ips)
    alone = twofold.evaluate("random", episodes=episodes)
    print(output, alone, sep="\n")
    assert_same_games(path, alone)


def test_a_host_that_is_cut_off_midway_changes_no_game(hosts: Hosts, tmp_path: Path) -> None:
    path = tmp_path / "games.npz"
    cut_midway(hosts, tmp_path, "games", tmp_path, hosts.ips[1], path)
    policy = FirstLegal(tmp_path, "", 0, waits=False)
    assert_same_games(path, twofold.evaluate(policy, episodes=GAMES))


@pytest.mark.parametrize("when", ["plays", "played"])
def test_a_host_that_is_cut_off_midway_changes_no_byte(
    hosts: Hosts, when: str, tmp_path: Path
) -> None:
    cut_midway(hosts, tmp_path, "dataset", tmp_path, hosts.ips[1], when)
    alone = tmp_path / "alone.parquet"
    policy = FirstLegal(tmp_path, "", 0, waits=False)
    twofold.datasets.write(alone, policy, **DATASET)
    assert (tmp_path / "data.parquet").read_bytes() == alone.read_bytes()


def test_the_example_trains_and_evaluates_on_both_hosts(hosts: Hosts, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="`make trainers` has it")
    address = f"--address={hosts.ips[0]}:6379"
    words = "--seconds=5", "--episodes=20", f"--out={tmp_path}"
    job = hosts.begin(0, str(EXAMPLE), address, *words)
    output, _ = job.communicate()
    assert job.returncode == 0, output
    assert f"2 env runners on {', '.join(hosts.ips)}\n" in output
    assert " steps/s  return " in output
    assert "policy on twofold/Game2048-v0: 20 games" in output
