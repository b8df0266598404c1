internal import Logging
package import TwofoldCore
internal import TwofoldProtocol
internal import TwofoldService
internal import TwofoldSessions
internal import ZeroMQ

/// Sessions between two runs of a server: restored from the state directory at the start, saved there at the end.
extension Requests {
    /// Restores the sessions that the last server has saved. A file that does not hold a session, or one that
    /// can't be restored here, stays.
    package func restoreSessions(from directory: StateDirectory, at now: Moment) {
        for name in directory.names {
            do {
                let entry = try restore(directory.read(name), at: now)
                statistics.sessionsCreated += 1
                if !directory.remove(name) {
                    logger.error(
                        "the file of session \(entry.id) stays: a later start would restore it again")
                }
                logger.info(
                    "session \(entry.id) restored", metadata: ["boards": .stringConvertible(entry.boards)])
            } catch {
                // because: a name is a session's id, which is a secret.
                logger.error(
                    "a session in the state directory can't be restored, and is left there: \(error)")
            }
        }
    }

    private func restore(_ saved: SavedSession, at now: Moment) throws -> ServerLedger.Entry {
        let (environment, _) = try service.create(saved.create)
        let host = try EnvironmentHost(environment, keeping: saved.create, budget)
        try host.restore(from: saved)
        let request = try RequestFrames(saved.lastRequest)
        try request.reserve(in: budget)
        let reply = try ReplyFrames(saved.lastReply, host.pool)
        guard CurvePublicKey(saved.clientKey) != nil || saved.clientKey.isEmpty,
            let entry = ledger.restore(saved, host, last: (request, reply), at: now)
        else { throw ServerError("it makes no sense") }
        return entry
    }

    /// Ends all sessions, and saves them in the directory, if there is one; but for those whose request still goes on.
    package func endSessions(savingIn directory: StateDirectory?, at now: Moment) {
        for entry in ledger.openEntries.sorted(by: { $0.id < $1.id }) {
            guard let directory else {
                logEnd(of: entry, "the server stops", at: now)
                continue
            }
            guard let idle = entry.saved else {
                logger.error("session \(entry.id) can't be kept: its last request goes on")
                continue
            }
            do {
                try save(idle, in: directory)
                logEnd(of: entry, "the server stops, and keeps it", at: now)
            } catch {
                statistics.sessionsLost += 1
                logger.error("session \(entry.id) can't be kept: \(error)")
                logEnd(of: entry, "the server stops", at: now)
            }
        }
        directory?.settle()
    }

    private func save(_ idle: ServerLedger.Entry.Saved, in directory: StateDirectory) throws {
        var saved = idle.session
        (saved.lastRequest, saved.lastReply) = (idle.request.saved, idle.reply.saved)
        try idle.host.environment.save(into: &saved)
        try directory.write(saved)
    }
}
