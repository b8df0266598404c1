package import Platform

/// The error for a request that an environment refuses. A refused request changes nothing.
public struct EnvironmentError: Error, Equatable, Sendable, CustomStringConvertible {
    public enum Kind: Sendable {
        /// The argument is invalid in every state of the lane.
        case invalidArgument
        /// The argument is invalid in the present state of the lane.
        case failedPrecondition
        /// The request exceeds a limit.
        case resourceExhausted
        /// The argument names an environment that does not exist.
        case notFound
    }

    public let kind: Kind
    /// The name of the invalid argument, as users write it.
    public let field: String
    /// The first lane whose argument is invalid; nil if the argument applies to all lanes.
    public let lane: Int?
    /// One sentence with the given value and the allowed values.
    public let message: String

    public var description: String { message }

    /// Returns the error for an argument that is invalid in every state of the lane.
    public static func invalid(_ field: String, lane: Int? = nil, _ message: String) -> EnvironmentError {
        EnvironmentError(kind: .invalidArgument, field: field, lane: lane, message: message)
    }

    /// Returns the error for an argument that is invalid in the present state of the lane.
    public static func precondition(_ field: String, lane: Int? = nil, _ message: String) -> EnvironmentError
    {
        EnvironmentError(kind: .failedPrecondition, field: field, lane: lane, message: message)
    }

    /// Returns the error for a request that exceeds a limit.
    public static func exhausted(_ field: String, _ message: String) -> EnvironmentError {
        EnvironmentError(kind: .resourceExhausted, field: field, lane: nil, message: message)
    }

    /// Returns the error for an argument that names an environment that does not exist.
    public static func notFound(_ field: String, _ message: String) -> EnvironmentError {
        EnvironmentError(kind: .notFound, field: field, lane: nil, message: message)
    }
}

extension EnvironmentError {
    /// Makes the error for a request whose memory the process can't allocate.
    package init(outOfMemory reason: Reason, for field: String = "") {
        self = .exhausted(field, "there is not enough memory to execute the request: \(reason)")
    }
}

/// A function that reserves memory just before a batch allocates it. The batch keeps the memory for its whole lifetime.
/// The function throws if fewer than `bytes` bytes are available.
public typealias MemoryReserve = @Sendable (_ bytes: Int) throws(EnvironmentError) -> Void

extension OwnedMemory {
    /// Reserves and allocates memory for a request. If there is too little memory, throws an error that names `field`,
    /// the argument that determines the size.
    package init(
        byteCount: Int, for field: String, reserve: MemoryReserve = { _ in }
    ) throws(EnvironmentError) {
        try reserve(byteCount)
        do throws(Reason) { self = try OwnedMemory(byteCount: byteCount) } catch {
            throw EnvironmentError(outOfMemory: error, for: field)
        }
    }
}
