internal import Dispatch
internal import Platform
internal import Synchronization

/// The trimmer that returns the memory of ended sessions to the system.
///
/// The allocator keeps freed memory for later allocations. After large sessions have ended, the trimmer gives this
/// memory back to the system. It first waits until no session has ended for 200 ms, because libzmq may still be sending
/// the last reply. It works on another thread, because a trim takes milliseconds.
final class MemoryTrimmer: Sendable {
    /// The minimum number of freed bytes for a trim.
    private static let minBytes = 4 << 20

    /// The memory, in bytes, of the sessions that have ended since the last trim.
    private let freed = Atomic(0)
    // because: any thread may use a source of Dispatch.
    nonisolated(unsafe) private let timer = DispatchSource.makeTimerSource(
        queue: DispatchQueue(label: "twofold.memory"))

    init() {
        timer.setEventHandler { [weak self] in
            self?.freed.store(0, ordering: .relaxed)
            returnFreedMemory()
        }
        timer.activate()
    }

    /// Counts the memory of an ended session. Schedules a trim once enough memory has been freed. Call it for each
    /// session that ends.
    func trim(afterFreeing bytes: Int) {
        guard freed.add(bytes, ordering: .relaxed).newValue >= Self.minBytes else { return }
        timer.schedule(deadline: .now() + .milliseconds(200))
    }
}
