internal import Dispatch
internal import Platform
internal import Synchronization

/// Returns the memory of ended sessions to the system.
///
/// The allocator keeps what was freed for the next allocation. After sessions of some size have ended it is
/// trimmed: a moment later (libzmq may still be sending the last reply), on another thread (it takes
/// milliseconds), and once for all that end together.
final class MemoryTrimmer: Sendable {
    /// Less than this stays with the allocator.
    private static let leastBytes = 4 << 20
    private static let delay = DispatchTimeInterval.milliseconds(200)

    private struct State {
        /// Bytes of the sessions that have ended since the last trim.
        var freed = 0
        /// Sessions that have ended so far.
        var ended = 0
    }

    private let state = Mutex(State())
    private let queue = DispatchQueue(label: "twofold.memory")

    /// To be called for each session that ends.
    func trim(afterFreeing bytes: Int) {
        let (isFirst, ended) = state.withLock { state in
            let before = state.freed
            state.freed += bytes
            state.ended += 1
            return (before < Self.leastBytes && state.freed >= Self.leastBytes, state.ended)
        }
        if isFirst { trimLater(unlessMoreThan: ended) }
    }

    /// Waits for as long as sessions go on to end: the memory of the last one is not free at once.
    private func trimLater(unlessMoreThan ended: Int) {
        queue.asyncAfter(deadline: .now() + Self.delay) { [self] in
            let now = state.withLock { state in
                if state.ended == ended { state.freed = 0 }
                return state.ended
            }
            if now == ended { returnFreedMemory() } else { trimLater(unlessMoreThan: now) }
        }
    }
}
