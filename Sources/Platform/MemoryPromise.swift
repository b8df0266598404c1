internal import Synchronization

/// A promise that the process can allocate some bytes within its own limits (`ulimit -v`, `ulimit -d`).
///
///     limit ┌──────────┬──────────────────┬──────┬───────────┐
///           │ in use   │ promised         │ left │ kept free │
///           └──────────┴──────────────────┴──────┴───────────┘
///
/// While the promise exists, no other promise includes these bytes. The part kept free serves small allocations
/// that must not fail.
package final class MemoryPromise: Sendable {
    /// The number of bytes that are never promised: 64 MiB, and the stacks of the threads that Dispatch may start.
    package static let kept = 64 << 20 + (availableProcessors() + 2) * threadStackBytes()
    /// The sum of all promises in bytes.
    private static let promised = Atomic(0)

    private let bytes: Int

    private init(_ bytes: Int) { self.bytes = bytes }

    deinit { Self.promised.subtract(bytes, ordering: .sequentiallyConsistent) }

    /// Promises this many bytes, or throws. Any thread may call it.
    package static func make(_ bytes: Int) throws(OutOfMemory) -> MemoryPromise {
        let all = promised.add(bytes, ordering: .sequentiallyConsistent).newValue
        let promise = MemoryPromise(bytes)
        // because: this reads the promised bytes before the bytes in use, so an allocation in between counts
        // twice rather than not at all.
        if let left = memoryLeft(), left - kept < all {
            returnFreedMemory()
            guard let left = memoryLeft(), left - kept >= all else { throw OutOfMemory(bytes: bytes) }
        }
        return promise
    }
}
