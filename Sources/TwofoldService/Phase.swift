internal import Synchronization
package import TwofoldCore

/// The phases of a server from start to end. The text below an arrow is the condition for the next phase.
///
///     serving ──► draining ──► refusing ──► late ──► ended
///             stop       all read,      1 s     nothing in progress,
///                        or 1 s                 or 5 s after the stop
package enum Phase: UInt8, Comparable, AtomicRepresentable {
    /// The server accepts all requests.
    case serving
    /// The server still accepts requests that arrived before the stop. Each rollout ends after its current step.
    case draining
    /// The server refuses new requests, and searches that have not started, with the error SHUTTING_DOWN.
    case refusing
    /// The server also refuses accepted requests that are still waiting for a thread.
    case late
    /// The server has ended. It does not wait for requests that are still in progress.
    case ended

    package static func < (left: Phase, right: Phase) -> Bool { left.rawValue < right.rawValue }
}

/// The server's current phase. Any thread may read it, but only the socket thread changes it.
package final class CurrentPhase: Sendable {
    private let phase = Atomic(Phase.serving)

    package var value: Phase { phase.load(ordering: .relaxed) }

    /// Whether the server is about to stop.
    package var isStopping: Bool { value > .serving }

    package init() {}

    package func enter(_ next: Phase) { phase.store(next, ordering: .relaxed) }
}

/// The timetable for stopping a server. It has no clock: callers pass the current moment.
package struct Stop {
    private static let drainTime = Duration.seconds(1)
    private static let stopTime = Duration.seconds(5)

    /// The moment by which draining must end. Until then, the server reads messages that arrived before the stop.
    package let drainEnd: Moment
    private let end: Moment

    /// Creates the timetable of a stop that was requested at `begin`.
    package init(at begin: Moment) {
        drainEnd = begin + Self.drainTime
        end = begin + Self.stopTime
    }

    /// Returns the phase at `now`, once draining has ended, and the moment when that phase ends unless the last job
    /// ends earlier. Even if no job is in progress, the server refuses requests until `refusalEnd`, so that clients
    /// learn to retry.
    package func phase(at now: Moment, refusalEnd: Moment, jobsInProgress: Int) -> (
        phase: Phase, until: Moment
    ) {
        let end = jobsInProgress > 0 ? end : refusalEnd
        guard now < end else { return (.ended, end) }
        return now < drainEnd ? (.refusing, min(drainEnd, end)) : (.late, end)
    }
}
