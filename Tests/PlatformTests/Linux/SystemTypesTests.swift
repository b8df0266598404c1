import CLinux
import CPlatform
import Dispatch
import Glibc
import Testing

/// Uses glibc's types in a file that imports CLinux, CPlatform, Dispatch and Glibc. This file does not compile if two of these
/// modules declare the same type differently.
@Test func `system types are the same for CLinux, CPlatform, Dispatch and Glibc`() {
    #expect(MemoryLayout<fd_set>.size * 8 == FD_SETSIZE)
    #expect(MemoryLayout<sigset_t>.size > 0 && MemoryLayout<stat>.size > 0)
    #expect(twofold_affinity_count() > 0)
}
