internal import Platform
package import TwofoldProtocol
package import TwofoldService

// The checks that a request must pass before it reaches the ledger or the service.

/// The maximum size of a header in bytes. Larger data, such as arrays, must be in the payload.
private let maxHeaderBytes = 1 << 18

extension Request {
    /// Decodes a header. Throws if the header is too long or is not a request.
    package static func decode(_ header: Frame) throws(ServiceError) -> Request {
        guard header.count <= maxHeaderBytes else {
            throw ServiceError(
                .invalidArgument, field: "request",
                "the first frame has \(header.count) bytes; at most \(maxHeaderBytes) are allowed")
        }
        guard let request = header.withBytes({ Request(frame: $0) }) else {
            throw ServiceError(
                .invalidArgument, field: "request", "the first frame is not a twofold.v1.Request")
        }
        return request
    }
}

extension ServiceError {
    /// The refusal of a request whose operation is not part of this protocol version.
    package static var unknownOp: ServiceError {
        ServiceError(.invalidArgument, field: "op", "the request has no operation that this server knows")
    }

    /// The refusal of a request while the server is stopping. `retryAfterMs` is about the time that a restart takes.
    package static var stopping: ServiceError {
        var error = ServiceError(.shuttingDown, "the server is about to stop; repeat the request in a second")
        error.retryAfterMs = 1000
        return error
    }

    static func tooMany(_ limit: Int) -> ServiceError {
        ServiceError(
            .resourceExhausted, field: "op",
            "\(limit) requests of this kind are in progress, which is this server's maximum; "
                + "repeat the request later")
    }
}

extension MemoryBudget {
    /// Reserves memory for the frames of a request that the ledger will keep. Returns nil for small frames, which
    /// are not counted.
    func reserve(keeping bytes: Int) throws(ServiceError) -> Reservation? {
        guard bytes > Frame.smallBytes else { return nil }
        do throws(Reason) { return try reserve(bytes) } catch {
            throw ServiceError(.resourceExhausted, "no memory to keep the request: \(error)")
        }
    }
}
