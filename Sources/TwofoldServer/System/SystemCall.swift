internal import Glibc

/// The choke point: every system call that can fail goes through here, and what becomes of errno is written here
/// alone.
///
/// The policy for EINTR: a signal is not a result. The call is made again until it has one. (Not so `close`, which
/// only ``Descriptor`` calls: on Linux the descriptor is closed even then.)
///
/// - Parameter call: The call; a negative result is a failure whose reason is in errno.
@inline(__always)
@discardableResult
func system<Result: SignedInteger>(_ call: () -> Result) throws(SystemError) -> Result {
    while true {
        let result = call()
        if result >= 0 { return result }
        if errno != EINTR { throw SystemError(code: errno) }
    }
}

/// Why a system call failed: its errno, in the words of `strerror`.
struct SystemError: Error, Equatable, CustomStringConvertible {
    let code: Int32

    var description: String { String(cString: strerror(code)) }
}

/// Does what the server can't do without: a system call that fails in it becomes a ``ServerError`` of `failure` and the
/// reason, "can't make the lock: Permission denied".
@discardableResult
func explaining<Result: ~Copyable>(
    _ failure: @autoclosure () -> String, _ body: () throws(SystemError) -> Result
) throws(ServerError) -> Result {
    do throws(SystemError) { return try body() } catch { throw ServerError("\(failure()): \(error)") }
}
