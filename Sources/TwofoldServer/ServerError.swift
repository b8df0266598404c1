internal import Platform

/// Why the server can't start or go on: one sentence for the person who started it.
public struct ServerError: Error, CustomStringConvertible {
    /// The sentence.
    public let description: String

    /// With this sentence.
    public init(_ description: String) { self.description = description }
}

/// Does what the server can't do without: a system call that fails in it becomes a ``ServerError`` of `failure` and the
/// reason, "can't make the lock: Permission denied".
@discardableResult
func explaining<Result: ~Copyable>(
    _ failure: @autoclosure () -> String, _ body: () throws(SystemError) -> Result
) throws(ServerError) -> Result {
    do throws(SystemError) { return try body() } catch { throw ServerError("\(failure()): \(error)") }
}
