internal import CZeroMQ

/// A context, which contains libzmq's I/O threads and all state that the sockets of a process share.
///
/// Create one context per process. Any thread can create sockets in it. A context is the only thread-safe object in
/// libzmq: each socket belongs to the thread that created it.
///
/// Each socket keeps its context. When nothing refers to the context any more, it waits for lingering messages and ends
/// the threads. (`zmq_ctx_term` would otherwise block until other threads have closed the sockets.)
///
/// `@unchecked Sendable` because a libzmq context is thread-safe, and `pointer` never changes.
public final class Context: @unchecked Sendable {
    let pointer: UnsafeMutableRawPointer

    /// Creates a context with one I/O thread, which transfers about a gigabyte per second.
    ///
    /// The context's sockets start with a linger time of zero instead of libzmq's "forever", so closing never hangs by
    /// default.
    ///
    /// - Throws: EMFILE if the process has no free descriptors.
    public init() throws(ZeroMQError) {
        let pointer = try check("zmq_ctx_new", making: zmq_ctx_new)
        self.pointer = pointer
        // because: with the option ZMQ_BLOCKY 0, libzmq starts sockets with linger zero.
        try check("zmq_ctx_set", on: "ZMQ_BLOCKY") { zmq_ctx_set(pointer, ZMQ_BLOCKY, 0) }
    }

    deinit {
        // because: it fails only if the pointer is not a context; ours is one until here. All sockets are closed, so
        // this waits at most for lingering messages.
        try! check("zmq_ctx_term") { zmq_ctx_term(pointer) }
    }
}
