/// Why an environment refused what a client asked: nothing has changed.
public struct EnvironmentError: Error, Equatable, Sendable {
    /// Whether the argument is wrong by itself or only now.
    public enum Kind: Sendable {
        /// Wrong whatever the state.
        case invalidArgument
        /// Wrong in the state that the lane is in.
        case failedPrecondition
        /// More than there is.
        case resourceExhausted
    }

    /// What kind of refusal.
    public let kind: Kind
    /// The argument to blame, by the name that users know.
    public let field: String
    /// The first lane to blame, where one is.
    public let lane: Int?
    /// One sentence: what was wrong, what was expected.
    public let message: String

    /// An argument that is wrong by itself.
    public static func invalid(_ field: String, lane: Int? = nil, _ message: String) -> EnvironmentError {
        EnvironmentError(kind: .invalidArgument, field: field, lane: lane, message: message)
    }

    /// An argument that is wrong in this state.
    public static func precondition(_ field: String, lane: Int? = nil, _ message: String) -> EnvironmentError
    {
        EnvironmentError(kind: .failedPrecondition, field: field, lane: lane, message: message)
    }

    /// A limit that would be exceeded.
    public static func exhausted(_ field: String, _ message: String) -> EnvironmentError {
        EnvironmentError(kind: .resourceExhausted, field: field, lane: nil, message: message)
    }
}
