package import TwofoldCore
package import TwofoldSessions

/// Decides when sessions have been idle for too long. A session is safe while its client's request may still wait to be
/// read: in the sockets, in libzmq, or in the kernel's buffers.
///
///     turn ──► longer than two intervals since the last: the process was stopped, or busy ──► pause
///         └──► an interval since the last look ──► idle, as of the last look
///
/// It has no clock. Its owner calls ``turn(at:hasReadAll:)`` at least once an interval.
package struct IdleCheck {
    /// The result of a turn.
    package enum Finding: Equatable {
        case nothing
        /// The server did nothing for so long, so this time counts for no session.
        case pause(Duration)
        /// Sessions that have been idle since before this moment are to end.
        case idle(since: Moment)
    }

    package let timeout: Duration
    /// The time between two looks at the sessions.
    package let interval: Duration
    private var lastTurn: Moment
    private var lastLook: Moment
    /// All messages that had arrived by then were read.
    private var readUntil: Moment

    package init(_ timeout: Duration, at now: Moment) {
        self.timeout = timeout
        interval = min(.seconds(60), timeout / 4)
        (lastTurn, lastLook, readUntil) = (now, now, now)
    }

    /// Returns what to do about idle sessions; `hasReadAll` is true if no message is left in the sockets.
    ///
    /// It looks at the sessions as they were at its last look: a request that had reached the machine by then has had an
    /// interval to get through libzmq's thread. While clients send more than the server reads, the sockets are never
    /// empty; then sessions end after twice the timeout, because each connection gets its turn.
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
    /// Does what the check for idle sessions found.
    package func handle(_ finding: IdleCheck.Finding, at now: Moment, into effects: inout [Effect]) {
        switch finding {
        case .nothing: break
        case .pause(let pause): excuse(pause, until: now)
        case .idle(let moment): endIdle(since: moment, at: now, into: &effects)
        }
    }
}
