internal import Platform
package import TwofoldCore

/// The reply buffers of one session. The ledger stores the replies in these buffers, and the server sends them
/// without copying.
///
/// Only the thread that executes the session's request uses the pool. A buffer is free when only the pool refers to
/// it, so nobody has to return buffers.
package final class PayloadPool {
    /// The maximum number of buffers. A session's replies have at most three common sizes, and a client that waits
    /// for each reply needs two buffers of each size.
    private static let capacity = 6

    private let own: MemoryBudget
    private let longest: Int
    private let shared: MemoryBudget
    private var buffers: [Buffer] = []

    /// Creates an empty pool. Buffers of at most `longest` bytes are reserved in the session's own budget while it
    /// has room. All other buffers are reserved in the budget that all sessions share.
    package init(_ own: MemoryBudget, upTo longest: Int, then shared: MemoryBudget) {
        self.own = own
        self.longest = longest
        self.shared = shared
    }

    /// Memory of a fixed size, aligned to a cache line (64 bytes).
    ///
    /// `@unchecked Sendable` because one request writes the memory before any message refers to it. Afterwards the
    /// memory is only read.
    package final class Buffer: @unchecked Sendable {
        package var bytes: UnsafeMutableRawBufferPointer { memory.bytes }
        private let memory: OwnedMemory
        private let reservation: MemoryBudget.Reservation

        /// Returns the first `count` bytes as a frame, which keeps the buffer alive.
        package func frame(_ count: Int) -> Frame {
            Frame(UnsafeRawBufferPointer(rebasing: bytes[..<count]), of: self)
        }

        package init(_ reservation: MemoryBudget.Reservation) throws(MemoryBudget.Exhausted) {
            self.reservation = reservation
            do throws(OutOfMemory) { memory = try OwnedMemory(byteCount: reservation.bytes) } catch {
                throw MemoryBudget.Exhausted(error)
            }
            // because: a reply has gaps between its arrays, and its reader must not see another owner's old data there.
            bytes.initializeMemory(as: UInt8.self, repeating: 0)
        }

        /// Creates a buffer for a reply outside any session.
        package convenience init(in budget: MemoryBudget, size: Int) throws(EnvironmentError) {
            do throws(MemoryBudget.Exhausted) { try self.init(try budget.reserve(size)) } catch {
                throw .exhausted("", "no memory for the reply: \(error)")
            }
        }
    }

    /// Returns a buffer of exactly `size` bytes. The buffer contains zeros or an earlier reply of the session.
    package func take(size: Int) throws(MemoryBudget.Exhausted) -> Buffer {
        let free = buffers.indices.first {
            buffers[$0].bytes.count == size && isKnownUniquelyReferenced(&buffers[$0])
        }
        if let free { return buffers[free] }
        if buffers.count == Self.capacity { buffers.removeFirst() }
        let fresh: Buffer
        do throws(MemoryBudget.Exhausted) { fresh = try make(size) } catch {
            // Drops the pool's free buffers before it refuses.
            buffers.removeAll()
            fresh = try make(size)
        }
        buffers.append(fresh)
        return fresh
    }

    private func make(_ size: Int) throws(MemoryBudget.Exhausted) -> Buffer {
        // because: a longer reply that the ledger keeps would use up the session's own budget, which steps need.
        if size <= longest, let mine = try? own.reserve(size) { return try Buffer(mine) }
        return try Buffer(try shared.reserve(size))
    }
}
