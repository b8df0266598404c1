internal import CLinux

/// A bell that any thread can ring to wake the thread that polls the bell's descriptor.
///
/// Several rings before the next `silence()` count as one.
package final class Wakeup: Sendable {
    private let event: Descriptor

    /// An eventfd that is readable between a `ring()` and the next `silence()`.
    package var descriptor: Int32 { event.number }

    package init() throws(SystemError) {
        event = try Descriptor(named: "eventfd") { eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK)) }
    }

    /// Wakes the polling thread, immediately or at its next poll. Never waits.
    package func ring() {
        // because: it fails only after 2^64 - 1 rings without silence, and then the descriptor is readable
        // anyway.
        _ = try? system { eventfd_write(descriptor, 1) }
    }

    /// Clears all rings received so far. Call it before looking for new work, so that a later ring is not lost.
    package func silence() {
        var rings: eventfd_t = 0
        // because: it fails only if there are no rings to clear.
        _ = try? system { eventfd_read(descriptor, &rings) }
    }
}
