"""A sandbox for the current process: namespaces, a minimal root, no privileges, and limits.

This code runs in the processes of `runner`, before the judged program starts. It imports only
Python's standard library.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys

_CLONE = {
    "user": 0x10000000,
    "mount": 0x00020000,
    "pid": 0x20000000,
    "network": 0x40000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "cgroup": 0x02000000,
}
_NOBODY = 65534
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND = 1, 2, 4, 8, 32, 4096
_REC, _PRIVATE, _RELATIME = 1 << 14, 1 << 18, 1 << 21
_DETACH = 2
_ROOT = "/tmp"  # the new root is mounted here; any directory works


class Refused(Exception):
    """The error raised if the kernel or a container does not permit a part of the sandbox.

    The message names the part and the reason.
    """


def _call(wall: str, name: str, *arguments: object) -> None:
    """Calls the libc function `name`. Raises Refused if the function does not return 0.

    `wall` names the part of the sandbox in the error message.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        raise Refused(f"{wall}: {name}: {os.strerror(ctypes.get_errno())}")


def enter() -> None:
    """Moves this process and its later children into new namespaces.

    There, the processes have no network. They see no processes except each other, and no files
    except Python's standard library, which is read-only. The host's name is "sandbox". This
    process's first child becomes the init process of the new process namespace.

    Raises:
        Refused: A part of the sandbox is unavailable.
    """
    user, group = os.geteuid(), os.getegid()
    _call("user namespaces", "unshare", ctypes.c_int(_CLONE["user"]))
    try:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{_NOBODY} {user} 1"),
            ("gid_map", f"{_NOBODY} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    except OSError as error:
        raise Refused(f"user namespaces: {error}") from None
    for name, flag in _CLONE.items():
        if name != "user":
            _call(f"{name} namespaces", "unshare", ctypes.c_int(flag))
    for function in ("sethostname", "setdomainname"):
        _call("uts namespaces", function, b"sandbox", ctypes.c_size_t(len(b"sandbox")))
    _change_root()
    drop_privileges()


def _mount(wall: str, source: str, target: str, flags: int, kind: str = "", data: str = "") -> None:
    words = [word.encode() if word else None for word in (source, target, kind)]
    _call(wall, "mount", *words, ctypes.c_ulong(flags), data.encode() or None)


def _change_root() -> None:
    """Replaces the root directory with one that has only Python's standard library, read-only."""
    wall = "a separate root"
    _mount(wall, "none", "/", _REC | _PRIVATE)
    # Opened first, because the new root hides the folders below its mount point.
    folders = {path: os.open(path, os.O_PATH) for path in sys.path if os.path.isdir(path)}
    _mount(wall, "none", _ROOT, _NOSUID | _NODEV | _NOEXEC, "tmpfs", "size=1m,mode=755")
    for path, descriptor in folders.items():
        target = f"{_ROOT}{path}"
        if os.path.exists(target):
            continue  # inside a folder that is mounted already
        os.makedirs(target)
        _mount(wall, f"/proc/self/fd/{descriptor}", target, _BIND | _REC)
        # A user namespace can't remove flags that the mount already has.
        held = os.statvfs(target).f_flag
        kept = held & (_NOSUID | _NODEV | _NOEXEC | 1024 | 2048)
        kept |= _RELATIME if held & 4096 else 0
        _mount(wall, "none", target, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV | kept)
        for packages in (f"{target}/site-packages", f"{target}/dist-packages"):
            if os.path.isdir(packages):  # installed packages, which may be private
                _mount(wall, "none", packages, _RDONLY | _NOSUID | _NODEV, "tmpfs", "size=4k")
    for descriptor in folders.values():
        os.close(descriptor)
    os.chdir(_ROOT)
    _call(wall, "pivot_root", b".", b".")
    _call(wall, "umount2", b".", ctypes.c_int(_DETACH))
    os.chdir("/")
    _mount(wall, "none", "/", _REMOUNT | _RDONLY | _NOSUID | _NODEV | _NOEXEC)


def drop_privileges() -> None:
    """Drops all capabilities and, with no_new_privs, prevents this process from gaining new ones.

    Raises:
        Refused: The kernel refuses.
    """
    _prctl(38, 1)  # PR_SET_NO_NEW_PRIVS
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3 of the call, this process
    nothing = (ctypes.c_uint32 * 6)()
    _call("no capabilities", "capset", header, nothing)


def die_with_parent() -> None:
    """Makes the kernel kill this process when its parent ends."""
    _prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL


def forbid_dumps() -> None:
    """Prevents core dumps of this process.

    RLIMIT_CORE does not prevent core dumps that the kernel passes to a program.
    """
    _prctl(4, 0)  # PR_SET_DUMPABLE


def end_first() -> None:
    """Makes the kernel end this process and its later children first when memory runs out."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def _prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    _call("prctl", "prctl", ctypes.c_int(option), ctypes.c_ulong(value), zero, zero, zero)


def limit(memory_mb: int, cpu_seconds: int) -> None:
    """Sets the kernel's resource limits for this process. The process can't raise them later.

    A limit that is already lower stays as it is.

    Args:
        memory_mb: The limit on address space, in megabytes.
        cpu_seconds: The limit on processor time, in seconds, after which the process is killed.
    """
    import resource

    # The seconds of grace let the signal at the soft limit come first: it says what happened.
    for name, value, grace in (
        (resource.RLIMIT_AS, memory_mb << 20, 0),
        (resource.RLIMIT_CPU, cpu_seconds, 1),
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_NOFILE, 32, 0),
        (resource.RLIMIT_NPROC, 0, 0),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_MEMLOCK, 0, 0),
    ):
        soft, hard = resource.getrlimit(name)
        lower = [value]
        lower += [] if soft == resource.RLIM_INFINITY else [soft]
        lower += [] if hard == resource.RLIM_INFINITY else [hard - grace]
        resource.setrlimit(name, (min(lower), min(lower) + grace))
