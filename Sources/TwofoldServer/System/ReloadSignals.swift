internal import CLinux
internal import Glibc

/// SIGHUP as a descriptor that becomes readable, instead of a handler. Where nothing can be read again, it asks
/// the server to stop.
public final class ReloadSignals: Sendable {
    /// Readable once a signal has come, until it is taken.
    let descriptor: Int32

    /// Blocks the signal in this thread and all threads that it starts from now on: call it first thing in
    /// `main`.
    public init() throws(ServerError) {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGHUP)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        descriptor = signalfd(-1, &signals, Int32(SFD_CLOEXEC) | Int32(SFD_NONBLOCK))
        guard descriptor >= 0 else {
            throw ServerError("signalfd failed: \(ServerError.reason)")
        }
    }

    deinit { close(descriptor) }

    /// Takes the signals that have come; they are one.
    func take() {
        var signal = signalfd_siginfo()
        while read(descriptor, &signal, MemoryLayout<signalfd_siginfo>.size) > 0 {}
    }
}
