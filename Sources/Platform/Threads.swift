internal import CPlatform
internal import Dispatch
internal import Synchronization

/// The number of threads that the last trial started, in this process or in a process from which it was forked; 0 after
/// a failure.
private let startable = Atomic(0)
/// The moment of the last check, in nanoseconds.
private let lastCheck = Atomic<UInt64>(0)
/// The time in nanoseconds after which threads are tried again. Dispatch ends a thread that was idle for five seconds.
private let trialLifetime: UInt64 = 2_000_000_000

/// Returns true if this process can start `count` more threads, and open the descriptors that come with them. Dispatch
/// needs three for its first thread, and one about once a second to count its running threads. libzmq needs five for
/// its two threads. While no thread can be started, Dispatch waits. Without the descriptors, Dispatch and libzmq end the
/// process, and so does libzmq without its threads.
///
/// The memory for the threads' stacks and one descriptor are checked each time. Threads and six descriptors are tried
/// after a pause between two calls, or if `count` is larger than in the last trial. In all other cases, Dispatch still
/// has these threads. `now` is the present time in nanoseconds.
package func canStartThreads(_ count: Int, at now: UInt64 = DispatchTime.now().uptimeNanoseconds) -> Bool {
    if let left = memoryLeft(), left <= (count + 1) * threadStackBytes() { return false }
    guard twofold_can_open() else { return false }
    let pause = now &- lastCheck.exchange(now, ordering: .relaxed)
    if pause < trialLifetime, count <= startable.load(ordering: .relaxed) { return true }
    // After a failure, the next call tries again.
    startable.store(0, ordering: .relaxed)
    guard twofold_can_start_threads(count) else { return false }
    startable.store(count, ordering: .relaxed)
    return true
}

/// Returns the address space that a new thread's stack occupies, in bytes; 0 if it can't be determined. A stack limit
/// (`ulimit -s`) above 1 GiB counts as 1 GiB, so that sums of stack sizes don't overflow.
func threadStackBytes() -> Int {
    var attributes = pthread_attr_t()
    var bytes = 0
    guard pthread_attr_init(&attributes) == 0 else { return 0 }
    defer { pthread_attr_destroy(&attributes) }
    return pthread_attr_getstacksize(&attributes, &bytes) == 0 ? min(bytes, 1 << 30) : 0
}
