internal import FoundationEssentials
internal import TwofoldProtocol
internal import TwofoldSessions

// The allowed answers to a resume request.

extension Oracle {
    /// The minimum number of former holders that a server remembers.
    private static let rememberedHolders = 40

    func resumed(
        _ session: SessionID, _ request: Request, _ resume: ResumeReply, _ payload: [UInt8]?,
        _ server: SimulatedServer
    ) {
        world.reach(.resumed)
        guard let record = records[Key(session: session, line: server.line)] else { return }
        let holder = request.resume.holder
        func wrong(_ what: String) { world.violate("session \(session.hex) \(what)") }
        if resume.lastSeq != record.seq {
            wrong("was resumed with seq \(resume.lastSeq); its last seq is \(record.seq)")
        }
        if Array(resume.lastReply) != record.header || payload != record.payload {
            wrong("was resumed with a wrong last reply")
        }
        if resume.create != record.create || resume.created != record.created {
            wrong("was resumed with a wrong create request or create reply")
        }
        if resume.wasReset != record.wasReset { wrong("was resumed with a wrong was_reset") }
        if record.holder == holder ? resume.epoch != record.epoch : resume.epoch != record.epoch + 1 {
            wrong("went from epoch \(record.epoch) to \(resume.epoch)")
        }
        if request.epoch != 0, record.holder != holder {
            world.reach(.fencedResume)
            if request.epoch != record.epoch {
                wrong("at epoch \(record.epoch) was resumed by a request for epoch \(request.epoch)")
            }
        }
        if record.formerHolders.suffix(Self.rememberedHolders).contains(holder) {
            wrong("was resumed by a holder that another one had displaced")
        }
        if let former = record.holder, former != holder { record.formerHolders.append(former) }
        (record.holder, record.epoch) = (holder, resume.epoch)
        record.pending = nil
    }

    /// Checks that a resume request is refused only if its session is gone or its sender has been displaced.
    func refused(
        _ resume: ResumeRequest, _ request: Request, _ session: SessionID, _ error: ServiceError,
        _ server: SimulatedServer
    ) {
        // A session of one server does not exist on the other.
        if server.line != 0 { losable.insert(session) }
        guard let record = records[Key(session: session, line: server.line)], !record.isLost,
            record.server == server.number
        else { return }
        let isStale = request.epoch != 0 && request.epoch < record.epoch
        let isRight =
            switch error.code {
            case .staleEpoch:
                record.holder != resume.holder && (isStale || record.formerHolders.contains(resume.holder))
            case .notFound: record.isClosed || request.epoch > record.epoch
            default: false
            }
        if isStale, error.code == .staleEpoch { world.reach(.fencedOut) }
        if !isRight {
            world.violate(
                "a resume request for epoch \(request.epoch) of session \(session.hex), which is at epoch "
                    + "\(record.epoch), was refused: \(error.message)")
        }
    }
}
