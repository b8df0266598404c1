/// Why something can't be done, in words for the person who wanted it.
public struct Reason: Error, CustomStringConvertible {
    /// The words.
    public let description: String

    /// With these words.
    public init(_ description: String) { self.description = description }
}

/// Does what its caller can't do without: a system call that fails in it becomes a ``Reason`` of `failure` and the
/// call's own, "can't make the lock: Permission denied".
@discardableResult
package func explaining<Result: ~Copyable>(
    _ failure: @autoclosure () -> String, _ body: () throws(SystemError) -> Result
) throws(Reason) -> Result {
    do throws(SystemError) { return try body() } catch { throw Reason("\(failure()): \(error)") }
}
