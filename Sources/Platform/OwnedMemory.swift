/// Memory whose size depends on a request. If the allocation fails, only the request fails, not the process.
///
/// The memory has exactly one owner. It is freed even if the owner's initialiser throws.
package struct OwnedMemory: ~Copyable, @unchecked Sendable {
    /// The memory, aligned to a cache line (64 bytes) and uninitialised.
    package let bytes: UnsafeMutableRawBufferPointer

    /// The address of the first byte.
    package var start: UnsafeMutableRawPointer { bytes.baseAddress! }

    package init(byteCount: Int) throws(Reason) {
        let promise = try MemoryPromise.make(byteCount)
        defer { withExtendedLifetime(promise) {} }
        var start: UnsafeMutableRawPointer?
        guard posix_memalign(&start, 64, max(1, byteCount)) == 0 else { throw .outOfMemory(byteCount) }
        bytes = UnsafeMutableRawBufferPointer(start: start, count: byteCount)
    }

    deinit { free(bytes.baseAddress) }

    /// Fills the memory with copies of `value`, and returns it as a buffer of that type.
    package func initialized<Value>(repeating value: Value) -> UnsafeMutableBufferPointer<Value> {
        let values = bytes.bindMemory(to: Value.self)
        values.initialize(repeating: value)
        return values
    }
}

extension Reason {
    /// Returns the error for an allocation for which the process has too little memory.
    static func outOfMemory(_ bytes: Int) -> Reason {
        let cause =
            memoryLeft().map {
                "its limits (ulimit -v, ulimit -d) leave \(max(0, $0)), of which \(MemoryPromise.kept) are reserved"
            } ?? "the system refuses to allocate them"
        return Reason("this process needs \(bytes) more bytes; \(cause)")
    }
}
