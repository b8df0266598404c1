import CLinux
import Dispatch
import Glibc
import Testing

/// If two modules declare one of glibc's types differently, they do not compile together once a file that
/// imports both uses the type. Other files may or may not do so, from build to build; this file always does.
@Test func `system types are the same for CLinux, Dispatch and Glibc`() {
    #expect(MemoryLayout<fd_set>.size * 8 == FD_SETSIZE)
    #expect(MemoryLayout<sigset_t>.size > 0 && MemoryLayout<stat>.size > 0)
    var mask = [UInt](repeating: 0, count: 1024)
    #expect(twofold_read_affinity(&mask, mask.count * MemoryLayout<UInt>.size))
}
