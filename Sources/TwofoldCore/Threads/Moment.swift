internal import Platform

/// A moment of a monotonic clock: the system's, or a simulation's. Whatever decides by time (limits, a stop, statistics)
/// is given the moment; what has to look while it works, as a search does, is given a ``Clock``.
///
/// A plain number, since two are taken for each request.
public struct Moment: Comparable, Sendable {
    /// Since the clock's own beginning.
    public let nanoseconds: Int

    /// So many nanoseconds after the clock's beginning.
    public init(nanoseconds: Int) { self.nanoseconds = nanoseconds }

    /// The system's, now.
    public static var now: Moment {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Moment(nanoseconds: time.tv_sec * 1_000_000_000 + time.tv_nsec)
    }

    /// Whether it is earlier.
    public static func < (left: Moment, right: Moment) -> Bool { left.nanoseconds < right.nanoseconds }

    /// The moment so much later.
    public static func + (moment: Moment, time: Duration) -> Moment {
        Moment(nanoseconds: moment.nanoseconds + Int(time / .nanoseconds(1)))
    }

    /// The moment so much earlier.
    public static func - (moment: Moment, time: Duration) -> Moment {
        Moment(nanoseconds: moment.nanoseconds - Int(time / .nanoseconds(1)))
    }

    /// The time from another moment to this one.
    public static func - (left: Moment, right: Moment) -> Duration {
        .nanoseconds(left.nanoseconds - right.nanoseconds)
    }
}

/// Where the time comes from; the system's clock but in a simulation.
public struct Clock: Sendable {
    /// The time now; any thread may ask.
    public let now: @Sendable () -> Moment

    /// A clock that is read by calling `now`.
    public init(now: @escaping @Sendable () -> Moment) { self.now = now }

    /// The system's monotonic clock.
    public static let system = Clock { .now }
}

/// The end of what may take long: a moment, or a stop that comes earlier.
public struct Deadline: Sendable {
    private let moment: Moment
    private let clock: Clock
    private let stop: Flag?

    /// This long after now on the clock; earlier once `stop` is set.
    public init(after time: Duration, on clock: Clock, or stop: Flag? = nil) {
        moment = clock.now() + time
        self.clock = clock
        self.stop = stop
    }

    var hasPassed: Bool { stop?.isSet == true || clock.now() >= moment }
}
