"""The private server: one process of twofold-server that belongs to this Python process.

All environments with endpoint="private" share it. The server ends shortly after the last of them
closes, or at exit. If this process dies, the server notices and exits.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import multiprocessing
import multiprocessing.util
import os
import selectors
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from twofold.client import system
from twofold.client.lookup import find_program
from twofold.errors import ServerDied, ServerStartFailed

# Variables that belong to a server for others: its keys and its saved sessions.
_OF_ANOTHER_SERVER = {
    f"TWOFOLD_{name}" for name in ("CURVE_SECRET_KEY", "CURVE_CLIENTS", "STATE_DIR")
}
# Seconds before an unused server stops. This lets a loop that makes and closes environments reuse
# one server.
_GRACE = 2.0
# Seconds that a server may take to stop before it is killed.
_STOP_DEADLINE = 2.0
_LOG_TAIL_LINES = 20
_DIRECTORY_PREFIX = "twofold-private-"
# Seconds before an unlocked directory is removed; a younger one may not be locked yet.
_ABANDONED_AGE = 60.0


class PrivateServer:
    """A running server, its directory and a count of the environments that use it.

    The directory is twofold-private-xxxxxxxx in the folder for temporary files, and only this user
    can access it. It contains the socket `s` and the file `log`. This process holds a lock on the
    directory. Later processes remove unlocked directories that killed processes left behind.
    """

    def __init__(self, deadline: float) -> None:
        program = find_program()
        try:
            self._directory, self._directory_lock = _make_directory()
        except OSError as error:
            advice = "set TMPDIR to a directory in which you can write"
            if error.errno in (errno.EMFILE, errno.ENFILE):
                advice = "close files, or raise the limit on open files (ulimit -n)"
            raise ServerStartFailed(
                f"can't make a directory for the private server's files: {error}; {advice}"
            ) from error
        self._log = self._directory / "log"
        self.endpoint = f"ipc://{self._directory}/s"
        self.users = 0
        environ = {k: v for k, v in os.environ.items() if k not in _OF_ANOTHER_SERVER}
        command = [str(program), "serve", "--endpoint", self.endpoint]
        # Days may pass between two steps.
        command += ["--parent-pid", str(os.getpid()), "--idle-timeout", "0"]
        try:
            with self._log.open("wb") as log:
                # A separate session, because a terminal's Ctrl-C is meant only for Python.
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=environ,
                    start_new_session=True,
                )
        except OSError as error:
            self._remove_directory()
            raise ServerStartFailed(f"{program} could not be started: {error}") from error
        self.pid = self._process.pid
        try:
            self._wait_until_listening(deadline)
        except BaseException:
            self.stop()
            raise

    @property
    def is_alive(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    def check(self) -> None:
        """Raises ServerDied if the process has ended."""
        if not self.is_alive:
            raise ServerDied(
                f"the private server {self._outcome()}; create a new environment to start another"
                + self._log_tail()
            )

    def release(self) -> None:
        """Decrements the user count. An unused server stops after a short delay."""
        global _timer
        with _lock:
            self.users -= 1
            if self.users == 0 and self is _current:
                _cancel_stop()
                _timer = threading.Timer(_GRACE, _stop_unused)
                _timer.daemon = True
                try:
                    _timer.start()
                except RuntimeError:  # this process can start no thread
                    stop_at_exit()

    def stop(self) -> None:
        """Ends the process and removes its directory. Safe to call twice."""
        if self.is_alive:
            self._process.terminate()
            try:
                self._process.wait(_STOP_DEADLINE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._remove_directory()

    def _remove_directory(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)
        if self._directory_lock >= 0:
            os.close(self._directory_lock)
            self._directory_lock = -1

    def _wait_until_listening(self, deadline: float) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            if not selector.select(deadline - time.monotonic()):
                raise ServerStartFailed(
                    "the private server did not start in time (raise timeout=)" + self._log_tail()
                )
        printed = os.read(stdout.fileno(), 4096)
        if not printed:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_DEADLINE)
            raise ServerStartFailed(
                f"the private server {self._outcome()} during startup" + self._log_tail()
            )
        if not printed.startswith(b"listening on "):
            raise ServerStartFailed(
                f"{self._process.args!r} printed {printed[:200]!r}; it is not a twofold-server"
            )

    def _outcome(self) -> str:
        code = self._process.returncode
        if code is None:
            return f"(process {self.pid}) closed its output"
        how = f"was killed by signal {-code}" if code < 0 else f"exited with status {code}"
        return f"(process {self.pid}) {how}"

    def _log_tail(self) -> str:
        lines: list[str] = []
        with contextlib.suppress(OSError):
            lines = self._log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
        if not lines:
            return "; its log is empty"
        return "; the end of its log:\n" + "\n".join(f"    {line}" for line in lines)


def temporary_directory() -> str:
    """Returns the directory that contains the servers' directories.

    This is tempfile's directory, or /tmp if a socket's path would be too long there.
    """
    parent = tempfile.gettempdir()
    socket = f"{parent}/{_DIRECTORY_PREFIX}xxxxxxxx/s"
    return parent if len(os.fsencode(socket)) <= system.LONGEST_IPC_PATH else "/tmp"


def _make_directory() -> tuple[Path, int]:
    """Removes the directories of killed processes and creates one for a new server.

    Returns:
        The directory, and the file descriptor that holds its lock.
    """
    parent = temporary_directory()
    for path in Path(parent).glob(_DIRECTORY_PREFIX + "*"):
        # Errors mean that the directory is in use, already gone, or owned by another user.
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime >= _ABANDONED_AGE:
                lock = system.lock_directory(path)
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)
    directory = Path(tempfile.mkdtemp(prefix=_DIRECTORY_PREFIX, dir=parent))
    return directory, system.lock_directory(directory)


# ---- the one server of this process --------------------------------------------------------------

_lock = threading.RLock()
_current: PrivateServer | None = None
_timer: threading.Timer | None = None
# Servers of the processes that this one was forked from, kept so that nothing finalises them.
_inherited: list[PrivateServer | None] = []


def acquire(deadline: float) -> PrivateServer:
    """Counts one more user of this process's server, and returns it. Starts it if necessary."""
    global _current
    with _lock:
        _cancel_stop()
        if _current is not None and not _current.is_alive:
            stop_at_exit()
        if _current is None:
            _current = PrivateServer(deadline)
            if multiprocessing.parent_process() is not None:
                # A child process of multiprocessing may end without calling atexit's functions.
                multiprocessing.util.Finalize(None, stop_at_exit, exitpriority=10)
        _current.users += 1
        return _current


def _cancel_stop() -> None:
    global _timer
    if _timer is not None:
        _timer.cancel()
        _timer = None


def _stop_unused() -> None:
    with _lock:
        if _current is not None and _current.users == 0:
            stop_at_exit()


def stop_at_exit() -> None:
    """Stops the server, even if it is in use."""
    global _current
    with _lock:
        _cancel_stop()
        if _current is not None:
            _current.stop()
            _current = None


def _forget_in_child() -> None:
    global _lock, _current, _timer
    _inherited.append(_current)
    _lock, _current, _timer = threading.RLock(), None, None


system.at_fork(after_in_child=_forget_in_child)
# Runs before the sessions are closed, because the last registered function is called first.
atexit.register(stop_at_exit)
