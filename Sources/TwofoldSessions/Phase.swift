internal import Synchronization
package import TwofoldCore

/// The phases of a server from its start to its end.
///
///     serving ──► draining ──► refusing ──► late ──► ended
///             stop       all taken,     1 s     nothing in progress,
///                        or 1 s                 or 5 s after the stop
package enum Phase: UInt8, Comparable, AtomicRepresentable {
    /// The server takes all requests.
    case serving
    /// The server still takes requests that arrived before the stop. Rollouts end after the step in progress.
    case draining
    /// The server refuses new requests and waiting searches as SHUTTING_DOWN.
    case refusing
    /// The server also refuses jobs that wait for a thread.
    case late
    /// The server has ended, and waits for no job that is still in progress.
    case ended

    package static func < (left: Phase, right: Phase) -> Bool { left.rawValue < right.rawValue }
}

/// The current phase, which any thread may read. Only the socket thread changes it.
package final class CurrentPhase: Sendable {
    private let phase = Atomic(Phase.serving)

    package var value: Phase { phase.load(ordering: .relaxed) }

    package init() {}

    package func enter(_ next: Phase) { phase.store(next, ordering: .relaxed) }
}

/// The schedule of a stop. It has no clock.
package struct Stop {
    private static let drainTime = Duration.seconds(1)
    private static let stopTime = Duration.seconds(5)

    /// The moment until which the server takes messages that had arrived before the stop.
    package let drainEnd: Moment
    private let end: Moment

    /// Creates the schedule of a stop that was requested at `begin`.
    package init(at begin: Moment) {
        drainEnd = begin + Self.drainTime
        end = begin + Self.stopTime
    }

    /// Returns the phase after draining, and the moment until which it lasts if nothing happens. Even with nothing in
    /// progress, the server refuses requests until `refusalEnd`, so that clients learn to retry.
    package func phase(at now: Moment, refusalEnd: Moment, jobsInProgress: Int) -> (
        phase: Phase, until: Moment
    ) {
        let end = jobsInProgress > 0 ? end : refusalEnd
        guard now < end else { return (.ended, end) }
        return now < drainEnd ? (.refusing, min(drainEnd, end)) : (.late, end)
    }
}
