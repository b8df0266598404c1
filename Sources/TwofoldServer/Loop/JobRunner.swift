internal import Dispatch
internal import Platform
internal import TwofoldService
internal import TwofoldSessions

/// The queues that run long work outside the socket thread. The results come back through the mailbox.
///
///     work ──► queue, searches or statistics ──► mailbox ──► work and result
///
/// The runner belongs to the socket thread. The queues' threads use only its Sendable parts.
final class JobRunner {
    let mailbox: Mailbox<(work: Work, result: Result<StoredReply, ServiceError>)>
    private let service: EnvironmentService
    private let budget: MemoryBudget
    private let phase: CurrentPhase
    private let queue = DispatchQueue(label: "twofold.batches", attributes: .concurrent)
    private let searches = DispatchQueue(label: "twofold.searches")
    /// The queue for statistics. It has its own quality-of-service class, so batches never occupy its threads.
    private let statistics = DispatchQueue(label: "twofold.statistics", qos: .userInitiated)
    private let jobDidBegin: (@Sendable () -> Void)?

    init(_ machine: SessionMachine, jobDidBegin: (@Sendable () -> Void)?) throws(SystemError) {
        (service, budget, phase) = (machine.service, machine.budget, machine.phase)
        mailbox = try Mailbox()
        self.jobDidBegin = jobDidBegin
    }

    /// Starts work on the queue for `place`. The result arrives in the mailbox.
    func handOver(_ work: Work, to place: Work.Place) {
        let (queue, jobDidBegin) =
            switch place {
            case .searches: (searches, jobDidBegin)
            case .statistics: (statistics, nil)
            case .queue, .here: (queue, jobDidBegin)
            }
        queue.async { [service, budget, phase, mailbox] in
            guard !work.isTooLate(in: phase.value) else {
                return mailbox.deliver((work, .failure(.stopping)))
            }
            jobDidBegin?()
            mailbox.deliver((work, work.perform(service, budget)))
        }
    }
}
