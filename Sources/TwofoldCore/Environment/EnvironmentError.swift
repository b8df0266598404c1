/// An environment's refusal of a request; nothing has changed.
public struct EnvironmentError: Error, Equatable, Sendable {
    /// The kinds of refusal.
    public enum Kind: Sendable {
        /// The argument is wrong in any state.
        case invalidArgument
        /// The argument is wrong in the state of the lane.
        case failedPrecondition
        /// The request exceeds a limit.
        case resourceExhausted
    }

    /// The kind of refusal.
    public let kind: Kind
    /// The name of the wrong argument, as users know it.
    public let field: String
    /// The first lane with a wrong argument, if lanes have arguments of their own.
    public let lane: Int?
    /// One sentence with the wrong value and the expected ones.
    public let message: String

    /// An argument that is wrong in any state.
    public static func invalid(_ field: String, lane: Int? = nil, _ message: String) -> EnvironmentError {
        EnvironmentError(kind: .invalidArgument, field: field, lane: lane, message: message)
    }

    /// An argument that is wrong in this state.
    public static func precondition(_ field: String, lane: Int? = nil, _ message: String) -> EnvironmentError
    {
        EnvironmentError(kind: .failedPrecondition, field: field, lane: lane, message: message)
    }

    /// A request that exceeds a limit.
    public static func exhausted(_ field: String, _ message: String) -> EnvironmentError {
        EnvironmentError(kind: .resourceExhausted, field: field, lane: nil, message: message)
    }
}
