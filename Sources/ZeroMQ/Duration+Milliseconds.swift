extension Duration {
    /// The duration in whole milliseconds, which is libzmq's unit.
    ///
    /// Rounds up; otherwise, a thread that waits for a deadline would wake too early and then poll in a busy loop. A
    /// duration that is too long for the type becomes the maximum value.
    var millisecondsRoundedUp: Int64 {
        let (seconds, attoseconds) = components
        let attosecondsPerMillisecond: Int64 = 1_000_000_000_000_000
        let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        if overflow { return seconds < 0 ? .min : .max }
        var part = attoseconds / attosecondsPerMillisecond
        if attoseconds > 0, attoseconds % attosecondsPerMillisecond != 0 { part += 1 }
        let (sum, tooMuch) = whole.addingReportingOverflow(part)
        return tooMuch ? (seconds < 0 ? .min : .max) : sum
    }
}
