/// Makes a system call and throws an error if the call fails. All system calls whose failure is reported go through
/// this function, except for calls that return a pointer.
///
/// A call interrupted by a signal (EINTR) is repeated. The exception is `close`, which only ``Descriptor`` calls:
/// on Linux, the descriptor is closed even after EINTR.
///
/// - Parameters:
///   - name: The call's name for the error message. Omit it if the caller adds a description.
///   - call: The call. A negative result means failure; the reason is in errno.
@inline(__always)
@discardableResult
package func system<Result: SignedInteger>(
    named name: String? = nil, _ call: () -> Result
) throws(SystemError) -> Result {
    while true {
        let result = call()
        if result >= 0 { return result }
        if errno != EINTR { throw SystemError(code: errno, name: name) }
    }
}

/// The error from a failed system call. Its description is the message from `strerror`, preceded by the call's name if
/// there is one.
public struct SystemError: Error, CustomStringConvertible {
    package let code: Int32
    let name: String?

    /// Creates the error for an errno. Pass the call's name if the errno alone would not be clear.
    package init(code: Int32, name: String? = nil) {
        self.code = code
        self.name = name
    }

    public var description: String {
        (name.map { "\($0) failed: " } ?? "") + String(cString: strerror(code))
    }
}
