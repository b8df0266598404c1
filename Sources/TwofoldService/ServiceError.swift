package import TwofoldCore
public import TwofoldProtocol

/// The refusal of a request, sent as the protocol's Error message.
public struct ServiceError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The error code.
    public var code: ErrorCode
    /// The name of the invalid argument, as in the Python API; empty if no argument is invalid.
    public var field: String
    /// The first lane with an invalid value; nil if the error does not concern a lane.
    public var lane: Int?
    /// The seq that the session expects next; set only for `outOfSequence`.
    public var expectedSeq: UInt64?
    /// The delay in milliseconds after which to repeat the request; set only for `shuttingDown`.
    public var retryAfter: UInt32?
    /// A sentence that explains the error to the user.
    public var message: String

    /// Creates a refusal.
    public init(
        _ code: ErrorCode, field: String = "", lane: Int? = nil, expectedSeq: UInt64? = nil,
        _ message: String
    ) {
        self.code = code
        self.field = field
        self.lane = lane
        self.expectedSeq = expectedSeq
        self.message = message
    }

    /// The message.
    public var description: String { message }

    /// The error of a request that an environment refuses.
    package init(_ error: EnvironmentError) {
        let code: ErrorCode =
            switch error.kind {
            case .invalidArgument: .invalidArgument
            case .failedPrecondition: .failedPrecondition
            case .resourceExhausted: .resourceExhausted
            case .notFound: .notFound
            }
        self.init(code, field: error.field, lane: error.lane, error.message)
    }

    /// The error, as a protobuf message.
    public var wire: WireError {
        var wire = WireError()
        wire.code = code
        wire.field = field
        wire.message = message
        if let lane { wire.lane = UInt64(lane) }
        if let expectedSeq { wire.expectedSeq = expectedSeq }
        if let retryAfter { wire.retryAfterMs = retryAfter }
        return wire
    }
}
