internal import Dispatch
internal import Platform
internal import TwofoldCore
internal import TwofoldService
internal import TwofoldSessions

/// Where jobs are carried out: here, or on a queue, from which they come back through the mailbox.
///
///     request ──► job ──► here (short) ───────────► outcome
///                  └────► queue, searches ─► mailbox ──┘
///
/// Belongs to the socket thread; what the queues' threads use of it is Sendable.
final class JobRunner {
    let service: EnvironmentService
    let budget: MemoryBudget
    private let currentPhase = CurrentPhase()
    let mailbox: Mailbox
    private let queue = DispatchQueue(label: "twofold.batches", attributes: .concurrent)
    private let searches = DispatchQueue(label: "twofold.searches")
    private let jobDidBegin: (@Sendable () -> Void)?
    /// Jobs on the queues, and those of them that belong to no session.
    private(set) var inProgress = 0
    private(set) var expansionsInProgress = 0

    init(_ configuration: ServerConfiguration) throws(SystemError) {
        service = configuration.service.service
        budget = MemoryBudget(limit: configuration.service.limits.maxBytes)
        mailbox = try Mailbox()
        jobDidBegin = configuration.jobDidBegin
    }

    var phase: Phase { currentPhase.value }

    /// Enters a phase, which decides what may still begin. Rollouts in progress end as soon as it is not `serving`.
    func enter(_ phase: Phase) {
        currentPhase.enter(phase)
        if phase > .serving { service.stop.set() }
    }

    /// Carries a job out if it is short; hands it to a queue otherwise, and returns nil.
    func perform(_ job: Job, isAlone: Bool) -> Job.Outcome? {
        switch job.place(isAlone: isAlone) {
        case .here: return job.perform(service, budget)
        case .queue: handOver(job, to: queue)
        case .searches: handOver(job, to: searches)
        }
        return nil
    }

    private func handOver(_ job: Job, to queue: DispatchQueue) {
        inProgress += 1
        if case .expand = job.task { expansionsInProgress += 1 }
        queue.async { [service, budget, currentPhase, mailbox, jobDidBegin] in
            guard !job.isTooLate(in: currentPhase.value) else {
                return mailbox.deliver(job, .refused(Job.stopping))
            }
            jobDidBegin?()
            mailbox.deliver(job, job.perform(service, budget))
        }
    }

    /// The jobs that the queues have finished.
    func collect() -> [Mailbox.Finished] {
        let finished = mailbox.collect()
        inProgress -= finished.count
        for finished in finished { if case .expand = finished.job.task { expansionsInProgress -= 1 } }
        return finished
    }
}
