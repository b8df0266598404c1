"""The private server: one process of twofold-server that belongs to this Python process.

All environments with endpoint="private" share it, and it ends at exit. If this process dies, the
server notices and exits.
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
# Seconds that a server may take to stop before it is killed.
_STOP_DEADLINE = 2.0
# Seconds after which an empty directory is removed; a younger one may not have its socket yet.
_ABANDONED_AGE = 60.0
_LOG_TAIL_LINES, _LOG_TAIL_BYTES = 20, 1 << 16
_PREFIX = "twofold-server-"


class PrivateServer:
    """A running server and its directory.

    The directory is twofold-server-xxxxxxxx in the folder for temporary files, and only this user
    can access it. It contains the socket `s`.
    """

    def __init__(self, deadline: float) -> None:
        program = find_program()
        try:
            _remove_abandoned_directories()
            self._log = tempfile.TemporaryFile()  # noqa: SIM115 - `stop` closes it
            self._directory = tempfile.mkdtemp(prefix=_PREFIX, dir=temporary_directory())
        except OSError as error:
            advice = "set TMPDIR to a directory in which you can write"
            if error.errno in (errno.EMFILE, errno.ENFILE):
                advice = "close files, or raise the limit on open files (ulimit -n)"
            raise ServerStartFailed(
                f"can't make a directory for the private server's files: {error}; {advice}"
            ) from error
        self.endpoint = f"ipc://{self._directory}/s"
        environ = {k: v for k, v in os.environ.items() if k not in _OF_ANOTHER_SERVER}
        command = [str(program), "serve", "--endpoint", self.endpoint]
        # Days may pass between two steps.
        command += ["--parent-pid", str(os.getpid()), "--idle-timeout", "0"]
        try:
            # A separate session, because a terminal's Ctrl-C is meant only for Python.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=environ,
                start_new_session=True,
            )
        except OSError as error:
            self._remove_files()
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
        self._remove_files()

    def _remove_files(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)
        self._log.close()

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
        with contextlib.suppress(ValueError):  # closed
            # Not `read`, because the server writes at the position that both processes share.
            log = self._log.fileno()
            tail = os.pread(log, _LOG_TAIL_BYTES, max(0, os.fstat(log).st_size - _LOG_TAIL_BYTES))
            lines = tail.decode(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
        if not lines:
            return "; its log is empty"
        return "; the end of its log:\n" + "\n".join(f"    {line}" for line in lines)


def temporary_directory() -> str:
    """Returns the directory that contains the servers' directories.

    This is tempfile's directory, or /tmp if a socket's path would be too long there.
    """
    parent = tempfile.gettempdir()
    socket = f"{parent}/{_PREFIX}xxxxxxxx/s"
    return parent if len(os.fsencode(socket)) <= system.LONGEST_IPC_PATH else "/tmp"


def _remove_abandoned_directories() -> None:
    """Removes the directories that killed processes left behind. They are empty."""
    for path in Path(temporary_directory()).glob(f"{_PREFIX}*"):
        # An error means that the directory is in use or belongs to another user.
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _ABANDONED_AGE:
                path.rmdir()


# ---- the one server of this process --------------------------------------------------------------

_lock = threading.RLock()
_current: PrivateServer | None = None
# Servers of the processes that this one was forked from, kept so that nothing finalises them.
_inherited: list[PrivateServer | None] = []


def running(deadline: float) -> PrivateServer:
    """Returns this process's server. Starts it if necessary."""
    global _current
    with _lock:
        if _current is not None and not _current.is_alive:
            stop_at_exit()
        if _current is None:
            server = PrivateServer(deadline)
            # A signal handler may meanwhile have started one.
            _current = _current or server
            if _current is not server:
                server.stop()
            if multiprocessing.parent_process() is not None:
                # A child process of multiprocessing may end without calling atexit's functions.
                multiprocessing.util.Finalize(None, stop_at_exit, exitpriority=10)
        return _current


def stop_at_exit() -> None:
    """Stops the server, even if it is in use."""
    global _current
    with _lock:
        if _current is not None:
            _current.stop()
            _current = None


def _forget_in_child() -> None:
    global _lock, _current
    _inherited.append(_current)
    _lock, _current = threading.RLock(), None


system.at_fork(after_in_child=_forget_in_child)
# Runs before the sessions are closed, because the last registered function is called first.
atexit.register(stop_at_exit)
