internal import CZeroMQ
internal import Platform

/// Calls a libzmq function and throws an error if the call fails. All calls whose failure matters go through one
/// of the functions in this file.
///
/// A call interrupted by a signal (EINTR) is repeated. Therefore, no other code ever sees this error.
///
/// - Parameters:
///   - operation: The name of the C function.
///   - subject: The endpoint or option of the call. It is evaluated only if the call fails.
///   - call: The call. A negative result means failure; the reason is in `zmq_errno`.
@inline(__always)
@discardableResult
func check(
    _ operation: String, on subject: @autoclosure () -> String? = nil, _ call: () -> CInt
) throws(ZeroMQError) -> CInt {
    while true {
        let result = call()
        if result >= 0 { return result }
        let code = zmq_errno()
        if code != EINTR {
            throw ZeroMQError(code: code, operation: operation, subject: subject())
        }
    }
}

/// Calls a function that fails with EAGAIN instead of waiting. Returns true on success and false after EAGAIN.
/// Otherwise works like `check`.
@inline(__always)
func attempt(_ operation: String, _ call: () -> CInt) throws(ZeroMQError) -> Bool {
    do throws(ZeroMQError) {
        try check(operation, call)
        return true
    } catch {
        if error.code == EAGAIN { return false }
        throw error
    }
}

/// Calls a function that creates an object and returns null on failure. Otherwise works like `check`.
func check(
    _ operation: String, on subject: @autoclosure () -> String? = nil,
    making call: () -> UnsafeMutableRawPointer?
) throws(ZeroMQError) -> UnsafeMutableRawPointer {
    var made: UnsafeMutableRawPointer?
    try check(operation, on: subject()) {
        made = call()
        return made == nil ? -1 : 0
    }
    return made!  // because: null was thrown above
}

/// Calls `body` with memory for `capacity` bytes of text, including libzmq's terminating zero byte.
func withText<Result>(
    capacity: Int, _ body: (UnsafeMutablePointer<CChar>) throws(ZeroMQError) -> Result
) throws(ZeroMQError) -> Result {
    // because: the standard library's own function loses the error's type before Swift 6.3.
    let result = withUnsafeTemporaryAllocation(of: CChar.self, capacity: capacity) { memory in
        Swift.Result { () throws(ZeroMQError) in try body(memory.baseAddress!) }
    }
    return try result.get()
}
