internal import CLinux
internal import Dispatch
internal import Synchronization

/// Gives the memory of ended sessions back to the system.
///
/// The allocator keeps what was freed for the next one who asks. After sessions of some size have ended
/// it is told to let go, a moment later (libzmq may still be sending the last reply), on another thread
/// (it takes milliseconds), and once for all that end together.
final class MemoryTrimmer: Sendable {
    /// What is less stays with the allocator.
    private static let worthwhile = 4 << 20
    private static let delay = DispatchTimeInterval.milliseconds(200)

    private struct State {
        /// Bytes of the sessions that have ended since the last clearing.
        var freed = 0
        /// Sessions that have ended so far.
        var ended = 0
    }

    private let state = Mutex(State())
    private let queue = DispatchQueue(label: "twofold.memory")

    /// To be told of each session that ends.
    func clear(afterFreeing bytes: Int) {
        let (isFirst, ended) = state.withLock { state in
            let before = state.freed
            state.freed += bytes
            state.ended += 1
            return (before < Self.worthwhile && state.freed >= Self.worthwhile, state.ended)
        }
        if isFirst { clearLater(unlessMoreThan: ended) }
    }

    /// Waits for as long as sessions go on to end: what the last one had is not free at once.
    private func clearLater(unlessMoreThan ended: Int) {
        queue.asyncAfter(deadline: .now() + Self.delay) { [self] in
            let now = state.withLock { state in
                if state.ended == ended { state.freed = 0 }
                return state.ended
            }
            if now == ended { malloc_trim(0) } else { clearLater(unlessMoreThan: now) }
        }
    }
}
