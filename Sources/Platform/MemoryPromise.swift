internal import Synchronization

/// A promise that an allocation fits within the process's own limits (`ulimit -v`, `ulimit -d`).
///
///     limit ┌──────────┬──────────────────┬──────┬───────────┐
///           │ in use   │ promised         │ left │ kept free │
///           └──────────┴──────────────────┴──────┴───────────┘
///
/// While the promise exists, its bytes are not promised to another caller. The part kept free is for small
/// allocations that must not fail.
package final class MemoryPromise: Sendable {
    /// The number of bytes that are never promised: 64 MiB, plus the stacks of the threads that Dispatch may start.
    package static let kept = 64 << 20 + (availableProcessors() + 2) * threadStackBytes()
    /// The number of bytes in all current promises.
    private static let promised = Atomic(0)

    private let bytes: Int

    private init(_ bytes: Int) { self.bytes = bytes }

    deinit { Self.promised.subtract(bytes, ordering: .sequentiallyConsistent) }

    /// Promises this many bytes. Throws if the process's limits leave too little memory. Any thread may call it.
    package static func make(_ bytes: Int) throws(Reason) -> MemoryPromise {
        let all = promised.add(bytes, ordering: .sequentiallyConsistent).newValue
        let promise = MemoryPromise(bytes)
        // because: this reads the promised bytes before the bytes in use, so an allocation in between counts
        // twice rather than not at all.
        if let left = memoryLeft(), left - kept < all {
            returnFreedMemory()
            guard let left = memoryLeft(), left - kept >= all else { throw .outOfMemory(bytes) }
        }
        return promise
    }
}
