internal import CLinux
internal import Glibc
internal import Synchronization

/// Jobs that workers have finished, and a descriptor that wakes the socket thread out of its poll.
final class Mailbox: Sendable {
    private let finished = Mutex<[Job]>([])
    private let wake: Descriptor

    init() throws(ServerError) {
        wake = try Descriptor(eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK)), "eventfd")
    }

    /// Readable while there is something to collect.
    var descriptor: Int32 { wake.number }

    /// Hands over a finished job, from any thread.
    func deliver(_ job: Job) {
        finished.withLock { $0.append(job) }
        eventfd_write(wake.number, 1)
    }

    /// Takes everything that was delivered.
    func collect() -> [Job] {
        var count: eventfd_t = 0
        eventfd_read(wake.number, &count)
        return finished.withLock { jobs in
            defer { jobs.removeAll(keepingCapacity: true) }
            return jobs
        }
    }
}

/// An open file descriptor; closes with the last reference.
final class Descriptor: Sendable {
    let number: Int32

    /// Takes the result of a C call that opens a descriptor.
    init(_ number: Int32, _ call: String) throws(ServerError) {
        guard number >= 0 else {
            throw ServerError("\(call) failed: \(String(cString: strerror(errno)))")
        }
        self.number = number
    }

    deinit { close(number) }
}
