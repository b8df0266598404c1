internal import Dispatch
internal import Platform
internal import Synchronization

/// The part of the server that returns the memory of ended sessions to the system.
///
/// The allocator keeps freed memory for its next allocation. The trimmer returns it after large sessions have
/// ended. It waits a moment, because libzmq may still be sending the last reply. It works on another thread,
/// because this takes milliseconds, and once for all sessions that end together.
final class MemoryTrimmer: Sendable {
    /// The minimum number of freed bytes that are worth returning.
    private static let minBytes = 4 << 20
    private static let delay = DispatchTimeInterval.milliseconds(200)

    private struct State {
        /// The bytes of the sessions that have ended since the last trim.
        var freed = 0
        /// The number of sessions that have ended so far.
        var ended = 0
    }

    private let state = Mutex(State())
    private let queue = DispatchQueue(label: "twofold.memory")

    /// Counts the memory of an ended session, and schedules a trim if enough memory is free. Call it for each session.
    func trim(afterFreeing bytes: Int) {
        let (isFirst, ended) = state.withLock { state in
            let before = state.freed
            state.freed += bytes
            state.ended += 1
            return (before < Self.minBytes && state.freed >= Self.minBytes, state.ended)
        }
        if isFirst { trimLater(unlessMoreThan: ended) }
    }

    /// Trims after a delay in which no further session has ended. Each session's memory becomes free only some
    /// time after its end.
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
