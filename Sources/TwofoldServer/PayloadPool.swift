internal import ZeroMQ

/// The memory of one session's replies: buffers that go out to libzmq without a copy, and are free
/// again when libzmq and the ledger have both let go of the message.
///
/// Used by whoever executes the session's request. A message holds its buffer by a reference, so a
/// buffer that only the pool still refers to is free; nobody has to give it back.
final class PayloadPool {
    /// Buffers that are kept: a session's replies have up to three sizes, and two of each are enough
    /// for a client that waits for its replies.
    private static let capacity = 6

    private var buffers: [Buffer] = []

    /// Memory of a fixed size, aligned to a cache line.
    ///
    /// This is the room for the memory of replies. `@unchecked Sendable` because only one request
    /// writes it, while no message refers to it; afterwards it is only read.
    final class Buffer: @unchecked Sendable {
        let bytes: UnsafeMutableRawBufferPointer

        init(size: Int) { bytes = .allocate(byteCount: size, alignment: 64) }

        deinit { bytes.deallocate() }
    }

    /// A buffer of exactly this many bytes, its content arbitrary.
    func take(size: Int) -> Buffer {
        for index in buffers.indices
        where buffers[index].bytes.count == size && isKnownUniquelyReferenced(&buffers[index]) {
            return buffers[index]
        }
        let fresh = Buffer(size: size)
        if buffers.count == Self.capacity { buffers.removeFirst() }
        buffers.append(fresh)
        return fresh
    }
}
