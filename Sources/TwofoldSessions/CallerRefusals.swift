internal import TwofoldProtocol
internal import TwofoldService

// The refusals that only callers in this process receive.

extension ServiceError {
    /// Returns the refusal of a payload that exceeds the limit. Only the embedded library needs this check: in a
    /// server, libzmq closes the connection.
    static func tooLong(_ payload: Frame, _ limits: Limits) -> ServiceError {
        ServiceError(
            .resourceExhausted,
            "the payload has \(payload.count) bytes; TWOFOLD_MAX_MESSAGE_BYTES allows \(limits.maxMessageBytes)"
        )
    }

    /// The refusal of a request that only servers execute. The embedded library cannot execute it, because all its
    /// callers count as one client.
    static var oneClient: ServiceError {
        ServiceError(
            .invalidArgument, field: "op",
            "sessions in this process have no statistics and can't be resumed; connect to a server for that")
    }

    /// The refusal of a repeated request while another caller in this process waits for the reply.
    static var busy: ServiceError {
        ServiceError(
            .failedPrecondition, field: "session",
            "another thread is executing this request: repeat it when that call has ended")
    }
}
