internal import Platform
package import TwofoldCore

/// The memory of one session's replies: buffers that the ledger keeps and a carrier sends without a copy, and that
/// are free again when both have let go of them.
///
/// Used by the thread that carries the session's request out. A buffer that is needed is referred to, so one
/// that only the pool still refers to is free; it need not be given back.
package final class PayloadPool {
    /// Buffers that are kept: a session's replies have up to three sizes, and two of each are enough
    /// for a client that waits for its replies.
    private static let capacity = 6

    private let own: MemoryBudget
    private let longest: Int
    private let shared: MemoryBudget
    private var buffers: [Buffer] = []

    /// Creates a pool without buffers. It reserves a buffer of at most `longest` bytes in the session's own budget while
    /// that has room, and any other in the budget that all sessions share.
    package init(_ own: MemoryBudget, upTo longest: Int, then shared: MemoryBudget) {
        self.own = own
        self.longest = longest
        self.shared = shared
    }

    /// Memory of a fixed size, aligned to a cache line.
    ///
    /// This is the room for the memory of replies. `@unchecked Sendable` because only one request
    /// writes it, while no message refers to it; afterwards it is only read.
    package final class Buffer: @unchecked Sendable {
        package var bytes: UnsafeMutableRawBufferPointer { memory.bytes }
        private let memory: OwnedMemory
        private let reservation: MemoryBudget.Reservation

        /// The first bytes.
        package func frame(_ count: Int) -> Frame {
            Frame(UnsafeRawBufferPointer(rebasing: bytes[..<count]), of: self)
        }

        package init(_ reservation: MemoryBudget.Reservation) throws(MemoryBudget.Exhausted) {
            self.reservation = reservation
            do throws(OutOfMemory) { memory = try OwnedMemory(byteCount: reservation.bytes) } catch {
                throw MemoryBudget.Exhausted(error)
            }
            // because: a reply has gaps between its arrays, and what others have left in memory is not for its reader.
            bytes.initializeMemory(as: UInt8.self, repeating: 0)
        }

        /// The memory of a reply that belongs to no session.
        package convenience init(in budget: MemoryBudget, size: Int) throws(EnvironmentError) {
            do throws(MemoryBudget.Exhausted) { try self.init(try budget.reserve(size)) } catch {
                throw .exhausted("", "no memory for the reply: \(error)")
            }
        }
    }

    /// A buffer of exactly this many bytes, its content arbitrary: zeros, or what an earlier reply has left.
    package func take(size: Int) throws(MemoryBudget.Exhausted) -> Buffer {
        let free = buffers.indices.first {
            buffers[$0].bytes.count == size && isKnownUniquelyReferenced(&buffers[$0])
        }
        if let free { return buffers[free] }
        if buffers.count == Self.capacity { buffers.removeFirst() }
        let fresh: Buffer
        do throws(MemoryBudget.Exhausted) { fresh = try make(size) } catch {
            // Buffers that are kept and free are given up before anything is refused.
            buffers.removeAll()
            fresh = try make(size)
        }
        buffers.append(fresh)
        return fresh
    }

    private func make(_ size: Int) throws(MemoryBudget.Exhausted) -> Buffer {
        // because: a long reply that the ledger keeps would leave the next step no room.
        if size <= longest, let mine = try? own.reserve(size) { return try Buffer(mine) }
        return try Buffer(try shared.reserve(size))
    }
}
