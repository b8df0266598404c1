// The operating system: its C library, which every other module imports from here, and system calls
// (`system`, `Descriptor`). The folder Linux holds the parts that exist only on Linux.
//
// The folder POSIX can replace the folder Linux and the module CLinux: Package.swift builds it if TWOFOLD_POSIX is
// set. It ignores cgroups, the affinity mask and the process's memory limits. A port to another system starts from this
// folder. Then these differences remain:
//
//     - constants that are enums in glibc: RLIMIT_NOFILE, SOCK_STREAM, RUSAGE_SELF
//     - the unit of ru_maxrss (KiB on Linux)
//     - `accept4` in Connections.c, which macOS lacks. Our `accept` replaces the system's in a statically linked
//       libzmq, but perhaps not in a shared one
//     - the linker options of libtwofold.so in Package.swift, which are for Linux
@_exported public import Glibc
