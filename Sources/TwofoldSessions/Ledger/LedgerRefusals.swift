internal import TwofoldProtocol
internal import TwofoldService

// Why the ledger refuses a request.

extension ServiceError {
    static func badID(_ header: Request) -> ServiceError {
        ServiceError(
            .invalidArgument, field: "session",
            "session has \(header.session.count) bytes; it has to be 16 random ones")
    }

    /// The session is not open, or not this client's.
    static func unknown(_ id: SessionID) -> ServiceError {
        ServiceError(
            .notFound, field: "session",
            "no open session \(id) here; it was never created, belongs to another client's key, is closed, was "
                + "idle for too long, or ended with a server (--state-dir keeps sessions over a restart, "
                + "recover=True recreates boards)")
    }

    static var idIsTaken: ServiceError {
        ServiceError(.conflict, field: "session", "this session id is taken")
    }

    static func conflict(_ seq: UInt64) -> ServiceError {
        ServiceError(.conflict, field: "seq", "seq \(seq) was used already, for another request")
    }

    static func outOfSequence(_ seq: UInt64, expected: UInt64) -> ServiceError {
        ServiceError(
            .outOfSequence, field: "seq", expectedSeq: expected,
            "seq \(seq) does not follow; the session expects \(expected)")
    }

    static var shutOut: ServiceError {
        ServiceError(.staleEpoch, field: "epoch", "another client has resumed the session")
    }

    /// A late copy of the create request begins a lost session again, which has not come to its old epoch.
    static func wrongEpoch(_ epoch: UInt32, of current: UInt32) -> ServiceError {
        epoch < current
            ? shutOut
            : ServiceError(
                .notFound, field: "session",
                "this session has come to epoch \(current) here; one that had come to \(epoch) is lost")
    }

    /// What is wrong with the place of a create in its session; nil when nothing is.
    static func badBegin(_ header: Request) -> ServiceError? {
        guard header.seq == 1 else {
            return ServiceError(
                .outOfSequence, field: "seq", expectedSeq: 1,
                "create has seq \(header.seq); a session begins with seq 1")
        }
        guard header.epoch == 1 else {
            return ServiceError(
                .invalidArgument, field: "epoch",
                "create has epoch \(header.epoch); a session begins with epoch 1")
        }
        return nil
    }

    static func badHolder(_ count: Int) -> ServiceError {
        ServiceError(
            .invalidArgument, field: "holder", "holder has \(count) bytes; it has to be 16 random ones")
    }

    static var noEpochLeft: ServiceError {
        ServiceError(.resourceExhausted, field: "session", "resumed too often; no epoch is left")
    }
}
