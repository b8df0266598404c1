internal import Synchronization

/// Jobs that workers have finished, and the bell that gets the socket thread out of its poll.
final class Mailbox: Sendable {
    private let finished = Mutex<[Finished]>([])
    private let wakeup: Wakeup

    init() throws(ServerError) { wakeup = try Wakeup() }

    /// Readable while there is something to collect.
    var descriptor: Int32 { wakeup.descriptor }

    /// What a worker has done.
    enum Finished: Sendable {
        /// A session's request.
        case job(Job)
        /// A request of no session.
        case expand(ExpandJob)
    }

    /// Hands over a finished job, from any thread.
    func deliver(_ job: Finished) {
        finished.withLock { $0.append(job) }
        wakeup.ring()
    }

    /// Takes everything that was delivered.
    func collect() -> [Finished] {
        wakeup.silence()
        return finished.withLock { jobs in
            defer { jobs.removeAll(keepingCapacity: true) }
            return jobs
        }
    }
}
