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
        package let bytes: Int
        private let budget: MemoryBudget

        fileprivate init(_ budget: MemoryBudget, bytes: Int) {
            self.budget = budget
            self.bytes = bytes
        }

        deinit { budget.reserved.subtract(bytes, ordering: .relaxed) }
    }

    /// Reserves so many bytes; throws ``Exhausted`` when fewer are left. Any thread may call it.
    package func reserve(_ bytes: Int) throws(Exhausted) -> Reservation {
        precondition(bytes >= 0)
        var now = reserved.load(ordering: .relaxed)
        while true {
            let (sum, overflow) = now.addingReportingOverflow(bytes)
            guard !overflow, sum <= limit else { throw Exhausted(bytes: bytes, limit: limit) }
            let (isDone, found) = reserved.compareExchange(expected: now, desired: sum, ordering: .relaxed)
            if isDone { return Reservation(self, bytes: bytes) }
            now = found
        }
    }

    /// Fewer bytes are left.
    package struct Exhausted: Error, CustomStringConvertible {
        let bytes: Int
        let limit: Int

        package var description: String {
            "\(bytes) bytes more are needed; this server allows max_bytes = \(limit) for all sessions together, "
                + "and too much of that is in use"
        }
    }
}
