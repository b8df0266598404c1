package import Platform
internal import Synchronization

/// How many bytes all sessions together may take, and how many they have taken.
///
/// Boards, the memory of replies, the requests that are kept and the policies each hold a ``Reservation`` for as long
/// as they live, so the count is right at any time: it includes a reply that a carrier still has to send to a
/// client that doesn't read.
package final class MemoryBudget: Sendable {
    /// The limit, in bytes.
    package let limit: Int
    private let reserved = Atomic(0)
    /// The bytes that this budget has of another one; kept for as long as anything of it is in use.
    private let whole: Reservation?

    package init(limit: Int) {
        self.limit = limit
        whole = nil
    }

    /// A budget of so many bytes that are reserved in this one.
    package func part(_ bytes: Int) throws(Exhausted) -> MemoryBudget { MemoryBudget(try reserve(bytes)) }

    private init(_ whole: Reservation) {
        limit = whole.bytes
        self.whole = whole
    }

    /// Bytes that are reserved now.
    package var used: Int { reserved.load(ordering: .relaxed) }

    /// A part of the budget, given back when it goes.
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

        /// Adds bytes to the reservation; throws ``Exhausted`` if the budget has too few left.
        package func grow(by bytes: Int) throws(Exhausted) {
            try budget.claim(bytes)
            held.add(bytes, ordering: .relaxed)
        }

        deinit { budget.reserved.subtract(bytes, ordering: .relaxed) }
    }

    /// A reservation of no bytes, to grow.
    package func reserveNothing() -> Reservation { Reservation(self, bytes: 0, nil) }

    /// Reserves so many bytes; throws ``Exhausted`` when fewer are left. Any thread may call it.
    package func reserve(_ bytes: Int) throws(Exhausted) -> Reservation {
        try claim(bytes)
        return Reservation(self, bytes: bytes, nil)
    }

    /// The same for bytes that are about to be allocated where that can't fail: the process may have them, for as long
    /// as the reservation lasts.
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

    /// Fewer bytes are left, in the budget or to the process.
    package struct Exhausted: Error, CustomStringConvertible {
        package let description: String

        fileprivate init(_ bytes: Int, _ limit: Int) {
            description =
                "\(bytes) bytes more are needed; this server allows max_bytes = \(limit) for all sessions "
                + "together, and too much of that is in use"
        }

        package init(_ error: OutOfMemory) { description = error.description }
    }
}
