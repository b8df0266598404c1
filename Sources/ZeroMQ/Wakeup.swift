internal import CZeroMQ

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

/// A bell: any thread rings it, a thread that polls hears it.
///
/// ```swift
/// let wakeup = try Wakeup()                                // ring() in any thread
/// let item = poller.add(descriptor: wakeup.descriptor, for: .input)
/// if poller[item].contains(.input) { wakeup.silence() }    // first this, then look at what is new
/// ```
///
/// Rings that nobody has heard yet are one ring. A class, because those who ring share it; it stays open
/// until the last of them has let go.
public final class Wakeup: Sendable {
    /// An eventfd: readable from a ring until it is silenced.
    public let descriptor: CInt

    /// A silent bell.
    ///
    /// The corresponding C function is `eventfd`.
    ///
    /// - Throws: `.tooManySockets` when the process is out of descriptors.
    public init() throws(ZeroMQError) {
        descriptor = try check("eventfd") { eventfd(0, CInt(EFD_NONBLOCK) | CInt(EFD_CLOEXEC)) }
    }

    deinit { close(descriptor) }

    /// Wakes whoever polls, now or the next time. Never waits.
    public func ring() {
        // because: it fails only when the counter is full after 2^64 - 1 rings, and then it is readable.
        eventfd_write(descriptor, 1)
    }

    /// Forgets all rings so far. Never waits.
    public func silence() {
        var rings: eventfd_t = 0
        // because: it fails only when there was no ring, which is as good.
        eventfd_read(descriptor, &rings)
    }
}
