internal import TwofoldProtocol
internal import TwofoldService

// Why requests of callers in this process are refused that a server would not refuse.

extension ServiceError {
    /// The payload is longer than libzmq would let through.
    static func tooLong(_ payload: Frame, _ limits: Limits) -> ServiceError {
        ServiceError(
            .resourceExhausted,
            "the payload has \(payload.count) bytes; TWOFOLD_MAX_MESSAGE_BYTES allows \(limits.maxMessageBytes)"
        )
    }

    /// The callers in a process can't be distinguished.
    static var oneClient: ServiceError {
        ServiceError(
            .invalidArgument, field: "op",
            "sessions in this process have no statistics, and nobody else can resume them")
    }

    /// Another caller in this process waits for the reply.
    static var busy: ServiceError {
        ServiceError(.failedPrecondition, field: "session", "another thread is carrying out this request")
    }
}
