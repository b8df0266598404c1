internal import CPlatform

/// A descriptor that becomes readable when a signal arrives. The handlers of the signals only ring a bell, because a
/// handler may call almost no other function. Use one instance at a time for a signal.
public final class Signals: Sendable {
    private let numbers: [Int32]
    private let wakeup: Wakeup

    /// The descriptor to poll. It is readable from the arrival of a signal until `take()`.
    public var descriptor: Int32 { wakeup.descriptor }

    /// Catches these signals from now on. The calling thread gets them, even if it was started with them blocked.
    /// Signals that are ignored stay ignored if they are in `unlessIgnored`: nohup and shells rely on this.
    public init(_ numbers: Int32..., unlessIgnored: Int32...) throws(SystemError) {
        self.numbers = numbers + unlessIgnored.filter { !twofold_ignores_signal($0) }
        wakeup = try Wakeup()
        for number in self.numbers {
            try system(named: "sigaction") { twofold_report_signal(number, wakeup.writingEnd) }
        }
    }

    /// Ignores the signals from now on.
    deinit { for number in numbers { signal(number, SIG_IGN) } }

    /// Consumes all signals that have arrived. Several signals count as one.
    package func take() { wakeup.silence() }
}
