internal import Dispatch
internal import Platform
internal import TwofoldCore
internal import TwofoldService
internal import TwofoldSessions

/// The queues on which jobs are carried out that take long; they come back through the mailbox.
///
///     job ──► queue, searches ──► mailbox ──► outcome
///
/// Belongs to the socket thread; what the queues' threads use of it is Sendable.
final class JobRunner {
    let mailbox: Mailbox
    private let service: EnvironmentService
    private let budget: MemoryBudget
    private let phase: CurrentPhase
    private let queue = DispatchQueue(label: "twofold.batches", attributes: .concurrent)
    private let searches = DispatchQueue(label: "twofold.searches")
    private let jobDidBegin: (@Sendable () -> Void)?

    init(_ requests: Requests) throws(SystemError) {
        (service, budget, phase) = (requests.service, requests.budget, requests.phase)
        mailbox = try Mailbox()
        jobDidBegin = requests.configuration.jobDidBegin
    }

    /// Carries a job out on this thread.
    func perform(_ job: Job) -> Job.Outcome { job.perform(service, budget) }

    /// Hands a job over to a queue.
    func handOver(_ job: Job, isSearch: Bool) {
        (isSearch ? searches : queue).async { [service, budget, phase, mailbox, jobDidBegin] in
            guard !job.isTooLate(in: phase.value) else {
                return mailbox.deliver(job, .refused(Job.stopping))
            }
            jobDidBegin?()
            mailbox.deliver(job, job.perform(service, budget))
        }
    }
}
