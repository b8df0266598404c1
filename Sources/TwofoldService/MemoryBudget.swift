package import Platform
internal import Synchronization
package import TwofoldCore

/// The memory limit for all sessions together, and the memory in use.
///
/// Boards, reply buffers, stored requests and policies each hold a ``Reservation`` as long as they exist. The memory
/// in use is therefore always exact. For example, it includes a reply that has yet to be sent to a slow client.
package final class MemoryBudget: Sendable {
    /// The limit, in bytes.
    package let limit: Int
    private let reserved = Atomic(0)
    /// The maximum size of a reservation, in bytes.
    private let longest: Int
    /// The reservation of this budget's bytes in a larger budget; nil if this budget is not part of another. It lasts
    /// as long as any of the bytes are in use.
    private let whole: Reservation?

    package convenience init(limit: Int) { self.init(limit: limit, longest: .max, whole: nil) }

    private init(limit: Int, longest: Int, whole: Reservation?) {
        self.limit = limit
        self.longest = longest
        self.whole = whole
    }

    /// Creates a part of this budget: `bytes` bytes that are reserved now, for reservations of at most `longest` bytes.
    /// A reservation that is longer or does not fit is made in this budget instead.
    package func part(_ bytes: Int, upTo longest: Int) throws(Reason) -> MemoryBudget {
        MemoryBudget(limit: bytes, longest: longest, whole: try reserve(bytes))
    }

    /// The number of bytes that are currently reserved.
    package var used: Int { reserved.load(ordering: .relaxed) }

    /// A reserved part of the budget. It is released on deinitialisation.
    package final class Reservation: Sendable {
        private let held: Atomic<Int>
        fileprivate let budget: MemoryBudget

        fileprivate init(_ budget: MemoryBudget, bytes: Int) {
            self.budget = budget
            held = Atomic(bytes)
        }

        package var bytes: Int { held.load(ordering: .relaxed) }

        /// Adds bytes to the reservation. Throws if the budget has fewer bytes left.
        package func grow(by bytes: Int) throws(Reason) {
            guard budget.claim(bytes) else { throw budget.refusal(of: bytes) }
            held.add(bytes, ordering: .relaxed)
        }

        deinit { budget.reserved.subtract(bytes, ordering: .relaxed) }
    }

    /// Creates an empty reservation, which can grow later.
    package func reserveNothing() -> Reservation { Reservation(self, bytes: 0) }

    /// Reserves `bytes` bytes. Throws if the budget has fewer bytes left. Any thread may call it.
    package func reserve(_ bytes: Int) throws(Reason) -> Reservation {
        if bytes <= longest, claim(bytes) { return Reservation(self, bytes: bytes) }
        guard let whole else { throw refusal(of: bytes) }
        return try whole.budget.reserve(bytes)
    }

    /// Claims bytes. Returns false if fewer are left.
    private func claim(_ bytes: Int) -> Bool {
        precondition(bytes >= 0)
        var now = reserved.load(ordering: .relaxed)
        while true {
            let (sum, overflow) = now.addingReportingOverflow(bytes)
            guard !overflow, sum <= limit else { return false }
            let (isDone, found) = reserved.compareExchange(expected: now, desired: sum, ordering: .relaxed)
            if isDone { return true }
            now = found
        }
    }

    /// Returns the refusal of bytes that are not left.
    private func refusal(of bytes: Int) -> Reason {
        Reason(
            "\(bytes) more bytes are needed, but fewer are left: this server allows max_bytes = \(limit) for all "
                + "sessions together")
    }
}

extension MemoryBudget.Reservation {
    /// Adds the memory of a batch's boards to the reservation.
    package func growForBoards(by bytes: Int) throws(EnvironmentError) {
        do throws(Reason) { try grow(by: bytes) } catch {
            throw .exhausted("num_envs", "no memory for the boards: \(error)")
        }
    }
}
