internal import Platform
internal import TwofoldCore
internal import TwofoldProtocol
internal import TwofoldService
internal import TwofoldSessions

extension Requests {
    /// What the server has counted, what there is, and what is allowed; of sessions only the client's own, all where
    /// clients have no keys.
    func stats(for client: Client, at now: Moment) -> StatsReply {
        var reply = StatsReply()
        reply.serverVersion = EnvironmentService.version
        reply.uptime = (now - begin) / .seconds(1)
        reply.draining = phase.value > .serving
        reply.threads = UInt32(configuration.service.threads)
        reply.limits = configuration.service.limits.wire
        reply.counters = statistics.counters
        reply.counters.keysRefused = UInt64(authenticator?.refused ?? 0)
        reply.usage.sessions = UInt64(ledger.openCount)
        reply.usage.boards = UInt64(ledger.openBoards)
        reply.usage.inProgress = UInt64(inProgress)
        reply.usage.sessionBytes = UInt64(budget.used)
        reply.usage.residentBytes = UInt64(ProcessUsage.residentBytes)
        reply.usage.descriptors = UInt64(ProcessUsage.descriptors)
        reply.requests = statistics.requestStats(at: now)
        reply.refusals = statistics.refusalStats()
        reply.sessions = ledger.openEntries.sorted { $0.begin < $1.begin }
            .filter { client == .anonymous || $0.owner == client }
            .map { entry in
                var session = SessionStats()
                session.id = "\(entry.id)"
                session.client = authenticator?.name(of: entry.owner) ?? ""
                session.environmentID = entry.host?.environment.id ?? ""
                session.boards = UInt64(entry.boards)
                session.requests = UInt64(entry.requests)
                session.age = (now - entry.begin) / .seconds(1)
                session.idle = (now - entry.lastRequest) / .seconds(1)
                session.bytes = UInt64(entry.host?.bytes ?? 0)
                session.busy = entry.isBusy
                return session
            }
        return reply
    }
}
