internal import CLinux
internal import Glibc

/// SIGTERM and SIGINT as a descriptor that becomes readable, instead of a handler.
public struct StopSignals: ~Copyable {
    /// Readable once a signal has come.
    public let descriptor: Int32

    /// Blocks both signals in this thread and all threads that it starts from now on: call it first
    /// thing in `main`.
    public init() throws(ServerError) {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGTERM)
        sigaddset(&signals, SIGINT)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        descriptor = signalfd(-1, &signals, Int32(SFD_CLOEXEC))
        guard descriptor >= 0 else {
            throw ServerError("signalfd failed: \(ServerError.reason)")
        }
    }

    deinit { close(descriptor) }
}
