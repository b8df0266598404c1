/// An error whose text tells the user why an operation failed.
public struct Reason: Error, CustomStringConvertible {
    public let description: String

    public init(_ description: String) { self.description = description }
}

/// Runs `body`. Converts a ``SystemError`` into a ``Reason`` that starts with `failure`, such as "can't make the
/// lock: Permission denied".
@discardableResult
package func explaining<Result: ~Copyable>(
    _ failure: @autoclosure () -> String, _ body: () throws(SystemError) -> Result
) throws(Reason) -> Result {
    do throws(SystemError) { return try body() } catch { throw Reason("\(failure()): \(error)") }
}
