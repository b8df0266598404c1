"""Real servers for tests, and the states of processes as the system reports them."""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from twofold import TwofoldEnv, TwofoldVectorEnv
from twofold.client.lookup import find_program
from twofold.client.zeromq import ZeroMQCarrier

PATIENCE = 300.0
"""The seconds after which a test stops waiting for an event. Only a defect takes this long."""
LATE = 1e3
"""A timeout for calls that end long before it. A test that waits for it exceeds its own limit."""


class Server:
    """A twofold-server on one ipc and one tcp address; its log is discarded unless `log` is a file.

    `limits` are options of prlimit(1), such as "--nofile=64"; `variables`, environment variables.
    """

    def __init__(
        self,
        *arguments: str,
        limits: Sequence[str] = (),
        log: int = subprocess.DEVNULL,
        **variables: str,
    ) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="twofold-test-", dir="/tmp"))
        self.ipc = f"ipc://{self._directory}/s"
        self._arguments, self._variables = arguments, variables
        self.limits, self._log = limits, log
        self.tcp = "tcp://127.0.0.1:0"
        self.process = self._start()

    def _start(self) -> "subprocess.Popen[str]":
        command = [str(find_program()), "serve", "--endpoint", self.ipc, "--endpoint", self.tcp]
        command += ["--parent-pid", str(os.getpid()), *self._arguments]
        if self.limits:
            command = ["prlimit", *self.limits, *command]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, **self._variables},
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        assert all(line.startswith("listening on ") for line in lines), lines
        self.tcp = next(line.split()[2] for line in lines if "tcp://" in line)
        return process

    def start_again(self) -> None:
        """Starts another server at the same addresses after this one has ended."""
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = self._start()

    def __enter__(self) -> "Server":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        self.process.wait(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()
        shutil.rmtree(self._directory)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Suspends the server's process inside the block, so that it answers no requests."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            # Its threads stop one after another.
            wait_until(lambda: set(states(self.process.pid)) == {"T"})
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def terminate(self) -> None:
        """Asks the server to stop, and waits until it has stopped."""
        self.process.terminate()
        self.process.wait(PATIENCE)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def replace(self) -> None:
        """Kills the server, and starts another one at the same addresses."""
        self.kill()
        self.start_again()

    @property
    def memory(self) -> int:
        """The resident memory in bytes."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def running(command: Sequence[Any], **keywords: Any) -> "Iterator[subprocess.Popen[Any]]":
    """Runs a program, and kills it if the block fails. `Popen` alone would wait for its end."""
    with subprocess.Popen(command, **keywords) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def processor_seconds(pid: int) -> float:
    """Returns the processor time that a process has used, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def private_server_pid(env: Any) -> int:
    """Returns the process id of the private server behind an environment."""
    env = env.unwrapped
    if isinstance(env, TwofoldEnv):
        env = env._batch
    assert isinstance(env, TwofoldVectorEnv)
    carrier = env._session.link.carrier
    assert isinstance(carrier, ZeroMQCarrier)
    assert carrier.server is not None
    return carrier.server.pid


def states(pid: int) -> list[str]:
    """Returns the states of a process's threads in /proc: "R" for running, "T" for stopped."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            found.append((task / "stat").read_text().rpartition(")")[2].split()[0])
    return found


def is_running(pid: int) -> bool:
    """Returns True if a process exists and is not a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def child_servers() -> list[int]:
    """Returns the process ids of this process's running private servers."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            pid = int(entry.name)
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            command = (entry / "cmdline").read_bytes()
            is_private = b"twofold-server" in command and b"twofold-test-" not in command
            if parent == os.getpid() and is_private and is_running(pid):
                found.append(pid)
    return found


@contextlib.contextmanager
def no_more_descriptors() -> Iterator[None]:
    """Lowers this process's limit on descriptors to the number that it has open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def wait_until(condition: Callable[[], bool]) -> None:
    """Waits until another process has made a condition true."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
