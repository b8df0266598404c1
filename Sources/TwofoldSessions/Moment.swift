internal import Platform

/// A moment of the system's monotonic clock, the one clock of ledger and server: whatever decides by time (limits, a
/// stop, statistics) is given the moment, and reads no clock itself.
///
/// A plain number, since two are taken for each request.
package struct Moment: Comparable, Sendable {
    package let nanoseconds: Int

    package static var now: Moment {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Moment(nanoseconds: time.tv_sec * 1_000_000_000 + time.tv_nsec)
    }

    package static func < (left: Moment, right: Moment) -> Bool { left.nanoseconds < right.nanoseconds }

    package static func + (moment: Moment, time: Duration) -> Moment {
        Moment(nanoseconds: moment.nanoseconds + Int(time / .nanoseconds(1)))
    }

    /// The time from another moment to this one.
    package static func - (left: Moment, right: Moment) -> Duration {
        .nanoseconds(left.nanoseconds - right.nanoseconds)
    }
}
