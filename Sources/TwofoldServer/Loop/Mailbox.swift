internal import Platform
internal import Synchronization

/// Jobs that workers have finished, and the bell that gets the socket thread out of its poll.
final class Mailbox: Sendable {
    private let finished = Mutex<[Finished]>([])
    private let wakeup: Wakeup

    init() throws(SystemError) { wakeup = try Wakeup() }

    /// Readable while there is something to collect.
    var descriptor: Int32 { wakeup.descriptor }

    /// A job, and what it became.
    ///
    /// `@unchecked Sendable` because the mailbox's mutex stands between the worker's last write and the socket thread's
    /// first read.
    struct Finished: @unchecked Sendable {
        let job: Job
        let outcome: Job.Outcome
    }

    /// Hands over a finished job, from any thread.
    func deliver(_ job: Job, _ outcome: Job.Outcome) {
        finished.withLock { $0.append(Finished(job: job, outcome: outcome)) }
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
