extension Duration {
    /// The duration in whole milliseconds, which is libzmq's unit.
    ///
    /// Rounds up; otherwise, a thread that waits for a deadline would wake too early and then poll in a busy loop. A
    /// duration that is too long for the type becomes the maximum value.
    var millisecondsRoundedUp: Int64 {
        let (whole, rest) = attoseconds.quotientAndRemainder(dividingBy: 1_000_000_000_000_000)
        return Int64(clamping: rest > 0 ? whole + 1 : whole)
    }
}
