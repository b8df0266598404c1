internal import CLinux

/// A descriptor that becomes readable when a signal arrives. It replaces signal handlers.
public final class Signals: Sendable {
    private let source: Descriptor

    /// The descriptor to poll. It is readable from the arrival of a signal until `take()`.
    public var descriptor: Int32 { source.number }

    /// Blocks these signals in the calling thread and in all threads that the calling thread starts later. Call it
    /// first in `main`.
    public init(_ numbers: Int32...) throws(SystemError) {
        var signals = sigset_t()
        sigemptyset(&signals)
        for number in numbers { sigaddset(&signals, number) }
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        source = try Descriptor(named: "signalfd") {
            signalfd(-1, &signals, Int32(SFD_CLOEXEC) | Int32(SFD_NONBLOCK))
        }
    }

    /// Consumes all signals that have arrived. Several signals count as one.
    package func take() {
        var signal = signalfd_siginfo()
        let size = MemoryLayout<signalfd_siginfo>.size
        while let count = try? system({ read(descriptor, &signal, size) }), count > 0 {}
    }
}
