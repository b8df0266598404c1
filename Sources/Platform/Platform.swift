// The operating system: its C library, which every other module imports from here, and system calls
// (`system`, `Descriptor`). The folder Linux holds the parts that only Linux has.
//
// The folder POSIX can replace the folder Linux and the module CLinux: Package.swift builds it if TWOFOLD_POSIX is
// set. It knows no cgroups, no affinity mask and none of the process's memory limits. A port to another system starts
// with it. Then these differences remain:
//
//     - constants that are enums in glibc: RLIMIT_NOFILE, SOCK_STREAM, RUSAGE_SELF
//     - the unit of ru_maxrss (KiB on Linux)
//     - `accept4` in Connections.c, which macOS lacks. `accept` replaces the system's for a libzmq that is linked
//       statically, and perhaps not for a shared one
//     - the linker options of libtwofold.so in Package.swift, which are for Linux
@_exported public import Glibc
