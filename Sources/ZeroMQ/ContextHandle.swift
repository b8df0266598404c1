internal import CZeroMQ

/// The `void *` of a context, shared by its `Context` and all its sockets: the last one out terminates.
///
/// Because a libzmq context may be used from all threads at once, and `pointer` never changes, this is
/// Sendable, which the compiler can't see through a raw pointer.
final class ContextHandle: @unchecked Sendable {
    let pointer: UnsafeMutableRawPointer

    init() throws(ZeroMQError) {
        let pointer = try check("zmq_ctx_new", making: zmq_ctx_new)
        self.pointer = pointer
        // because: "not blocky" is libzmq's way to say that sockets start with linger zero.
        try check("zmq_ctx_set", on: "ZMQ_BLOCKY") { zmq_ctx_set(pointer, ZMQ_BLOCKY, 0) }
    }

    func shutdown() {
        // because: fails only for a pointer that is no context, and ours is one until deinit.
        try! check("zmq_ctx_shutdown") { zmq_ctx_shutdown(pointer) }
    }

    deinit {
        // because: as above; and no socket is left, so this waits for lingering messages at most.
        try! check("zmq_ctx_term") { zmq_ctx_term(pointer) }
    }
}
