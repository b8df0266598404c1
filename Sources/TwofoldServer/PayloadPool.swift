internal import CLinux
internal import ZeroMQ

/// The memory of one session's replies: buffers that go out to libzmq without a copy, or are read by a client
/// on the same machine, and are free again when libzmq and the ledger have both let go of the message.
///
/// Used by whoever executes the session's request. A message holds its buffer by a reference, so a
/// buffer that only the pool still refers to is free; nobody has to give it back.
final class PayloadPool {
    /// Buffers that are kept: a session's replies have up to three sizes, and two of each are enough
    /// for a client that waits for its replies.
    private static let capacity = 6
    /// What is shorter than this many bytes is sent as fast as it is told where to find it.
    private static let leastShared = 1 << 15
    /// What has more bytes than this does not stay in one processor's own cache, and may be written by several.
    private static let mostPrepared = 1 << 18

    private let own: MemoryBudget
    private let shared: MemoryBudget
    private var buffers: [Buffer] = []
    /// The size of the buffer that was taken last.
    private var latestSize = 0

    /// No buffers yet; those to come are reserved in the session's own budget, and beyond it in the one
    /// that all share.
    init(_ own: MemoryBudget, then shared: MemoryBudget) {
        self.own = own
        self.shared = shared
    }

    /// Memory of a fixed size, aligned to a cache line; private to this process, or shared with its clients.
    ///
    /// This is the room for the memory of replies. `@unchecked Sendable` because only one request
    /// writes it, while no message refers to it; afterwards it is only read.
    final class Buffer: @unchecked Sendable {
        let bytes: UnsafeMutableRawBufferPointer

        /// Whether others were to find the bytes; and where they do, if that was possible.
        let isShared: Bool
        let memory: SharedMemory?

        private let reservation: MemoryBudget.Reservation

        init(_ reservation: MemoryBudget.Reservation, shared: Bool) {
            self.reservation = reservation
            isShared = shared
            memory = shared ? SharedMemory(payload: reservation.bytes) : nil
            bytes = memory?.payload ?? .allocate(byteCount: reservation.bytes, alignment: 64)
        }

        deinit { if memory == nil { bytes.deallocate() } }
    }

    /// A buffer of exactly this many bytes, its content arbitrary; one that others can read, if that is wanted,
    /// worth it and possible.
    func take(size: Int, shared: Bool = false) throws(MemoryBudget.Exhausted) -> Buffer {
        let shared = shared && size >= Self.leastShared
        latestSize = size
        if let index = firstFree(size, shared) {
            buffers[index].memory?.renew()
            return buffers[index]
        }
        if buffers.count == Self.capacity { buffers.removeFirst() }
        let fresh = Buffer(try reserve(size), shared: shared)
        buffers.append(fresh)
        return fresh
    }

    /// To be called between a reply and the next request, while there is time. If that will take shared memory of
    /// the same size, its cache lines come here now: the client has read them on another processor, and the
    /// writing would wait for each (4096 boards: 15 to 25 microseconds where the two share no cache, as long as
    /// the step itself).
    func prepareNext() {
        guard latestSize <= Self.mostPrepared, let index = firstFree(latestSize, true) else { return }
        twofold_take_lines(buffers[index].bytes.baseAddress, latestSize)
    }

    private func firstFree(_ size: Int, _ shared: Bool) -> Int? {
        buffers.indices.first {
            buffers[$0].bytes.count == size && buffers[$0].isShared == shared
                && isKnownUniquelyReferenced(&buffers[$0])
        }
    }

    /// What is kept and free is given up before anything is refused.
    private func reserve(_ size: Int) throws(MemoryBudget.Exhausted) -> MemoryBudget.Reservation {
        if let reservation = reserveOnce(size) { return reservation }
        buffers.removeAll()
        if let reservation = try? own.reserve(size) { return reservation }
        return try shared.reserve(size)
    }

    private func reserveOnce(_ size: Int) -> MemoryBudget.Reservation? {
        (try? own.reserve(size)) ?? (try? shared.reserve(size))
    }
}
