/// A value that one thread at a time may use, also in a forked child.
///
/// Swift's `Mutex` keeps the kernel's id of the thread that holds it. A forked child still uses the ids of its parent's
/// threads, and ends with SIGILL when a second thread waits. A POSIX mutex has no such id.
package final class Locked<Value>: @unchecked Sendable {
    // because: a POSIX mutex needs an address that never changes.
    @usableFromInline let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    @usableFromInline var value: Value

    package init(_ value: sending Value) {
        self.value = value
        pthread_mutex_init(mutex, nil)
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    /// Calls `body` while no other thread uses the value.
    @inlinable package func withLock<Result, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body(&value)
    }

    /// Calls `body` if no other thread uses the value. Otherwise, returns nil without waiting.
    @inlinable package func withLockIfAvailable<Result>(_ body: (inout Value) -> Result) -> Result? {
        guard pthread_mutex_trylock(mutex) == 0 else { return nil }
        defer { pthread_mutex_unlock(mutex) }
        return body(&value)
    }
}
