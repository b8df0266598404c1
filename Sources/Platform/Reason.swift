/// An error whose text tells the user why something failed.
public struct Reason: Error, CustomStringConvertible {
    /// The text.
    public let description: String

    /// Makes a reason from its text.
    public init(_ description: String) { self.description = description }
}

/// Runs `body`, and turns its ``SystemError`` into a ``Reason`` with `failure` and the error's text: "can't make
/// the lock: Permission denied".
@discardableResult
package func explaining<Result: ~Copyable>(
    _ failure: @autoclosure () -> String, _ body: () throws(SystemError) -> Result
) throws(Reason) -> Result {
    do throws(SystemError) { return try body() } catch { throw Reason("\(failure()): \(error)") }
}
