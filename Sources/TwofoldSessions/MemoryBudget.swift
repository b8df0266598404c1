package import Platform
internal import Synchronization

/// The memory limit for all sessions together, and the memory in use.
///
/// Boards, reply buffers, stored requests and policies each hold a ``Reservation`` as long as they exist. The memory
/// in use is therefore always exact. For example, it includes a reply that has yet to be sent to a slow client.
package final class MemoryBudget: Sendable {
    /// The limit, in bytes.
    package let limit: Int
    private let reserved = Atomic(0)
    /// The reservation of this budget's bytes in a larger budget; nil if this budget is not part of another. It lasts
    /// as long as any of the bytes are in use.
    private let whole: Reservation?

    package init(limit: Int) {
        self.limit = limit
        whole = nil
    }

    /// Creates a separate budget of `bytes` bytes, which are reserved in this budget.
    package func part(_ bytes: Int) throws(Exhausted) -> MemoryBudget { MemoryBudget(try reserve(bytes)) }

    private init(_ whole: Reservation) {
        limit = whole.bytes
        self.whole = whole
    }

    /// The number of bytes that are currently reserved.
    package var used: Int { reserved.load(ordering: .relaxed) }

    /// A reserved part of the budget. It is released on deinitialisation.
    package final class Reservation: Sendable {
        private let held: Atomic<Int>
        private let budget: MemoryBudget
        private let promise: MemoryPromise?

        fileprivate init(_ budget: MemoryBudget, bytes: Int, _ promise: MemoryPromise?) {
            self.budget = budget
            held = Atomic(bytes)
            self.promise = promise
        }

        package var bytes: Int { held.load(ordering: .relaxed) }

        /// Adds bytes to the reservation. Throws if the budget has fewer bytes left.
        package func grow(by bytes: Int) throws(Exhausted) {
            try budget.claim(bytes)
            held.add(bytes, ordering: .relaxed)
        }

        deinit { budget.reserved.subtract(bytes, ordering: .relaxed) }
    }

    /// Creates an empty reservation, which can grow later.
    package func reserveNothing() -> Reservation { Reservation(self, bytes: 0, nil) }

    /// Reserves `bytes` bytes. Throws if the budget has fewer bytes left. Any thread may call it.
    package func reserve(_ bytes: Int) throws(Exhausted) -> Reservation {
        try claim(bytes)
        return Reservation(self, bytes: bytes, nil)
    }

    /// Reserves bytes for an allocation that can't report failure. The reservation guarantees that the allocation
    /// fits within the process's own memory limits.
    package func reservePromised(_ bytes: Int) throws(Exhausted) -> Reservation {
        let promise: MemoryPromise
        do throws(OutOfMemory) { promise = try MemoryPromise.make(bytes) } catch { throw Exhausted(error) }
        try claim(bytes)
        return Reservation(self, bytes: bytes, promise)
    }

    private func claim(_ bytes: Int) throws(Exhausted) {
        precondition(bytes >= 0)
        var now = reserved.load(ordering: .relaxed)
        while true {
            let (sum, overflow) = now.addingReportingOverflow(bytes)
            guard !overflow, sum <= limit else { throw Exhausted(bytes, limit) }
            let (isDone, found) = reserved.compareExchange(expected: now, desired: sum, ordering: .relaxed)
            if isDone { return }
            now = found
        }
    }

    /// The error thrown when the budget or the process has too little memory left.
    package struct Exhausted: Error, CustomStringConvertible {
        package let description: String

        fileprivate init(_ bytes: Int, _ limit: Int) {
            description =
                "\(bytes) more bytes are needed, but fewer are left: this server allows max_bytes = \(limit) for all "
                + "sessions together"
        }

        package init(_ error: OutOfMemory) { description = error.description }
    }
}
