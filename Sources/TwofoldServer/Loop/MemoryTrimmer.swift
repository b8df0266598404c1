internal import Dispatch
internal import Platform
internal import Synchronization

/// The trimmer that returns the memory of ended sessions to the system.
///
/// The allocator keeps freed memory for later allocations. After large sessions have ended, the trimmer gives this
/// memory back to the system. It first waits 200 ms, because libzmq may still be sending the last reply. It works
/// on another thread, because a trim takes milliseconds. Sessions that end together share one trim.
final class MemoryTrimmer: Sendable {
    /// The minimum number of freed bytes for a trim.
    private static let minBytes = 4 << 20
    private static let delay = DispatchTimeInterval.milliseconds(200)

    private struct State {
        /// The memory, in bytes, of the sessions that have ended since the last trim.
        var freed = 0
        /// The number of sessions that have ended so far.
        var ended = 0
    }

    private let state = Mutex(State())
    private let queue = DispatchQueue(label: "twofold.memory")

    /// Counts the memory of an ended session. Schedules a trim once enough memory has been freed. Call it for each
    /// session that ends.
    func trim(afterFreeing bytes: Int) {
        let (isFirst, ended) = state.withLock { state in
            let before = state.freed
            state.freed += bytes
            state.ended += 1
            return (before < Self.minBytes && state.freed >= Self.minBytes, state.ended)
        }
        if isFirst { trimLater(unlessMoreThan: ended) }
    }

    /// Trims once no further session has ended during the delay. Otherwise waits again, because a session's memory
    /// is freed only some time after the session's end.
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
