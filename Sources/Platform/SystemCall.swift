/// The choke point: every system call that can fail goes through here, and what becomes of errno is written here
/// alone.
///
/// The policy for EINTR: a signal is not a result. The call is made again until it has one. (Not so `close`, which
/// only ``Descriptor`` calls: on Linux the descriptor is closed even then.)
///
/// - Parameters:
///   - name: The call's name for the error, where the caller adds no words of its own.
///   - call: The call; a negative result is a failure whose reason is in errno.
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

/// Why a system call failed: its errno, in the words of `strerror`.
public struct SystemError: Error, CustomStringConvertible {
    package let code: Int32
    let name: String?

    /// A call that failed with this errno; `name` is the call's, where the reason alone does not say enough.
    package init(code: Int32, name: String? = nil) {
        self.code = code
        self.name = name
    }

    public var description: String {
        (name.map { "\($0) failed: " } ?? "") + String(cString: strerror(code))
    }
}
