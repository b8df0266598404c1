internal import Glibc

/// A moment, in nanoseconds of the system's monotonic clock: a plain number, since two are taken for each
/// request.
package struct Moment: Comparable, Sendable {
    package let nanoseconds: Int

    package static var now: Moment {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Moment(nanoseconds: time.tv_sec * 1_000_000_000 + time.tv_nsec)
    }

    package static func < (left: Moment, right: Moment) -> Bool { left.nanoseconds < right.nanoseconds }

    /// Nanoseconds from another moment to this one.
    package static func - (left: Moment, right: Moment) -> Int { left.nanoseconds - right.nanoseconds }

    /// Seconds from this moment to now.
    package var age: Double { Double(Moment.now - self) / 1e9 }
}
