"""A system-call filter (seccomp) for a process that has loaded Python and runs a program.

The filter allows the calls that a program needs if it uses no files, processes or sockets. A call
that starts a process or a thread, opens a socket, writes a file or signals another process kills
the process with SIGSYS, so that the judge reports the attempt. Every other call fails with EPERM.
Some calls are allowed only if one argument has certain bits.
"""

from __future__ import annotations

import ctypes
import platform
import struct

ALLOWED = """
    read write close mmap munmap mremap mprotect madvise brk lseek fstat newfstatat stat lstat
    statx access faccessat faccessat2 readlink readlinkat getdents64 getcwd pread64 readv
    writev rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack nanosleep gettimeofday times
    getrusage getrandom getpid gettid getppid getuid geteuid getgid getegid sched_yield uname
    sysinfo restart_syscall rseq poll ppoll select pselect6 pipe pipe2 exit exit_group
"""
KILLING = """
    fork vfork clone clone3 execve execveat kill tkill tgkill ptrace process_vm_readv
    process_vm_writev socket socketpair connect bind listen creat mkdir mkdirat mknod mknodat unlink
    unlinkat rmdir rename renameat renameat2 link linkat symlink symlinkat truncate ftruncate chmod
    fchmod fchmodat chown fchownat mount umount2 chroot pivot_root unshare setns memfd_create
"""
# For each processor architecture: its constant for seccomp, and its number of each call.
_X86_64 = 0xC000003E
_AARCH64 = 0xC00000B7
NUMBERS = {
    "x86_64": """
        read 0 write 1 close 3 futex 202 mmap 9 munmap 11 mremap 25 mprotect 10 madvise 28 brk 12
        lseek 8 fstat 5 newfstatat 262 stat 4 lstat 6 statx 332 access 21 faccessat 269
        faccessat2 439 readlink 89 readlinkat 267 getdents64 217 getcwd 79
        pread64 17 readv 19 writev 20 rt_sigaction 13 rt_sigprocmask 14 rt_sigreturn 15
        sigaltstack 131 clock_gettime 228 clock_getres 229 clock_nanosleep 230 nanosleep 35
        gettimeofday 96 times 100 getrusage 98 getrandom 318 getpid 39 gettid 186 getppid 110
        getuid 102 geteuid 107 getgid 104 getegid 108 sched_yield 24 sched_getaffinity 204 uname 63
        sysinfo 99 restart_syscall 219 rseq 334 poll 7 ppoll 271 select 23 pselect6 270 pipe 22
        pipe2 293 exit 60 exit_group 231 open 2 openat 257 fork 57 vfork 58 clone 56 clone3 435
        execve 59 execveat 322 kill 62 tkill 200 tgkill 234 ptrace 101 process_vm_readv 310
        process_vm_writev 311 socket 41 socketpair 53 connect 42 bind 49 listen 50 creat 85 mkdir 83
        mkdirat 258 mknod 133 mknodat 259 unlink 87 unlinkat 263 rmdir 84 rename 82 renameat 264
        renameat2 316 link 86 linkat 265 symlink 88 symlinkat 266 truncate 76 ftruncate 77 chmod 90
        fchmod 91 fchmodat 268 chown 92 fchownat 260 mount 165 umount2 166 chroot 161 pivot_root 155
        unshare 272 setns 308 memfd_create 319
    """,
    "aarch64": """
        read 63 write 64 close 57 futex 98 mmap 222 munmap 215 mremap 216 mprotect 226 madvise 233
        brk 214 lseek 62 fstat 80 newfstatat 79 statx 291 faccessat 48 faccessat2 439 readlinkat 78
        getdents64 61 getcwd 17 pread64 67 readv 65 writev 66 rt_sigaction 134
        rt_sigprocmask 135 rt_sigreturn 139 sigaltstack 132 clock_gettime 113 clock_getres 114
        clock_nanosleep 115 nanosleep 101 gettimeofday 169 times 153 getrusage 165 getrandom 278
        getpid 172 gettid 178 getppid 173 getuid 174 geteuid 175 getgid 176 getegid 177
        sched_yield 124 sched_getaffinity 123 uname 160 sysinfo 179 restart_syscall 128 rseq 293
        ppoll 73 pselect6 72 pipe2 59 exit 93 exit_group 94 openat 56 clone 220 clone3 435
        execve 221 execveat 281 kill 129 tkill 130 tgkill 131 ptrace 117 process_vm_readv 270
        process_vm_writev 271 socket 198 socketpair 199 connect 203 bind 200 listen 201 mkdirat 34
        mknodat 33 unlinkat 35 renameat 38 renameat2 276 linkat 37 symlinkat 36 truncate 45
        ftruncate 46 fchmod 52 fchmodat 53 fchownat 54 mount 40 umount2 39 chroot 51 pivot_root 41
        unshare 97 setns 268 memfd_create 279
    """,
}
ARCHITECTURES = {"x86_64": _X86_64, "aarch64": _AARCH64}

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL_PROCESS, _FAIL_EPERM = 0x7FFF0000, 0x80000000, 0x00050001
# Offsets in struct seccomp_data: the call's number, the architecture, and the first argument.
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_X32_CALLS = 0x40000000

_WRITING = 0o1 | 0o2 | 0o100 | 0o1000  # O_WRONLY, O_RDWR, O_CREAT, O_TRUNC
_FUTEX_PRIVATE = 128  # without it, two games that map the same file could wake each other
_OTHER_CLOCK = 1 << 31  # of the processor time of any process or thread
CONDITIONAL = (
    ("open", 1, _WRITING, False, _KILL_PROCESS),
    ("openat", 2, _WRITING, False, _KILL_PROCESS),
    ("futex", 1, _FUTEX_PRIVATE, True, _FAIL_EPERM),
    ("clock_gettime", 0, _OTHER_CLOCK, False, _FAIL_EPERM),
    ("clock_getres", 0, _OTHER_CLOCK, False, _FAIL_EPERM),
    ("clock_nanosleep", 0, _OTHER_CLOCK, False, _FAIL_EPERM),
    ("sched_getaffinity", 0, 0xFFFFFFFF, False, _FAIL_EPERM),  # process 0 is the caller
)
"""The calls that are allowed only if one argument has certain bits. Each entry has the call's name,
the argument's number, a mask, whether the masked bits must be set (or clear), and the verdict
otherwise. The kernel ignores the upper 32 bits of these arguments."""


def numbers(machine: str) -> dict[str, int]:
    """Returns the numbers of the system calls on a processor architecture."""
    words = NUMBERS[machine].split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


def program(machine: str) -> bytes:
    """Returns the filter for a processor, as the kernel's BPF instructions."""
    number = numbers(machine)
    code = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":  # kills the x32 variants of all calls
        code += [(_JUMP_AT_LEAST, 0, 1, _X32_CALLS), (_RETURN, 0, 0, _KILL_PROCESS)]
    for names, verdict in ((ALLOWED, _ALLOW), (KILLING, _KILL_PROCESS)):
        for name in names.split():
            if name in number:
                code += [(_JUMP_EQUAL, 0, 1, number[name]), (_RETURN, 0, 0, verdict)]
    for name, argument, mask, are_set, otherwise in CONDITIONAL:
        if name in number:
            code += [
                (_JUMP_EQUAL, 0, 4, number[name]),
                (_LOAD, 0, 0, _ARGUMENTS + 8 * argument),
                (_JUMP_BITS, 0, 1, mask) if are_set else (_JUMP_BITS, 1, 0, mask),
                (_RETURN, 0, 0, _ALLOW),
                (_RETURN, 0, 0, otherwise),
            ]
    code.append((_RETURN, 0, 0, _FAIL_EPERM))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


class Filter:
    """The filter for this machine, ready to be installed.

    Raises:
        OSError: Twofold has no filter for this processor.
    """

    def __init__(self) -> None:
        machine = platform.machine()
        if machine not in NUMBERS:
            raise OSError(f"no system-call filter for {machine}, only for {', '.join(NUMBERS)}")
        code = program(machine)
        self._code = ctypes.create_string_buffer(code, len(code))
        # struct sock_fprog: the number of instructions, and their address.
        self._pointer = ctypes.create_string_buffer(
            struct.pack("@HP", len(code) // 8, ctypes.addressof(self._code))
        )
        self._prctl = ctypes.CDLL(None, use_errno=True).prctl

    def install(self) -> None:
        """Installs the filter in this process, irrevocably. no_new_privs must be set.

        Raises:
            OSError: The kernel refuses.
        """
        if self._prctl(22, ctypes.c_ulong(2), self._pointer, ctypes.c_ulong(0), ctypes.c_ulong(0)):
            raise OSError(ctypes.get_errno(), "the kernel refuses prctl(PR_SET_SECCOMP)")
