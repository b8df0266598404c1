internal import CLinux
internal import Glibc

/// SIGTERM and SIGINT as a descriptor that becomes readable, instead of a handler.
public struct StopSignals: ~Copyable {
    private let pending: Descriptor

    /// Blocks both signals in this thread and all threads that it starts from now on: call it first
    /// thing in `main`.
    public init() throws(ServerError) {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGTERM)
        sigaddset(&signals, SIGINT)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        pending = try Descriptor(signalfd(-1, &signals, Int32(SFD_CLOEXEC)), "signalfd")
    }

    /// Readable once a signal has come.
    public var descriptor: Int32 { pending.number }
}
