/// The error thrown when an optimum is not available.
public struct OptimumFailure: Error, CustomStringConvertible {
    /// The reason, as one sentence.
    public let description: String
    public let kind: Kind

    public enum Kind: Sendable {
        /// The table's file is damaged. The failure persists until the file changes.
        case damagedTable
        /// The process has too little memory.
        case outOfMemory
        /// Any other cause.
        case other
    }

    init(kind: Kind = .other, _ description: String) {
        self.kind = kind
        self.description = description
    }
}
