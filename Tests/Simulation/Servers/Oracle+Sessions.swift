internal import TwofoldProtocol
internal import TwofoldSessions

// The rules for open sessions: a session is open from its create to its close request, unless it is idle for too long.

extension Oracle {
    private func open(on server: SimulatedServer) -> [(id: SessionID, record: Record)] {
        records.filter {
            $0.key.line == server.line && $0.value.server == server.number && !$0.value.isClosed
                && !$0.value.isLost
        }.map { ($0.key.session, $0.value) }
    }

    /// Checks that only its owner can see a session. Returns true if the reply needs further checks.
    func isOwners(
        _ question: Question, _ session: SessionID, _ reply: Reply, _ server: SimulatedServer
    ) -> Bool {
        guard let record = records[Key(session: session, line: server.line)], !record.isLost,
            record.server == server.number, record.owner != question.owner
        else { return true }
        world.reach(.strangerRefused)
        if case .error(let error) = reply.result, error.code == .notFound, error.field == "session" {
            return false
        }
        world.violate("a request from another client for session \(session.hex) did not get NOT_FOUND")
        return false
    }

    /// Records that a server checks for idle sessions. If more than half of the timeout has passed since its last
    /// check, the server was paused, and no session's idle time includes that time.
    func turned(_ server: SimulatedServer, after elapsed: Duration, _ timeout: Duration) {
        guard elapsed > timeout / 2 else { return }
        for (_, record) in open(on: server) {
            record.idleSince = min(record.idleSince + Int(elapsed / .nanoseconds(1)), world.now)
        }
    }

    /// Records which sessions of a server remain after its check for idle sessions.
    func expired(on server: SimulatedServer, after timeout: Duration, still open: Set<SessionID>) {
        for (id, record) in self.open(on: server) where !open.contains(id) {
            if idleTime(of: record) < timeout {
                world.violate(
                    "session \(id.hex) ended as idle after \(idleTime(of: record)); timeout \(timeout)")
            }
            record.isLost = true
            losable.insert(id)
        }
    }

    /// Checks that no session was idle for more than twice the timeout. None of the sessions may have a request in
    /// progress.
    func checkIdle(_ sessions: [SessionID], on server: SimulatedServer, _ timeout: Duration) {
        for id in sessions {
            guard let record = records[Key(session: id, line: server.line)] else { continue }
            if idleTime(of: record) > timeout * 2 {
                world.violate("session \(id.hex) is open, but was idle for \(idleTime(of: record))")
            }
        }
    }

    /// Returns the size of a session's network, plus the size of its last request's payload if the payload is long.
    /// These bytes count in addition to the create request's reservation.
    func countedBytes(of session: SessionID, on server: SimulatedServer) -> Int {
        guard let record = records[Key(session: session, line: server.line)], !record.isLost else { return 0 }
        let kept = record.question?.payload?.count ?? 0
        return record.networkBytes + (kept > 4096 ? kept : 0)
    }

    private func idleTime(of record: Record) -> Duration { .nanoseconds(world.now - record.idleSince) }

    /// Checks that a server has exactly the sessions that it should have. Those in `busy` have a request in progress.
    func checkOpen(_ idle: [SessionID], busy: [SessionID], on server: SimulatedServer) {
        let known = Set(open(on: server).map(\.id))
        for id in idle where !known.contains(id) {
            let isClosed = records[Key(session: id, line: server.line)]?.isClosed ?? false
            world.violate("session \(id.hex) is open, but was \(isClosed ? "closed" : "never created")")
        }
        for id in known.subtracting(idle).subtracting(busy) {
            world.violate("session \(id.hex) is gone, but was not closed")
        }
    }
}
