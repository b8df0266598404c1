internal import Synchronization

/// Bytes that this process is about to allocate, and that its own limits (`ulimit -v`, `ulimit -d`) leave.
///
///     limit ┌──────────┬──────────────────┬──────┬───────────┐
///           │ in use   │ promised         │ left │ kept free │
///           └──────────┴──────────────────┴──────┴───────────┘
///
/// While the promise lasts, nobody else is promised the same bytes. What is kept free is for allocations that can't
/// fail: they are small.
package final class MemoryPromise: Sendable {
    /// Bytes that are never promised: 64 MiB, and the stacks of the threads that Dispatch may start.
    package static let kept = 64 << 20 + (availableProcessors() + 2) * threadStackBytes()
    /// Bytes of all promises.
    private static let promised = Atomic(0)

    private let bytes: Int

    private init(_ bytes: Int) { self.bytes = bytes }

    deinit { Self.promised.subtract(bytes, ordering: .sequentiallyConsistent) }

    /// A promise of so many bytes. Any thread may call it.
    package static func make(_ bytes: Int) throws(OutOfMemory) -> MemoryPromise {
        let all = promised.add(bytes, ordering: .sequentiallyConsistent).newValue
        let promise = MemoryPromise(bytes)
        // because: what others have promised is read before what is in use, so that an allocation in between counts
        // twice and not at all.
        if let left = memoryLeft(), left - kept < all {
            returnFreedMemory()
            guard let left = memoryLeft(), left - kept >= all else { throw OutOfMemory(bytes: bytes) }
        }
        return promise
    }
}
