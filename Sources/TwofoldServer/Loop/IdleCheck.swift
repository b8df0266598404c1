package import TwofoldCore
package import TwofoldSessions

/// The check for sessions that have been idle too long. A session does not end while its client's request may still
/// be unread in the sockets, in libzmq or in the kernel's buffers.
///
///     turn ──► more than two intervals after the last turn: the process was stopped or busy ──► pause
///         └──► at least one interval after the last check ──► idle, as of the last check
///
/// The type has no clock. Its owner calls ``turn(at:hasReadAll:)`` at least once per interval.
package struct IdleCheck {
    /// The result of ``turn(at:hasReadAll:)``.
    package enum Finding: Equatable {
        case nothing
        /// The server was stopped or busy for this long. This does not count as idle time for any session.
        case pause(Duration)
        /// All sessions that have been idle since before this moment must end.
        case idle(since: Moment)
    }

    package let timeout: Duration
    /// The time between two checks of the sessions.
    package let interval: Duration
    private var lastTurn: Moment
    private var lastLook: Moment
    /// The latest moment at which no message was waiting to be read.
    private var readUntil: Moment

    package init(_ timeout: Duration, at now: Moment) {
        self.timeout = timeout
        interval = min(.seconds(60), timeout / 4)
        (lastTurn, lastLook, readUntil) = (now, now, now)
    }

    /// Returns the finding at `now`. `hasReadAll` is true if no message is left in the sockets.
    ///
    /// A session ends if it had already been idle for the timeout at the last check, at least one interval ago.
    /// One interval is enough for a request that has reached this computer to pass through libzmq's thread. If clients
    /// send faster than the server reads, the sockets are never empty. Sessions then end after twice the timeout. That
    /// is late enough, because libzmq reads the connections in turn.
    package mutating func turn(at now: Moment, hasReadAll: Bool) -> Finding {
        let elapsed = now - lastTurn
        lastTurn = now
        guard elapsed <= interval * 2 else {
            lastLook = now
            return .pause(elapsed)
        }
        if hasReadAll { readUntil = now }
        guard now - lastLook >= interval else { return .nothing }
        defer { lastLook = now }
        return .idle(since: max(min(lastLook, readUntil), now - timeout) - timeout)
    }
}

extension SessionMachine {
    /// Acts on the finding of a check for idle sessions.
    package func handle(_ finding: IdleCheck.Finding, at now: Moment, into effects: inout [Effect]) {
        switch finding {
        case .nothing: break
        case .pause(let pause): excuse(pause, until: now)
        case .idle(let moment): endIdle(since: moment, at: now, into: &effects)
        }
    }
}
