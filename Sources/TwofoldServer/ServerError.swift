/// Why the server can't start or go on: one sentence for the person who started it.
public struct ServerError: Error, CustomStringConvertible {
    /// The sentence.
    public let description: String

    /// With this sentence.
    public init(_ description: String) { self.description = description }
}
