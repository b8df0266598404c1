internal import TwofoldProtocol
internal import TwofoldService

// The ledger's refusals.

extension ServiceError {
    static func badID(_ header: Request) -> ServiceError {
        ServiceError(
            .invalidArgument, field: "session",
            "session has \(header.session.count) bytes; it must be 16 random bytes")
    }

    /// Returns the refusal of a request for a session that is not open or belongs to another client.
    static func unknown(_ id: SessionID) -> ServiceError {
        ServiceError(
            .notFound, field: "session",
            "no open session \(id) here; it was never created, belongs to another client's key, is closed, was "
                + "idle for too long, or ended with its server (--state-dir keeps sessions across a restart, "
                + "recover=True recreates boards)")
    }

    static var idIsTaken: ServiceError {
        ServiceError(
            .conflict, field: "session", "this session id is in use: choose 16 new random bytes")
    }

    static func conflict(_ seq: UInt64) -> ServiceError {
        ServiceError(.conflict, field: "seq", "seq \(seq) was already used for another request")
    }

    static func outOfSequence(_ seq: UInt64, expected: UInt64) -> ServiceError {
        ServiceError(
            .outOfSequence, field: "seq", expectedSeq: expected,
            "seq is \(seq); the session expects \(expected)")
    }

    static var shutOut: ServiceError {
        ServiceError(.staleEpoch, field: "epoch", "another client has resumed the session")
    }

    /// Returns the refusal of a request whose epoch is not the session's current epoch. A larger epoch means that
    /// the session was lost, and that a delayed copy of its create request has created it again.
    static func wrongEpoch(_ epoch: UInt32, of current: UInt32) -> ServiceError {
        epoch < current
            ? shutOut
            : ServiceError(
                .notFound, field: "session",
                "this session is at epoch \(current); the session that had reached epoch \(epoch) is lost")
    }

    /// Returns the error for a create request whose seq or epoch is not 1; nil if both are 1.
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

    static func longClose(_ count: Int) -> ServiceError {
        ServiceError(
            .invalidArgument, field: "request",
            "the header of this close request has \(count) bytes; the limit is \(SessionLedger.Entry.maxCloseBytes)"
        )
    }

    static func badHolder(_ count: Int) -> ServiceError {
        ServiceError(
            .invalidArgument, field: "holder", "holder has \(count) bytes; it must be 16 random bytes")
    }

    static var noEpochLeft: ServiceError {
        ServiceError(
            .resourceExhausted, field: "session",
            "the session was resumed too often, and no epoch is left: create a new session")
    }
}
