package import Logging
internal import Platform
package import TwofoldCore
internal import TwofoldProtocol
internal import TwofoldService
package import TwofoldSessions
internal import ZeroMQ

/// The part of the machine that saves the sessions in the state directory when a server stops, and restores them
/// when the next server starts.
extension SessionMachine {
    /// Restores the sessions that the previous server saved, and removes the restored sessions from the directory.
    /// Of several copies of a session, restores the newest. A session that cannot be restored stays in the directory.
    /// `names` maps the clients' keys to their names.
    ///
    /// Returns false if `isStopping` became true before all sessions were restored. In that case, the directory is
    /// unchanged.
    package func restoreSessions(
        from directory: StateDirectory, names: [String: String] = [:], logger: Logger, at now: Moment,
        unless isStopping: () -> Bool = { false }
    ) -> Bool {
        var restored: [(file: String, sessions: [Range<Int>], isEmptied: Bool)] = []
        for name in directory.fileNames {
            var sessions: [Range<Int>] = []
            var isEmptied = true
            for record in directory.records(of: name) {
                guard !isStopping() else { return false }
                do {
                    let record = try record.get()
                    let session = try directory.session(at: record, in: name)
                    let last = SessionID(session.id).flatMap { ledger.position(of: $0) }
                    if let last, last >= (session.epoch, session.lastSeq) {
                        logger.notice("removed an older copy of a session", metadata: ["file": "\(name)"])
                    } else {
                        let entry = try restoreSession(session, at: now)
                        if last == nil { statistics.counters.sessionsCreated += 1 }
                        logger.began(entry, "restored", of: names[session.clientKey])
                    }
                    sessions.append(record.range)
                } catch {
                    isEmptied = false
                    logger.error(
                        "a session in the state directory can't be restored and stays there: \(error)",
                        metadata: ["file": "\(name)"])
                }
            }
            restored.append((name, sessions, isEmptied))
        }
        for (file, sessions, isEmptied) in restored where isEmptied || !sessions.isEmpty {
            do { try directory.remove(sessions, from: file, isEmptied: isEmptied) } catch {
                logger.error(
                    """
                    the restored sessions can't be removed from the state directory, so the next start restores \
                    them again: \(error)
                    """, metadata: ["file": "\(file)"])
            }
        }
        return true
    }

    private func restoreSession(_ saved: SavedSession, at now: Moment) throws -> SessionLedger.Entry {
        guard CurvePublicKey(saved.clientKey) != nil || saved.clientKey.isEmpty,
            let entry = try restore(saved, at: now)
        else { throw Reason("the saved session is inconsistent") }
        return entry
    }

    /// Ends all sessions and saves them in the directory, if there is one. A session is lost if one of its requests
    /// is still running, if the memory is too small, or if it can't be written. While its create request is still
    /// running, a session does not exist yet.
    package func endSessions(savingIn directory: StateDirectory?, logger: Logger, at now: Moment) {
        let file = directory?.newName
        var saved = 0
        for entry in ledger.openEntries.sorted(by: { $0.id < $1.id }) {
            guard let directory, let file, entry.environment != nil else {
                logger.ended(entry, "the server stops", at: now)
                continue
            }
            do {
                // The saved session, and its encoded bytes. A failed allocation of either would end the process.
                let needed = 2 * entry.savedBytes
                _ = try MemoryPromise.make(needed)
                guard needed <= availableMemory() else {
                    throw Reason("saving it needs \(needed) bytes; this process has too little memory")
                }
                guard let session = try entry.saved(at: now) else {
                    throw Reason("its last request is still running")
                }
                try directory.append(session, to: file)
                saved += 1
                logger.ended(entry, "the server is stopping and has saved it", at: now)
            } catch {
                statistics.sessionsLost += 1
                logger.error("session \(entry.id) can't be saved: \(error)")
                logger.ended(entry, "the server stops", at: now)
            }
        }
        guard let directory, let file, saved > 0 else { return }
        do { try directory.settle(file) } catch {
            statistics.sessionsLost += saved
            logger.error("\(saved) saved sessions may be lost if the power fails now: \(error)")
        }
    }
}
