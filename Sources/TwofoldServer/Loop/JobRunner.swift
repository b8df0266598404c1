internal import Dispatch
internal import Platform
internal import TwofoldCore
internal import TwofoldService
internal import TwofoldSessions

/// The queues on which jobs are carried out that take long; they come back through the mailbox.
///
///     job ──► queue, searches, statistics ──► mailbox ──► outcome
///
/// Belongs to the socket thread; what the queues' threads use of it is Sendable.
final class JobRunner {
    /// A job and its outcome.
    ///
    /// `@unchecked Sendable` because the mailbox's mutex stands between the worker's last write and the socket thread's
    /// first read.
    struct Finished: @unchecked Sendable {
        let job: Job
        let outcome: Job.Outcome
    }

    let mailbox: Mailbox<Finished>
    private let service: EnvironmentService
    private let budget: MemoryBudget
    private let phase: CurrentPhase
    private let queue = DispatchQueue(label: "twofold.batches", attributes: .concurrent)
    private let searches = DispatchQueue(label: "twofold.searches")
    /// Its class has threads that batches never take.
    private let statistics = DispatchQueue(label: "twofold.statistics", qos: .userInitiated)
    private let jobDidBegin: (@Sendable () -> Void)?

    init(_ requests: Requests) throws(SystemError) {
        (service, budget, phase) = (requests.service, requests.budget, requests.phase)
        mailbox = try Mailbox()
        jobDidBegin = requests.configuration.jobDidBegin
    }

    /// Carries a job out on this thread.
    func perform(_ job: Job) -> Job.Outcome { job.perform(service, budget) }

    /// Hands a job over to a queue.
    func handOver(_ job: Job, to place: Job.Place) {
        let (queue, jobDidBegin) =
            switch place {
            case .searches: (searches, jobDidBegin)
            case .statistics: (statistics, nil)
            case .queue, .here: (queue, jobDidBegin)
            }
        queue.async { [service, budget, phase, mailbox] in
            guard !job.isTooLate(in: phase.value) else {
                return mailbox.deliver(Finished(job: job, outcome: .refused(Job.stopping)))
            }
            jobDidBegin?()
            mailbox.deliver(Finished(job: job, outcome: job.perform(service, budget)))
        }
    }
}
