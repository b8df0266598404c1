// The operating system: its C library, which every other module imports from here, and system calls
// (`system`, `Descriptor`). The folder Linux holds the parts that exist on Linux only.
//
// A port to another system must rewrite that folder and CPlatform. On macOS, these replacements might work, but
// are untested:
//
//     Memory         availableMemory        sysctl hw.memsize, and getrlimit
//                    memoryLeft             getrlimit, and proc_pidinfo with PROC_PIDTASKINFO
//                    threadStackBytes       pthread_attr_getstacksize of a new pthread_attr_t
//                    returnFreedMemory      malloc_zone_pressure_relief
//     Processors     availableProcessors    sysctl hw.activecpu
//                    hasAVX2                the same
//     ProcessUsage   residentBytes          proc_pid_rusage
//                    descriptors            proc_pidinfo with PROC_PIDLISTFDS
//     Threads        canStartThreads        the same
//     Wakeup                                a kqueue with EVFILT_USER, or a pipe
//     Signals                               a kqueue with EVFILT_SIGNAL, or a pipe that a DispatchSource writes to
//     Connections    raiseDescriptorLimit   the same, but the constants have another type
//                    setConnectionCeilings, our own accept, if libzmq is linked statically: it cannot replace the
//                    refusedConnections     system's accept in a shared libzmq
//                    unixSocket             socket, then fcntl
//
// The linker options of libtwofold.so in Package.swift are for Linux, too.
@_exported public import Glibc
