package import Platform
internal import Synchronization

/// The maximum number of bytes for all sessions together, and the number in use.
///
/// Boards, reply buffers, kept requests and policies each hold a ``Reservation`` for as long as they live. So the count
/// is always right: it includes a reply that a carrier has yet to send to a slow client.
package final class MemoryBudget: Sendable {
    /// The limit, in bytes.
    package let limit: Int
    private let reserved = Atomic(0)
    /// The reservation of this budget's bytes in another budget. It lasts as long as any of them are in use.
    private let whole: Reservation?

    package init(limit: Int) {
        self.limit = limit
        whole = nil
    }

    /// Returns a new budget of `bytes` bytes, which are reserved in this one.
    package func part(_ bytes: Int) throws(Exhausted) -> MemoryBudget { MemoryBudget(try reserve(bytes)) }

    private init(_ whole: Reservation) {
        limit = whole.bytes
        self.whole = whole
    }

    /// The number of bytes reserved now.
    package var used: Int { reserved.load(ordering: .relaxed) }

    /// A reserved part of the budget; its deinitialiser releases it.
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

        /// Adds bytes to the reservation; throws if fewer are left.
        package func grow(by bytes: Int) throws(Exhausted) {
            try budget.claim(bytes)
            held.add(bytes, ordering: .relaxed)
        }

        deinit { budget.reserved.subtract(bytes, ordering: .relaxed) }
    }

    /// Returns an empty reservation, which can grow.
    package func reserveNothing() -> Reservation { Reservation(self, bytes: 0, nil) }

    /// Reserves `bytes` bytes; throws if fewer are left. Any thread may call it.
    package func reserve(_ bytes: Int) throws(Exhausted) -> Reservation {
        try claim(bytes)
        return Reservation(self, bytes: bytes, nil)
    }

    /// Reserves bytes for an allocation that can't report failure. While the reservation lasts, the process can
    /// allocate them.
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

    /// The error that too few bytes are left, in the budget or in the process.
    package struct Exhausted: Error, CustomStringConvertible {
        package let description: String

        fileprivate init(_ bytes: Int, _ limit: Int) {
            description =
                "\(bytes) more bytes are needed; this server allows max_bytes = \(limit) for all sessions "
                + "together, and fewer are left"
        }

        package init(_ error: OutOfMemory) { description = error.description }
    }
}
