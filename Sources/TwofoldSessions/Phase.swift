internal import Synchronization
package import TwofoldCore

/// How far a server is on its way from start to end.
///
///     serving ──► draining ──► refusing ──► late ──► ended
///             stop       all taken,     1 s     nothing in progress,
///                        or 1 s                 or 5 s after the stop
package enum Phase: UInt8, Comparable, AtomicRepresentable {
    /// Everything is taken.
    case serving
    /// What had arrived before the stop is still taken; rollouts end after the step in progress.
    case draining
    /// New requests are refused as SHUTTING_DOWN, and searches that wait for their turn, too.
    case refusing
    /// Jobs that wait for a thread are refused, too.
    case late
    /// Jobs that are still in progress are left alone.
    case ended

    package static func < (left: Phase, right: Phase) -> Bool { left.rawValue < right.rawValue }
}

/// The phase, as all threads see it. The socket thread alone changes it.
package final class CurrentPhase: Sendable {
    private let phase = Atomic(Phase.serving)

    package var value: Phase { phase.load(ordering: .relaxed) }

    package init() {}

    package func enter(_ next: Phase) { phase.store(next, ordering: .relaxed) }
}

/// When a stop goes from phase to phase. It has no clock.
package struct Stop {
    private static let drainTime = Duration.seconds(1)
    private static let stopTime = Duration.seconds(5)

    /// Until when messages that had arrived are taken.
    package let drainEnd: Moment
    private let end: Moment

    /// A stop that was asked for at `begin`.
    package init(at begin: Moment) {
        drainEnd = begin + Self.drainTime
        end = begin + Self.stopTime
    }

    /// The phase once all that had arrived was taken, and the moment until which it lasts if nothing happens. Even with
    /// nothing in progress, clients are refused (and so asked to come back) until `refusalEnd`.
    package func phase(at now: Moment, refusalEnd: Moment, jobsInProgress: Int) -> (
        phase: Phase, until: Moment
    ) {
        let end = jobsInProgress > 0 ? end : refusalEnd
        guard now < end else { return (.ended, end) }
        return now < drainEnd ? (.refusing, min(drainEnd, end)) : (.late, end)
    }
}
