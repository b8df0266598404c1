internal import Logging
package import TwofoldCore
internal import TwofoldService
internal import TwofoldSessions

// Sessions that begin and end, and those that are idle.

extension Requests {
    /// Notes what a request made of its session; returns the bytes that it freed.
    func note(
        _ change: SessionChange, of entry: ServerLedger.Entry, _ work: SessionWork, at now: Moment
    ) -> Int {
        switch (change, work) {
        case (.created(let host), _):
            statistics.sessionsCreated += 1
            var begin: Logger.Metadata = [
                "environment": "\(host.environment.id)",
                "boards": .stringConvertible(host.environment.lanes),
            ]
            if let name = authenticator?.name(of: entry.owner), !name.isEmpty { begin["client"] = "\(name)" }
            logger.info("session \(entry.id) created", metadata: begin)
            return 0
        case (.closed, .request(_, let host)):
            statistics.sessionsClosed += 1
            logEnd(of: entry, "closed", at: now)
            return host.bytes
        default: return 0
        }
    }

    /// Does what the check for idle sessions found.
    package func handle(_ finding: IdleCheck.Finding, at now: Moment) -> [Output] {
        switch finding {
        case .nothing: return []
        case .pause(let pause):
            ledger.excuse(pause, until: now)
            return []
        case .idle(let moment):
            return ledger.endIdle(since: moment).map { entry in
                let seconds = (now - entry.idleSince).components.seconds
                logEnd(of: entry, "idle for \(seconds) s", at: now)
                statistics.sessionsExpired += 1
                return .freed(bytes: entry.host?.bytes ?? 0)
            }
        }
    }

    func logEnd(of entry: ServerLedger.Entry, _ reason: String, at now: Moment) {
        logger.info(
            "session \(entry.id) ended: \(reason)",
            metadata: [
                "requests": .stringConvertible(entry.requests),
                "seconds": .stringConvertible(Int((now - entry.begin) / .seconds(1))),
            ])
    }
}
