internal import Platform

/// A moment on the monotonic clock of the system or of a simulation. Code that needs only the present moment, for
/// example for limits or statistics, receives it as an argument. Code that reads the time repeatedly, such as a search,
/// receives a ``Clock``.
///
/// For speed, a moment is a plain number: each request reads the clock twice.
public struct Moment: Comparable, Sendable {
    /// The nanoseconds since the clock's start.
    public let nanoseconds: Int

    public init(nanoseconds: Int) { self.nanoseconds = nanoseconds }

    /// The present moment on the system's clock.
    public static var now: Moment {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Moment(nanoseconds: time.tv_sec * 1_000_000_000 + time.tv_nsec)
    }

    public static func < (left: Moment, right: Moment) -> Bool { left.nanoseconds < right.nanoseconds }

    public static func + (moment: Moment, time: Duration) -> Moment {
        Moment(nanoseconds: moment.nanoseconds + Int(time / .nanoseconds(1)))
    }

    public static func - (moment: Moment, time: Duration) -> Moment {
        Moment(nanoseconds: moment.nanoseconds - Int(time / .nanoseconds(1)))
    }

    public static func - (left: Moment, right: Moment) -> Duration {
        .nanoseconds(left.nanoseconds - right.nanoseconds)
    }
}

/// The source of time: the system's clock, except in simulations and tests.
public struct Clock: Sendable {
    /// The function that returns the present moment. Any thread may call it.
    public let now: @Sendable () -> Moment

    public init(now: @escaping @Sendable () -> Moment) { self.now = now }

    /// The system's monotonic clock.
    public static let system = Clock { .now }
}

/// The time limit for work that may take a long time. A stop can end the work earlier.
public struct Deadline: Sendable {
    private let moment: Moment
    private let clock: Clock
    private let isStopping: @Sendable () -> Bool

    /// Makes a deadline that is `time` after the clock's present moment, or earlier if `isStopping` becomes true.
    public init(
        after time: Duration, on clock: Clock, or isStopping: @escaping @Sendable () -> Bool = { false }
    ) {
        moment = clock.now() + time
        self.clock = clock
        self.isStopping = isStopping
    }

    var hasPassed: Bool { isStopping() || clock.now() >= moment }
}
