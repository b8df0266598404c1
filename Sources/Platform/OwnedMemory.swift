/// Memory of a size that a request decides: where the process can't have it, the request fails and not the process.
///
/// It has one owner, and is freed even if the object that was to own it can't be made.
package struct OwnedMemory: ~Copyable, @unchecked Sendable {
    /// The memory, aligned to a cache line; uninitialized.
    package let bytes: UnsafeMutableRawBufferPointer

    /// The first byte.
    package var start: UnsafeMutableRawPointer { bytes.baseAddress! }

    package init(byteCount: Int) throws(OutOfMemory) {
        let promise = try MemoryPromise.make(byteCount)
        defer { withExtendedLifetime(promise) {} }
        var start: UnsafeMutableRawPointer?
        guard posix_memalign(&start, 64, max(1, byteCount)) == 0 else { throw OutOfMemory(bytes: byteCount) }
        bytes = UnsafeMutableRawBufferPointer(start: start, count: byteCount)
    }

    deinit { free(bytes.baseAddress) }

    /// The memory as values of one type, each the same.
    package func initialized<Value>(repeating value: Value) -> UnsafeMutableBufferPointer<Value> {
        let values = bytes.bindMemory(to: Value.self)
        values.initialize(repeating: value)
        return values
    }
}

/// The system has no such memory left for this process.
package struct OutOfMemory: Error, CustomStringConvertible {
    package let bytes: Int

    package var description: String {
        let reason =
            memoryLeft().map {
                "its limits (ulimit -v, ulimit -d) leave \(max(0, $0)), and keep \(MemoryPromise.kept) free"
            } ?? "the system refuses them"
        return "this process needs \(bytes) bytes more; \(reason)"
    }
}
