"""Functions that differ between operating systems. Each imports the modules that it needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

# A socket's sun_path has 108 bytes, including the terminating zero; on macOS it has 104.
LONGEST_IPC_PATH = 103 if sys.platform == "darwin" else 107

# A different object in each forked child, which is faster to compare than process ids.
generation = object()


def at_fork(**hooks: Callable[[], object]) -> None:
    """Calls `os.register_at_fork` with the hooks, on systems that support fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(**hooks)


def _begin_generation() -> None:
    global generation
    generation = object()


at_fork(after_in_child=_begin_generation)


def check_descriptors(descriptor: int) -> None:
    """Raises OSError if this process can't open more files; does nothing on Windows.

    `descriptor` is any open file descriptor.
    """
    if sys.platform != "win32":
        os.close(os.dup(descriptor))


def allow_open_files(count: int) -> None:
    """Increases this process's limit on open files to `count` or, if lower, to the hard limit."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        count = min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
