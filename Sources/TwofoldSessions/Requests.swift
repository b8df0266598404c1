package import TwofoldProtocol
package import TwofoldService

// What every carrier does with a request before the ledger or the service sees it.

/// Bytes of a header: arrays, which are long, come in the payload.
private let maxHeaderBytes = 1 << 18

extension Request {
    /// The request in a header; throws when it is not one.
    package static func decode(_ header: Frame) throws(ServiceError) -> Request {
        guard header.count <= maxHeaderBytes else {
            throw ServiceError(
                .invalidArgument, field: "request",
                "the first frame has \(header.count) bytes; at most \(maxHeaderBytes) are read")
        }
        guard let request = header.withBytes({ Request(frame: $0) }) else {
            throw ServiceError(
                .invalidArgument, field: "request", "the first frame is not a twofold.v1.Request")
        }
        return request
    }
}

extension ServiceError {
    /// The request's `op` is of another version of the protocol.
    package static var unknownOp: ServiceError {
        ServiceError(.invalidArgument, field: "op", "the request has no operation that this server knows")
    }

    /// The server is about to stop. The request may be sent again after what a restart takes, about.
    package static var stopping: ServiceError {
        var error = ServiceError(.shuttingDown, "this server is about to stop; ask again in a second")
        error.retryAfter = 1000
        return error
    }

    static func tooMany(_ limit: Int) -> ServiceError {
        ServiceError(
            .resourceExhausted, field: "op",
            "this server carries out \(limit) such requests at a time, and that many are in progress: try again"
        )
    }

    /// There is a payload where it does not belong.
    package static var noPayload: ServiceError {
        ServiceError(.invalidArgument, field: "payload", "this request takes no payload frame")
    }
}

extension MemoryBudget {
    /// Holds the bytes of a request's frames, which are kept; nil for so few that they don't matter.
    func reserve(keeping bytes: Int) throws(ServiceError) -> Reservation? {
        guard bytes > Frame.smallBytes else { return nil }
        do throws(Exhausted) { return try reserve(bytes) } catch {
            throw ServiceError(.resourceExhausted, "no memory to keep the request: \(error)")
        }
    }
}
