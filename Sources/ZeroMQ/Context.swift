internal import CZeroMQ

/// A context: libzmq's I/O threads and everything that sockets of one process share.
///
/// Make one, make sockets in it, from any thread: a context is the one thing in libzmq that is
/// thread-safe. Sockets are not; each belongs to the thread that made it.
///
/// What happens at the end, in whatever order things go:
///
/// ```
/// shutdown() or the Context goes   every call on its sockets, blocked ones too, throws .terminated
/// its last Socket goes too         zmq_ctx_term: waits for what sockets still linger on, ends the threads
/// ```
///
/// So a socket that outlives its context is safe but useless, and nothing is terminated under a
/// socket's feet. (Plain `zmq_ctx_term` would block until somebody else closes the sockets.)
public struct Context: ~Copyable, Sendable {
    let handle: ContextHandle

    /// A context with `ioThreads` background threads (one does about a gigabyte a second; 0 is enough
    /// for inproc alone) and room for `maxSockets` sockets (nil: libzmq's default, 1023).
    ///
    /// Sockets made in it have `linger` zero, not libzmq's "forever", so ending never hangs unless
    /// asked to.
    ///
    /// The corresponding C functions are `zmq_ctx_new` and `zmq_ctx_set`.
    ///
    /// - Throws: `.invalidArgument` for a number that libzmq refuses, `.tooManySockets` when the
    ///   process is out of descriptors.
    public init(ioThreads: Int = 1, maxSockets: Int? = nil) throws(ZeroMQError) {
        let handle = try ContextHandle()
        try handle.set(ZMQ_IO_THREADS, to: ioThreads, name: "ZMQ_IO_THREADS")
        if let maxSockets {
            try handle.set(ZMQ_MAX_SOCKETS, to: maxSockets, name: "ZMQ_MAX_SOCKETS")
        }
        // because: "not blocky" is libzmq's way to say that sockets start with linger zero.
        try handle.set(ZMQ_BLOCKY, to: 0, name: "ZMQ_BLOCKY")
        self.handle = handle
    }

    /// Makes every call on this context's sockets throw `.terminated`, those now blocked in another
    /// thread first. Doesn't wait. Any thread may call it, any number of times.
    ///
    /// The corresponding C function is `zmq_ctx_shutdown`.
    public func shutdown() {
        handle.shutdown()
    }

    deinit {
        handle.shutdown()
    }
}
