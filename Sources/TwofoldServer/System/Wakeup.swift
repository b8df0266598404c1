internal import CLinux
internal import Glibc

/// A bell: any thread rings it, and the thread that polls its descriptor wakes up.
///
/// Rings that nobody has heard yet are one ring.
final class Wakeup: Sendable {
    /// An eventfd, readable from a ring until it is silenced.
    let descriptor: Int32

    init() throws(ServerError) {
        descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        guard descriptor >= 0 else {
            throw ServerError("eventfd failed: \(ServerError.reason)")
        }
    }

    deinit { close(descriptor) }

    /// Wakes whoever polls, now or the next time; never waits.
    func ring() {
        // Fails only when 2^64 - 1 rings were not heard, and then it is readable anyway.
        eventfd_write(descriptor, 1)
    }

    /// Forgets all rings so far: first this, then look at what is new.
    func silence() {
        var rings: eventfd_t = 0
        eventfd_read(descriptor, &rings)
    }
}
