/// Makes a system call and throws its error. All system calls that can fail go through this function, and nothing
/// else reads errno.
///
/// The policy for EINTR: a signal is not a result, so the call is repeated until it returns one. (`close` is the
/// exception, and only ``Descriptor`` calls it: on Linux the descriptor is closed even after EINTR.)
///
/// - Parameters:
///   - name: The name of the call for the error message, if the caller does not add a description.
///   - call: The call. A negative result is a failure whose reason is in errno.
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

/// The error of a system call: its errno, in the words of `strerror`.
public struct SystemError: Error, CustomStringConvertible {
    package let code: Int32
    let name: String?

    /// Makes the error for this errno. `name` is the name of the call, if the errno alone is not clear.
    package init(code: Int32, name: String? = nil) {
        self.code = code
        self.name = name
    }

    public var description: String {
        (name.map { "\($0) failed: " } ?? "") + String(cString: strerror(code))
    }
}
