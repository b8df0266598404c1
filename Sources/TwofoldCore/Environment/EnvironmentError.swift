package import Platform

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

extension EnvironmentError {
    /// The process can't have the memory that a request takes.
    package init(_ error: OutOfMemory, for field: String = "") {
        self = .exhausted(field, "no memory to carry the request out: \(error)")
    }
}

/// Reserves bytes that a batch is about to allocate and keeps for its life; throws if too few are left.
public typealias MemoryReserve = @Sendable (_ bytes: Int) throws(EnvironmentError) -> Void

extension OwnedMemory {
    /// Memory that a request takes, once it is reserved; throws with the name of the field that decides how much.
    package init(
        byteCount: Int, for field: String, reserve: MemoryReserve = { _ in }
    ) throws(EnvironmentError) {
        try reserve(byteCount)
        do throws(OutOfMemory) { self = try OwnedMemory(byteCount: byteCount) } catch {
            throw EnvironmentError(error, for: field)
        }
    }
}
