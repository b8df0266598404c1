/// A context: libzmq's I/O threads and everything that sockets of one process share.
///
/// Make one, make sockets in it, from any thread: a context is the one thing in libzmq that is
/// thread-safe. Sockets are not; each belongs to the thread that made it.
///
/// What happens at the end, in whatever order things go:
///
/// ```
/// the Context goes           every call on its sockets, blocked ones too, throws .terminated
/// its last Socket goes too   zmq_ctx_term: waits for what sockets still linger on, ends the threads
/// ```
///
/// So a socket that outlives its context is safe but useless, and nothing is terminated under a
/// socket's feet. (Plain `zmq_ctx_term` would block until all sockets are closed elsewhere.)
public struct Context: ~Copyable, Sendable {
    let handle: ContextHandle

    /// A context with one background thread, which does about a gigabyte a second.
    ///
    /// Sockets made in it have `linger` zero, not libzmq's "forever", so ending never hangs unless
    /// asked to.
    ///
    /// The corresponding C functions are `zmq_ctx_new` and `zmq_ctx_set`.
    ///
    /// - Throws: EMFILE when the process is out of descriptors.
    public init() throws(ZeroMQError) { handle = try ContextHandle() }

    /// The corresponding C function is `zmq_ctx_shutdown`.
    deinit { handle.shutdown() }
}
