internal import CLinux

/// A bell: any thread rings it, and the thread that polls its descriptor wakes up.
///
/// Rings that have not been heard yet count as one.
package final class Wakeup: Sendable {
    private let event: Descriptor

    /// An eventfd, readable from a ring until it is silenced.
    package var descriptor: Int32 { event.number }

    package init() throws(SystemError) {
        event = try Descriptor(named: "eventfd") { eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK)) }
    }

    /// Wakes the thread that polls, now or the next time; never waits.
    package func ring() {
        // because: it fails only after 2^64 - 1 rings that were not heard, and then it is readable anyway.
        _ = try? system { eventfd_write(descriptor, 1) }
    }

    /// Forgets all rings so far: silence first, then look at what is new.
    package func silence() {
        var rings: eventfd_t = 0
        // because: it fails only without a ring, which is what is wanted.
        _ = try? system { eventfd_read(descriptor, &rings) }
    }
}
