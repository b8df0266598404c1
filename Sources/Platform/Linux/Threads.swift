internal import CLinux
internal import Synchronization

/// The largest number of threads that this process, or a process that it was forked from, could start at once.
private let startable = Atomic(0)

/// Returns true if this process can start `count` more threads, and open the two descriptors that Dispatch needs for
/// its first thread. While no thread can be started, Dispatch waits; without the descriptors, it ends the process.
///
/// The memory for the threads' stacks is checked each time. Threads and descriptors are tried only if `count` exceeds
/// that of every earlier successful call; otherwise Dispatch has, or once had, as many.
package func canStartThreads(_ count: Int) -> Bool {
    if let left = memoryLeft(), left <= (count + 1) * threadStackBytes() { return false }
    if count <= startable.load(ordering: .relaxed) { return true }
    guard twofold_can_start_threads(count) else { return false }
    startable.store(count, ordering: .relaxed)
    return true
}
