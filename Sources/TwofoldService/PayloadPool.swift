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

    private let budget: MemoryBudget
    private var buffers: [Buffer] = []

    /// Creates an empty pool, whose buffers are reserved in `budget`.
    package init(_ budget: MemoryBudget) { self.budget = budget }

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

        /// Creates a buffer for a reply.
        package init(in budget: MemoryBudget, size: Int) throws(EnvironmentError) {
            do throws(Reason) {
                reservation = try budget.reserve(size)
                memory = try OwnedMemory(byteCount: size)
            } catch {
                throw .exhausted("", "no memory for the reply: \(error)")
            }
            // because: a reply has gaps between its arrays, and its reader must not see another owner's old data there.
            bytes.initializeMemory(as: UInt8.self, repeating: 0)
        }
    }

    /// Returns a buffer of exactly `size` bytes. The buffer contains zeros or an earlier reply of the session.
    package func take(size: Int) throws(EnvironmentError) -> Buffer {
        let free = buffers.indices.first {
            buffers[$0].bytes.count == size && isKnownUniquelyReferenced(&buffers[$0])
        }
        if let free { return buffers[free] }
        if buffers.count == Self.capacity { buffers.removeFirst() }
        let fresh: Buffer
        do throws(EnvironmentError) { fresh = try Buffer(in: budget, size: size) } catch {
            // Drops the pool's free buffers before it refuses.
            buffers.removeAll()
            fresh = try Buffer(in: budget, size: size)
        }
        buffers.append(fresh)
        return fresh
    }
}
