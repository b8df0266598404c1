package import TwofoldCore
public import TwofoldProtocol

/// The refusal of a request: the protocol's Error message, which Swift code can also throw.
extension ServiceError: Error, CustomStringConvertible {
    /// Creates a refusal.
    ///
    /// - Parameters:
    ///   - field: The name of the invalid argument, as in the Python API; empty if no argument is invalid.
    ///   - lane: The first lane with an invalid value; nil if the error does not concern a lane.
    ///   - expectedSeq: The seq that the session expects next; only for `outOfSequence`.
    ///   - message: A sentence that explains the error to the user.
    public init(
        _ code: ErrorCode, field: String = "", lane: Int? = nil, expectedSeq: UInt64? = nil,
        _ message: String
    ) {
        self.init()
        self.code = code
        self.field = field
        self.message = message
        if let lane { self.lane = UInt64(lane) }
        if let expectedSeq { self.expectedSeq = expectedSeq }
    }

    /// The message.
    public var description: String { message }

    /// Creates the error of a request that an environment refuses.
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
}
