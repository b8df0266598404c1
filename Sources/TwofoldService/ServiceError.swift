internal import TwofoldCore
public import TwofoldProtocol

/// Why a request was refused: what travels as the protocol's Error.
public struct ServiceError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The kind of refusal.
    public var code: ErrorCode
    /// The field to blame, by the name that a Python user knows; empty without one.
    public var field: String
    /// The first lane to blame, where one is.
    public var lane: Int?
    /// With `outOfSequence`: the seq that comes next.
    public var expectedSeq: UInt64?
    /// With `shuttingDown`: milliseconds after which to ask again.
    public var retryAfter: UInt32?
    /// One sentence for a person.
    public var message: String

    /// A refusal.
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

    /// The sentence.
    public var description: String { message }

    init(_ error: EnvironmentError) {
        let code: ErrorCode =
            switch error.kind {
            case .invalidArgument: .invalidArgument
            case .failedPrecondition: .failedPrecondition
            case .resourceExhausted: .resourceExhausted
            }
        self.init(code, field: error.field, lane: error.lane, error.message)
    }

    /// As it goes over the wire.
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
