internal import CLinux

/// A descriptor that becomes readable when a signal arrives, which replaces a signal handler.
public final class Signals: Sendable {
    private let source: Descriptor

    /// The descriptor, which is readable from the arrival of a signal until `take()`.
    public var descriptor: Int32 { source.number }

    /// Blocks these signals in this thread and in all threads that it starts later. Call it first in `main`.
    public init(_ numbers: Int32...) throws(SystemError) {
        var signals = sigset_t()
        sigemptyset(&signals)
        for number in numbers { sigaddset(&signals, number) }
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        source = try Descriptor(named: "signalfd") {
            signalfd(-1, &signals, Int32(SFD_CLOEXEC) | Int32(SFD_NONBLOCK))
        }
    }

    /// Consumes the signals that have arrived; they count as one.
    package func take() {
        var signal = signalfd_siginfo()
        let size = MemoryLayout<signalfd_siginfo>.size
        while let count = try? system({ read(descriptor, &signal, size) }), count > 0 {}
    }
}
