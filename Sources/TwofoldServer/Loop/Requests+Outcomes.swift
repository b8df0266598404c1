internal import Logging
internal import TwofoldProtocol
internal import TwofoldService
internal import TwofoldSessions
internal import ZeroMQ

// What comes of jobs, and of sessions that end without one.

extension Requests {
    /// Answers the jobs that the queues have finished.
    func finishJobs() throws(ZeroMQError) {
        for finished in runner.collect() { try finish(finished.job, finished.outcome) }
    }

    /// Answers a job, and then the client that waits for its end to resume the session.
    func finish(_ job: Job, _ outcome: Job.Outcome) throws(ZeroMQError) {
        switch job.task {
        case .expand(_, let route): try answer(job, outcome, to: route)
        case .session(let entry, let work):
            let delivery = settle(entry, work, outcome)
            try answer(job, outcome, to: delivery.route)
            if let waiting = delivery.resume { try resume(waiting.header, from: waiting.route) }
        }
    }

    /// Enters the outcome in the ledger.
    private func settle(
        _ entry: ServerLedger.Entry, _ work: SessionWork, _ outcome: Job.Outcome
    ) -> ServerLedger.Delivery {
        switch outcome {
        case .refused: return ledger.abandon(entry)
        case .done(let reply, let change, _):
            note(change, of: entry, work)
            return ledger.complete(entry, reply: reply, change: change)
        }
    }

    private func answer(_ job: Job, _ outcome: Job.Outcome, to route: Route) throws(ZeroMQError) {
        switch outcome {
        case .refused(let error): try refuse(error, job.kind, seq: job.seq, to: route)
        case .done(let reply, _, let steps):
            statistics.countExecuted(job.kind, arrived: job.arrived, at: .now, steps: steps)
            try send(reply, to: route)
        }
    }

    private func note(_ change: SessionChange, of entry: ServerLedger.Entry, _ work: SessionWork) {
        switch (change, work) {
        case (.created(let host), _):
            statistics.sessionsCreated += 1
            var begin: Logger.Metadata = [
                "environment": "\(host.environment.id)",
                "boards": .stringConvertible(host.environment.lanes),
            ]
            if let name = authenticator?.name(of: entry.owner), !name.isEmpty { begin["client"] = "\(name)" }
            logger.info("session \(entry.id) created", metadata: begin)
        case (.closed, .request(_, let host)):
            statistics.sessionsClosed += 1
            logEnd(of: entry, "closed")
            trimmer.trim(afterFreeing: host.bytes)
        default: break
        }
    }

    /// Ends sessions that were not asked anything for too long.
    func endIdleSessions(for idleTimeout: Duration, at now: Moment) {
        for entry in ledger.endIdle(for: idleTimeout, at: now) {
            logEnd(of: entry, "idle for \(idleTimeout.components.seconds) s")
            statistics.sessionsExpired += 1
            trimmer.trim(afterFreeing: entry.host?.bytes ?? 0)
        }
    }

    func logEnd(of entry: ServerLedger.Entry, _ reason: String) {
        logger.info(
            "session \(entry.id) ended: \(reason)",
            metadata: [
                "requests": .stringConvertible(entry.requests),
                "seconds": .stringConvertible(Int((Moment.now - entry.begin) / .seconds(1))),
            ])
    }

    // MARK: replies

    func refuse(
        _ error: ServiceError, _ kind: RequestKind? = nil, seq: UInt64, to route: Route
    ) throws(ZeroMQError) {
        statistics.countRefused(kind, error.code)
        var reply = Reply()
        reply.seq = seq
        reply.error = error.wire
        try send(ReplyFrames(reply), to: route)
    }

    /// A ROUTER never waits: a reply to a client that has gone is dropped by libzmq.
    func send(_ reply: ReplyFrames, to route: Route) throws(ZeroMQError) {
        reply.append(to: &route.frames)
        _ = try endpoints[route.endpoint].socket.trySend(&route.frames)
    }
}
