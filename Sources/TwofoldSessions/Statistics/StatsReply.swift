internal import Platform
internal import TwofoldCore
internal import TwofoldProtocol
internal import TwofoldService

/// A reply to a stats request, built by two threads. The socket thread copies the values that only it may read,
/// and another thread adds the rest.
struct StatsWork {
    private var reply: StatsReply
    /// The sessions, in no particular order, without their ids and their clients' names.
    private var sessions: [(id: SessionID, owner: String?, stats: SessionStats)] = []
    private let names: [String: String]

    /// Copies the values of the client's sessions, or of all sessions if the client has no key.
    fileprivate init(
        _ reply: StatsReply, _ ledger: SessionLedger, names: [String: String], for client: String?,
        at now: Moment
    ) {
        self.reply = reply
        self.names = names
        sessions.reserveCapacity(client == nil ? ledger.openCount : 0)
        for entry in ledger.openEntries where client == nil || entry.owner == client {
            var stats = SessionStats()
            stats.environmentID = entry.environmentID
            stats.boards = UInt64(entry.boards)
            stats.requests = UInt64(entry.requests)
            stats.age = Double(now.nanoseconds - entry.begin.nanoseconds) / 1e9
            stats.idle = Double(now.nanoseconds - entry.idleSince.nanoseconds) / 1e9
            stats.bytes = UInt64(entry.bytes)
            stats.busy = entry.isBusy
            sessions.append((entry.id, entry.owner, stats))
        }
    }

    /// Returns the complete reply. Adds the sessions, oldest first, and the values from the operating system.
    func finish() -> StatsReply {
        var reply = reply
        reply.usage.residentBytes = UInt64(ProcessUsage.residentBytes)
        reply.usage.descriptors = UInt64(ProcessUsage.descriptors)
        reply.sessions = sessions.sorted { $0.stats.age > $1.stats.age }.map { id, owner, stats in
            var stats = stats
            stats.id = "\(id)"
            if let owner { stats.client = names[owner] ?? "" }
            return stats
        }
        return reply
    }
}

extension SessionMachine {
    /// Collects the server's counters, usage and limits, and the sessions that the client may see: its own, or all
    /// if clients have no keys.
    func stats(for client: String?, at now: Moment) -> StatsWork {
        var reply = StatsReply()
        reply.serverVersion = EnvironmentService.version
        reply.uptime = (now - begin) / .seconds(1)
        reply.draining = service.phase.isStopping
        reply.threads = UInt32(settings.threads)
        reply.limits = settings.limits.wire
        reply.counters = statistics.counters
        let keys = keys?() ?? (names: [:], refused: 0)
        reply.counters.keysRefused = UInt64(keys.refused)
        reply.usage.sessions = UInt64(ledger.openCount)
        reply.usage.boards = UInt64(ledger.openBoards)
        reply.usage.inProgress = UInt64(inProgress)
        reply.usage.sessionBytes = UInt64(service.budget.used)
        reply.requests = statistics.requestStats(at: now)
        reply.refusals = statistics.refusalStats()
        return StatsWork(reply, ledger, names: keys.names, for: client, at: now)
    }
}
