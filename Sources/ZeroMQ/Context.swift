/// A context, which contains libzmq's I/O threads and all state that the sockets of a process share.
///
/// Create one context per process. Any thread can create sockets in it. A context is the only thread-safe object in
/// libzmq: each socket belongs to the thread that created it.
///
/// A context and its sockets may be deinitialised in any order:
///
/// ```
///   the Context ends             every call on its sockets throws ETERM, including blocked calls
///   its last Socket ends, too    zmq_ctx_term waits for lingering messages and ends the threads
/// ```
///
/// A socket that outlives its context is therefore safe but useless. libzmq frees nothing that a socket still uses.
/// (Plain `zmq_ctx_term` would block until all sockets have been closed by other threads.)
public struct Context: ~Copyable, Sendable {
    let handle: ContextHandle

    /// Creates a context with one I/O thread, which transfers about a gigabyte per second.
    ///
    /// The context's sockets start with a linger time of zero instead of libzmq's "forever", so closing never hangs by
    /// default.
    ///
    /// The corresponding C functions are `zmq_ctx_new` and `zmq_ctx_set`.
    ///
    /// - Throws: EMFILE if the process has no free descriptors.
    public init() throws(ZeroMQError) { handle = try ContextHandle() }

    /// Shuts the context down. The corresponding C function is `zmq_ctx_shutdown`.
    deinit { handle.shutdown() }
}
