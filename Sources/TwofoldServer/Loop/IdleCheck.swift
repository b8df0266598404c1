package import TwofoldCore

/// When to look for idle sessions.
package struct IdleCheck {
    /// After how long without a request a session is idle.
    private let timeout: Duration
    /// How often to look.
    package let interval: Duration
    private var next: Moment

    package init(_ timeout: Duration, at now: Moment) {
        self.timeout = timeout
        interval = min(.seconds(60), timeout / 4)
        next = now + interval
    }

    /// The timeout, when it is time to look; nil otherwise.
    package mutating func due(at now: Moment) -> Duration? {
        guard next <= now else { return nil }
        next = now + interval
        return timeout
    }
}
