internal import CZeroMQ

/// The `void *` of a libzmq context. A `Context` and all its sockets share it, and the last of them terminates the
/// context.
///
/// `@unchecked Sendable` because a libzmq context is thread-safe, and `pointer` never changes.
final class ContextHandle: @unchecked Sendable {
    let pointer: UnsafeMutableRawPointer

    init() throws(ZeroMQError) {
        let pointer = try check("zmq_ctx_new", making: zmq_ctx_new)
        self.pointer = pointer
        // because: with the option ZMQ_BLOCKY 0, libzmq starts sockets with linger zero.
        try check("zmq_ctx_set", on: "ZMQ_BLOCKY") { zmq_ctx_set(pointer, ZMQ_BLOCKY, 0) }
    }

    func shutdown() {
        // because: it fails only if the pointer is not a context; ours is one until deinit.
        try! check("zmq_ctx_shutdown") { zmq_ctx_shutdown(pointer) }
    }

    deinit {
        // because: as above. All sockets are closed, so this waits at most for lingering messages.
        try! check("zmq_ctx_term") { zmq_ctx_term(pointer) }
    }
}
