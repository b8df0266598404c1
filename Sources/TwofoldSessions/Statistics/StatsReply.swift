internal import Platform
internal import TwofoldCore
internal import TwofoldProtocol
internal import TwofoldService

/// A reply to a stats request, built by two threads. The socket thread copies the values that only it may read,
/// and another thread adds the rest.
struct StatsWork {
    private var reply: StatsReply
    private let sessions: [Session]
    private let names: [String: String]
    private let now: Moment

    /// A copy of a session's values from the ledger.
    private struct Session {
        let id: SessionID
        let owner: Client
        let environmentID: String
        let boards: Int
        let requests: Int
        let begin: Moment
        let idleSince: Moment
        let bytes: Int
        let isBusy: Bool
    }

    /// Copies the values of the client's sessions, or of all sessions if the client has no key.
    fileprivate init(
        _ reply: StatsReply, _ ledger: SessionLedger, names: [String: String], for client: Client,
        at now: Moment
    ) {
        self.reply = reply
        self.names = names
        self.now = now
        var sessions: [Session] = []
        sessions.reserveCapacity(client == .anonymous ? ledger.openCount : 0)
        for entry in ledger.openEntries where client == .anonymous || entry.owner == client {
            sessions.append(
                Session(
                    id: entry.id, owner: entry.owner, environmentID: entry.environmentID,
                    boards: entry.boards, requests: entry.requests, begin: entry.begin,
                    idleSince: entry.idleSince, bytes: entry.bytes, isBusy: entry.isBusy))
        }
        self.sessions = sessions
    }

    /// Returns the complete reply. Adds the sessions, oldest first, and the values from the operating system.
    func finish() -> StatsReply {
        var reply = reply
        reply.usage.residentBytes = UInt64(ProcessUsage.residentBytes)
        reply.usage.descriptors = UInt64(ProcessUsage.descriptors)
        reply.sessions = sessions.sorted { $0.begin < $1.begin }.map { session in
            var stats = SessionStats()
            stats.id = "\(session.id)"
            if case .key(let key) = session.owner { stats.client = names[key] ?? "" }
            stats.environmentID = session.environmentID
            stats.boards = UInt64(session.boards)
            stats.requests = UInt64(session.requests)
            stats.age = (now - session.begin) / .seconds(1)
            stats.idle = (now - session.idleSince) / .seconds(1)
            stats.bytes = UInt64(session.bytes)
            stats.busy = session.isBusy
            return stats
        }
        return reply
    }
}

extension SessionMachine {
    /// Collects the server's counters, usage and limits, and the sessions that the client may see: its own, or all
    /// if clients have no keys.
    func stats(for client: Client, at now: Moment) -> StatsWork {
        var reply = StatsReply()
        reply.serverVersion = EnvironmentService.version
        reply.uptime = (now - begin) / .seconds(1)
        reply.draining = phase.value > .serving
        reply.threads = UInt32(settings.threads)
        reply.limits = settings.limits.wire
        reply.counters = statistics.counters
        let keys = keys?() ?? (names: [:], refused: 0)
        reply.counters.keysRefused = UInt64(keys.refused)
        reply.usage.sessions = UInt64(ledger.openCount)
        reply.usage.boards = UInt64(ledger.openBoards)
        reply.usage.inProgress = UInt64(inProgress)
        reply.usage.sessionBytes = UInt64(budget.used)
        reply.requests = statistics.requestStats(at: now)
        reply.refusals = statistics.refusalStats()
        return StatsWork(reply, ledger, names: keys.names, for: client, at: now)
    }
}
