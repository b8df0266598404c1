/// A context: libzmq's I/O threads and all state that the sockets of one process share.
///
/// Make one context per process. Any thread can make sockets in it. A context is the only thread-safe object of
/// libzmq; each socket belongs to the thread that made it.
///
/// A context and its sockets may end in any order:
///
/// ```
///   the Context ends             every call on its sockets throws .terminated, including blocked ones
///   its last Socket ends, too    zmq_ctx_term waits for lingering messages and ends the threads
/// ```
///
/// A socket that outlives its context is therefore safe but useless. Nothing is terminated while a socket
/// still uses it. (Plain `zmq_ctx_term` would block until all sockets are closed elsewhere.)
public struct Context: ~Copyable, Sendable {
    let handle: ContextHandle

    /// Makes a context with one background thread, which transfers about a gigabyte per second.
    ///
    /// Its sockets start with `linger` zero, not with libzmq's "forever", so the end never hangs by default.
    ///
    /// The corresponding C functions are `zmq_ctx_new` and `zmq_ctx_set`.
    ///
    /// - Throws: EMFILE if the process has no free descriptors.
    public init() throws(ZeroMQError) { handle = try ContextHandle() }

    /// Shuts the context down. The corresponding C function is `zmq_ctx_shutdown`.
    deinit { handle.shutdown() }
}
